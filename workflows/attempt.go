package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// AttemptInput is one deployment of a job. Its plan is in the store.
type AttemptInput struct {
	Job     activities.Job `json:"job"`
	Attempt job.Attempt    `json:"attempt"`
	Nodes   []job.NodeID   `json:"nodes"`
	// Watchers are nodes that can watch, the best first.
	Watchers []job.NodeID `json:"watchers"`
	// Bounded: the sources come to an end, which the job wants to know.
	Bounded bool `json:"bounded,omitempty"`
}

// SourcesEnded tells a StreamJob that every source of an attempt has reached its end.
type SourcesEnded struct {
	UID     job.UID     `json:"uid"`
	Attempt job.Attempt `json:"attempt"`
}

const (
	// watches is how many nodes watch an attempt.
	watches = 2
	// stopWait is how long the end of an attempt waits for the nodes to have stopped: long enough for those
	// that are well, and no lost one is waited for.
	stopWait = 3 * time.Second
	// rewatch is the pause before a watcher that failed is replaced.
	rewatch = 10 * time.Second
)

// Attempt holds one RunTasks activity per node. It ends when the job stops it (cancels it), when any node
// fails or is lost, or when the StreamJob is closed; then it stops all nodes, best effort, and tells the
// StreamJob. Behind a closed StreamJob it brings the sinks to rest itself. A failure names node, subtask
// and cause.
func Attempt(ctx workflow.Context, in AttemptInput) (activities.Ending, error) {
	a := &attempt{in: in}
	a.ctx, _ = workflow.NewDisconnectedContext(ctx)
	work, cancel := workflow.WithCancel(a.ctx)
	a.run(ctx, work)
	stops := a.stop()
	a.settle(stops)
	cancel() // the fallback, where StopTasks did not arrive
	told := a.tell()
	workflow.SetCurrentDetails(ctx, line(a.end.Kind+": "+a.end.Cause))
	if !told || a.jobClosed {
		a.cleanUp()
	}
	for _, f := range stops { // bounded by their timeouts
		_ = f.Get(a.ctx, nil)
	}
	if a.end.Kind == activities.Stopped {
		return a.end, nil
	}
	return a.end, temporal.NewApplicationErrorWithOptions(a.end.Cause, a.end.Kind,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{a.end}})
}

type attempt struct {
	in        AttemptInput
	ctx       workflow.Context // goes on after a cancellation
	runs      []workflow.Future
	lost      job.NodeID
	gone      []job.NodeID // when it was lost; nobody waits for them
	jobClosed bool
	end       activities.Ending
}

func (a *attempt) task() activities.TaskInput {
	return activities.TaskInput{Job: a.in.Job, Attempt: a.in.Attempt}
}

// run deploys and returns when the attempt must end, with a.end set.
func (a *attempt) run(ctx, work workflow.Context) {
	for _, n := range a.in.Nodes {
		a.runs = append(a.runs, runTasks(work, n, a.task()))
	}
	for i := range min(watches, len(a.in.Watchers)) {
		workflow.GoNamed(work, fmt.Sprintf("watch-%d", i), func(ctx workflow.Context) { a.watch(ctx, i) })
	}
	workflow.GoNamed(work, "watch-anywhere", a.watchAnywhere)
	if a.in.Bounded {
		workflow.GoNamed(work, "sources", a.awaitSources)
	}
	err := workflow.Await(ctx, func() bool { return a.jobClosed || a.lost != "" || a.anyEnded() })
	switch {
	case err != nil:
		a.end = activities.Ending{Kind: activities.Stopped, Cause: "the job stopped it"}
	case a.jobClosed:
		a.end = activities.Ending{Kind: activities.Stopped, Cause: "the job's workflow is closed"}
	case a.lost != "":
		a.end = activities.Ending{Kind: activities.TypePeerLost, Node: a.lost, Cause: fmt.Sprintf("peer lost: node %s left the cluster's membership", a.lost)}
	}
	a.explain()
}

func (a *attempt) anyEnded() bool {
	for _, f := range a.runs {
		if f.IsReady() {
			return true
		}
	}
	return false
}

// explain takes the report that says most about why the attempt ended.
func (a *attempt) explain() {
	if a.end.Kind == activities.Stopped {
		return
	}
	for i, f := range a.runs {
		if !f.IsReady() || temporal.IsCanceledError(f.Get(a.ctx, nil)) {
			continue
		}
		e := endingOf(a.in.Nodes[i], f.Get(a.ctx, nil))
		if a.end.Kind == "" || rank(e.Kind) > rank(a.end.Kind) {
			a.end = e
		}
	}
}

// watch keeps one WatchNodes going, on the next candidate when one fails.
func (a *attempt) watch(ctx workflow.Context, i int) {
	for k := i; ; k += watches {
		var w activities.Watched
		in := activities.WatchInput{Job: a.in.Job, Attempt: a.in.Attempt, Nodes: a.in.Nodes}
		err := watchNodes(ctx, a.in.Watchers[k%len(a.in.Watchers)], in).Get(ctx, &w)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			a.watched(w)
			return
		}
		if workflow.Sleep(ctx, rewatch) != nil {
			return
		}
	}
}

// watchAnywhere has any living process watch the nodes too: the nodes that watch may all die with those that
// they watch.
func (a *attempt) watchAnywhere(ctx workflow.Context) {
	var w activities.Watched
	in := activities.WatchInput{Job: a.in.Job, Attempt: a.in.Attempt, Nodes: a.in.Nodes}
	if watchAttempt(ctx, in).Get(ctx, &w) != nil {
		return // the attempt is ending
	}
	a.watched(w)
}

// watched notes why a watch has ended.
func (a *attempt) watched(w activities.Watched) {
	if w.Lost != "" {
		a.lost, a.gone = w.Lost, w.Gone
	}
	a.jobClosed = a.jobClosed || w.Closed
}

// awaitSources tells the StreamJob when every source has ended, so that it takes the final checkpoint.
func (a *attempt) awaitSources(ctx workflow.Context) {
	var ends []workflow.Future
	for _, n := range a.in.Nodes {
		ends = append(ends, awaitEnd(ctx, n, a.task()))
	}
	for _, f := range ends {
		if f.Get(ctx, nil) != nil {
			return // the attempt is ending, or the next periodic checkpoint will find out
		}
	}
	in := SourcesEnded{UID: a.in.Job.UID, Attempt: a.in.Attempt}
	_ = workflow.SignalExternalWorkflow(ctx, a.in.Job.Name, "", SignalSourcesEnded, in).Get(ctx, nil)
}

// stop asks every node to stop, in parallel.
func (a *attempt) stop() []workflow.Future {
	var stops []workflow.Future
	for _, n := range a.in.Nodes {
		stops = append(stops, stopTasks(a.ctx, n, a.task()))
	}
	return stops
}

// settle waits until the nodes that are not known to be lost have stopped, or for a short time, and looks
// again for the best report of what happened: the node that fails first is often heard of last.
func (a *attempt) settle(stops []workflow.Future) {
	gone := a.gone
	if a.end.Kind == activities.TypePeerLost || a.end.Kind == activities.TypeNodeLeaving {
		gone = append(gone, a.end.Node)
	}
	timer, cancel := workflow.WithCancel(a.ctx)
	defer cancel()
	late := workflow.NewTimerWithOptions(timer, stopWait, workflow.TimerOptions{Summary: "wait for the nodes to stop"})
	_ = workflow.Await(a.ctx, func() bool {
		for i, f := range stops {
			if !f.IsReady() && !slices.Contains(gone, a.in.Nodes[i]) {
				return late.IsReady()
			}
		}
		return true
	})
	a.explain()
}

// tell reports the end to the StreamJob; false when there is none any more.
func (a *attempt) tell() bool {
	in := activities.AttemptEnded{UID: a.in.Job.UID, Attempt: a.in.Attempt, Outcome: a.end}
	return workflow.SignalExternalWorkflow(a.ctx, a.in.Job.Name, "", SignalAttemptEnded, in).Get(a.ctx, nil) == nil
}

// cleanUp does what every terminal path of a job does, on behalf of a StreamJob that was terminated: a new
// attempt number that is never deployed, and RecoverSinks under it. If somebody has planned since, that
// planner has done so already, and doing it again could abort what runs now.
func (a *attempt) cleanUp() {
	above := a.in.Attempt
	for try := 0; ; try++ {
		claim, err := claimAttempt(a.ctx, activities.ClaimInput{Job: a.in.Job, Above: above, OnlyIfNewest: true})
		if err == nil && claim.Superseded {
			return
		}
		if err == nil {
			above = claim.Attempt
			var r activities.Recovery
			r, err = recoverSinks(a.ctx, activities.RecoverInput{Job: a.in.Job, Attempt: claim.Attempt, Manifest: claim.Newest})
			if err == nil && r.Verdict != activities.Again {
				return
			}
		}
		if err != nil && final(err) {
			return
		}
		if workflow.Sleep(a.ctx, waiting(try)) != nil {
			return
		}
	}
}
