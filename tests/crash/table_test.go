package crash

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/failpoint"
)

// target is whom the crash hits while a process stands at a point.
type target string

const (
	// worker: a worker of the attempt. At a point of the data plane the one that stands there, at one of the
	// control plane another.
	worker target = "worker"
	// all: every worker at once.
	all target = "all"
	// control: the process that runs the control activity. At a point of the control plane the one that
	// stands there, at one of the data plane that which holds the job's.
	control target = "control"
)

var targets = []target{worker, all, control}

// plane is whose step a point is.
type plane int

const (
	data plane = iota
	steering
)

// road is how a job comes to a point.
type road int

const (
	// steady: by itself, again and again.
	steady road = iota
	// start: once, when the job starts.
	start
	// failure: when a worker was killed between freezing and uploading.
	failure
	// spared: when a worker was killed that does not run the job's own control activity.
	spared
	// terminated: when the job's workflow was terminated; it is started again from its latest checkpoint.
	terminated
	// race: when a worker was killed while the manifest was about to be written, so that an abort comes too.
	race
	// loss: when the brokers have aborted the transactions of a durable checkpoint.
	loss
	// refusal: when a part of a checkpoint is gone once its node has acknowledged it.
	refusal
	// end: when every source of a bounded job has ended.
	end
)

// way says how to reach a point.
type way struct {
	plane plane
	road  road
}

// ways has an entry for each fail point that is not one of many.
var ways = map[string]way{
	"barrier.before":             {data, steady},
	"snapshot.frozen":            {data, steady},
	"upload.before":              {data, steady},
	"upload.after":               {data, steady},
	"precommit.before-flush":     {data, steady},
	"precommit.after-flush":      {data, steady},
	"part.before-put":            {data, steady},
	"part.after-put":             {data, steady},
	"commit.before-manifest-put": {steering, steady},
	"commit.after-manifest-put":  {steering, steady},
	"commit.manifest-reply-lost": {steering, steady},
	"abort.before-record-put":    {steering, race},
	"abort.after-record-put":     {steering, failure},
	"refusal.before-record-put":  {steering, refusal},
	"refusal.after-record-put":   {steering, refusal},
	"endtxn.before":              {steering, steady},
	"endtxn.after":               {steering, steady},
	"endtxn.reply-lost":          {steering, steady},
	"marker.before-put":          {steering, steady},
	"marker.after-put":           {steering, steady},
	"claim.before-put":           {steering, failure},
	"claim.after-put":            {steering, failure},
	"recover.before-sinks":       {steering, failure},
	"leftover.before-abort":      {steering, failure},
	"leftover.after-abort":       {steering, failure},
}

// activityWays has an entry for each activity: how the job comes to its completion.
var activityWays = map[string]way{
	"PlanJob":          {steering, start},
	"StartPosition":    {steering, start},
	"SearchAttributes": {steering, start},
	"ClaimAttempt":     {steering, failure},
	"RecoverSinks":     {steering, failure},
	"PlaceAttempt":     {steering, failure},
	"AwaitAttempt":     {steering, spared},
	"WatchAttempt":     {steering, terminated},
	"CommitCheckpoint": {steering, steady},
	"AbortCheckpoint":  {steering, failure},
	"CommitSinks":      {steering, steady},
	"Retain":           {steering, steady},
	"FallBack":         {steering, loss},
	"RunTasks":         {data, failure},
	"StopTasks":        {data, failure},
	"WatchNodes":       {data, terminated},
	"Snapshot":         {data, steady},
	"AwaitEnd":         {data, end},
}

// crashCase is one line of the table: a point, and who is killed while a process stands there.
type crashCase struct {
	point  string // as a rule names it: name or name[instance]
	errs   bool   // the point stands for a lost reply
	way    way
	target target
}

func (c crashCase) String() string { return fmt.Sprintf("%s/%s", c.point, c.target) }

// table is every point of the code × every target.
func table() (cases []crashCase) {
	for _, p := range failpoint.Points() {
		names := map[string]way{p.Name: ways[p.Name]}
		order := []string{p.Name}
		if p.Each {
			names, order = map[string]way{}, nil
			for _, a := range activityNames() {
				name := fmt.Sprintf("%s[%s]", p.Name, a)
				names[name] = activityWays[a]
				order = append(order, name)
			}
		}
		for _, name := range order {
			for _, t := range targets {
				cases = append(cases, crashCase{point: name, errs: p.Errs, way: names[name], target: t})
			}
		}
	}
	return cases
}

// activityNames are the activities that the workers register, by their methods.
func activityNames() (names []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[*activities.Control](), reflect.TypeFor[*activities.NodeBound]()} {
		for i := range t.NumMethod() {
			names = append(names, t.Method(i).Name)
		}
	}
	return names
}

// TestTableIsComplete: each fail point of the code and each activity has a way by which a job comes there, and
// no way leads to what does not exist.
func TestTableIsComplete(t *testing.T) {
	left, leftActivities := map[string]bool{}, map[string]bool{}
	for name := range ways {
		left[name] = true
	}
	for name := range activityWays {
		leftActivities[name] = true
	}
	for _, p := range failpoint.Points() {
		if p.Each {
			if !strings.HasPrefix(p.Name, "activity.") {
				t.Errorf("point %q is one of many, and the table does not know of what", p.Name)
			}
			continue
		}
		if !left[p.Name] {
			t.Errorf("no way leads to point %q", p.Name)
		}
		delete(left, p.Name)
	}
	for _, a := range activityNames() {
		if !leftActivities[a] {
			t.Errorf("no way leads to the completion of activity %q", a)
		}
		delete(leftActivities, a)
	}
	for name := range left {
		t.Errorf("a way leads to point %q, which does not exist", name)
	}
	for name := range leftActivities {
		t.Errorf("a way leads to activity %q, which does not exist", name)
	}
	seen := map[string]bool{}
	for _, c := range table() {
		if seen[c.String()] {
			t.Errorf("case %s is in the table twice", c)
		}
		seen[c.String()] = true
	}
	points := len(ways) + 2*len(activityWays)
	if got, want := len(seen), points*len(targets); got != want {
		t.Errorf("%d cases, want %d points × %d targets", got, points, len(targets))
	}
}
