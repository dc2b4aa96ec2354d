package crash

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.temporal.io/sdk/client"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/connector/kafka"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/workflows"
)

const (
	// Twenty seconds of input at most: it flows, and transactions are open, when the crash comes, and for a
	// while after it.
	records   = 10_000
	perSecond = 500
	after     = time.Second
	// patience bounds every wait; cases take a tenth of it on an idle machine.
	patience = 90 * time.Second
	// held is how long a process stands at a point after another was killed, if the job does not get over
	// that without it.
	held = 3 * time.Second
)

// run is one case: a job that runs, a crash at the point, and equality.
type run struct {
	*suite
	t       *testing.T
	c       crashCase
	name    string
	brokers []string
	rules   *rules
	// point is the index of the rule at which the crash comes.
	point int
	// enough is closed some time after it: the input ends.
	enough chan struct{}
	work   proof.Workload // what was sent, once produced
	reader *proof.Reader
	ctx    context.Context
}

// provocation kills a worker between freezing and uploading, so that a checkpoint is in flight.
const provocation = "snapshot.frozen=kill"

func (s *suite) run(t *testing.T, c crashCase) {
	s.cases++
	r := &run{suite: s, t: t, c: c, name: fmt.Sprintf("crash-%d", s.cases), work: proof.NewWorkload(uint64(s.cases), records), enough: make(chan struct{})}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	r.ctx = ctx
	r.brokers = kafkatest.Fake(t).ListenAddrs()
	r.plan()
	if err := proof.CreateTopics(ctx, r.brokers, 4); err != nil {
		t.Fatal(err)
	}
	s.restart(t, append(r.rules.env(), "KAFKA="+r.brokers[0])...)
	t.Cleanup(r.logs)
	for _, w := range s.stack.Workers {
		go supervise(ctx, w)
	}
	var err error
	if r.reader, err = proof.NewReader(r.brokers); err != nil {
		t.Fatal(err)
	}
	defer r.reader.Close()
	produced := r.begin()
	r.await("point "+c.point, func() bool { return r.rules.fired(r.point) != 0 })
	r.strike()
	time.AfterFunc(after, func() { close(r.enough) })
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	r.equal()
}

// plan writes the rules of the case.
func (r *run) plan() {
	var list []string
	switch r.c.way.road {
	case failure:
		list = append(list, provocation)
	case race: // the second rule only tells that the manifest's writer is through
		list = append(list, "commit.before-manifest-put=pause", "commit.after-manifest-put=sleep(0s)")
	case loss:
		list = append(list, "commit.after-manifest-put=pause")
	case refusal:
		list = append(list, "part.after-put=pause")
	}
	if r.c.errs {
		list = append(list, r.c.point+"=error")
	}
	act := "pause"
	if r.self() {
		act = "kill"
	}
	r.point = len(list)
	r.rules = newRules(r.t, append(list, r.c.point+"="+act)...)
}

// self reports whether the process that stands at the point is the one to kill.
func (r *run) self() bool {
	return r.c.target == worker && r.c.way.plane == data || r.c.target == control && r.c.way.plane == steering
}

// begin starts the job and the input, and arms the points when the job is where they are to act.
func (r *run) begin() <-chan error {
	produced := make(chan error, 1)
	switch r.c.way.road {
	case start:
		r.rules.touch(r.t, failpoint.ArmedFile)
	case end:
		r.work.Records /= 4
		if err := r.work.Produce(r.ctx, r.brokers, 0, nil); err != nil {
			r.t.Fatal(err)
		}
		r.rules.touch(r.t, failpoint.ArmedFile)
		produced <- nil
	}
	r.submit(workflows.StartOptions{})
	if r.c.way.road == end {
		return produced
	}
	go func() {
		var err error
		r.work, err = r.work.ProduceUntil(r.ctx, r.brokers, perSecond, nil, r.enough)
		produced <- err
	}()
	if r.c.way.road == start {
		return produced
	}
	r.await("output of the first checkpoint", func() bool { return r.reader.Passed() > 0 })
	r.rules.touch(r.t, failpoint.ArmedFile)
	switch r.c.way.road {
	case loss:
		r.lose()
	case refusal:
		r.loseParts()
	case spared:
		r.await("the job's own control activity", func() bool { return r.holder(r.name, "AwaitAttempt") != 0 })
		r.victim(r.holder(r.name, "AwaitAttempt"), worker).Kill()
	case terminated:
		if err := r.client.TerminateWorkflow(r.ctx, r.name, "", "crash test"); err != nil {
			r.t.Fatal(err)
		}
	case race:
		r.await("a manifest about to be written", func() bool { return r.rules.fired(0) != 0 })
		r.victim(r.rules.fired(0), worker).Kill()
	}
	return produced
}

// submit starts the job.
func (r *run) submit(o workflows.StartOptions) {
	spec := proof.Spec(proof.SpecOptions{Parallelism: 3, Interval: time.Second})
	if r.c.way.road == end {
		spec = []byte(strings.NewReplacer("topic: transfers}", "topic: transfers, bounded: latest}", "topic: logins}", "topic: logins, bounded: latest}").Replace(string(spec)))
	}
	j, err := config.ParseJob("job.yaml", spec)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.client.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: r.name, TaskQueue: activities.ControlQueue},
		"StreamJob", j.JSON(), o)
	if err != nil {
		r.t.Fatal(err)
	}
}

// lose has the brokers abort every open transaction while a durable checkpoint's are to be committed.
func (r *run) lose() {
	r.await("a durable checkpoint", func() bool { return r.rules.fired(0) != 0 })
	st, err := r.status(r.name)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := kafka.NewCommitter(kafka.ConnConfig{Brokers: r.brokers}, "")
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	open, err := c.Open(r.ctx, st.UID)
	if err != nil || len(open) == 0 {
		r.t.Fatalf("%d open transactions (%v), want some", len(open), err)
	}
	for _, o := range open {
		if err := c.AbortOpen(r.ctx, o); err != nil {
			r.t.Fatal(err)
		}
	}
	r.rules.touch(r.t, failpoint.ContinueFile(0))
}

// loseParts deletes what the nodes have written of a checkpoint, before one of them can acknowledge its part.
func (r *run) loseParts() {
	r.await("a part of a checkpoint", func() bool { return r.rules.fired(0) != 0 })
	st, err := r.status(r.name)
	if err != nil {
		r.t.Fatal(err)
	}
	names := snapshot.Names{UID: st.UID}
	var newest job.CheckpointID
	parts := map[job.CheckpointID][]string{}
	objects, err := r.store.List(r.ctx, names.Prefix())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range objects {
		if p := names.Parse(o.Key); p.Kind == "part" {
			newest = max(newest, p.Checkpoint)
			parts[p.Checkpoint] = append(parts[p.Checkpoint], o.Key)
		}
	}
	if len(parts) == 0 {
		r.t.Fatal("no part in the store")
	}
	if err := r.store.Delete(r.ctx, parts[newest]...); err != nil {
		r.t.Fatal(err)
	}
	r.rules.touch(r.t, failpoint.ContinueFile(0))
}

// strike kills whom the case says, unless the point has done so, and lets what stands at the point go on.
func (r *run) strike() {
	pid := r.rules.fired(r.point)
	switch {
	case r.self():
	case r.c.target == all:
		for _, w := range r.stack.Workers {
			w.Kill()
		}
	default:
		before, _ := r.status(r.name)
		r.victim(pid, r.c.target).Kill()
		limit := time.Now().Add(held)
		r.await("the next attempt, or the end of the hold", func() bool {
			st, err := r.status(r.name)
			return err == nil && st.Attempt > before.Attempt && st.State == "running" || time.Now().After(limit)
		})
	}
	if r.c.way.road == race { // the manifest is written first now, and the abort must obey it
		r.rules.touch(r.t, failpoint.ContinueFile(0))
		limit := time.Now().Add(held)
		r.await("the manifest's writer, if it lives", func() bool { return r.rules.fired(1) != 0 || time.Now().After(limit) })
	}
	r.rules.touch(r.t, failpoint.ContinueFile(r.point)) // also for those who come there later
	if r.c.way.road == terminated {
		r.submit(workflows.StartOptions{From: activities.FromLatest})
	}
}

// victim chooses a process other than pid, which stands at a point: for the target control the one that holds
// the job's control activity, for worker one that runs tasks.
func (r *run) victim(pid int, who target) *local.Worker {
	var idle *local.Worker
	holder := r.holder(r.name, "AwaitAttempt")
	for _, w := range r.stack.Workers {
		if w.Pid() == pid || !w.Alive() {
			continue
		}
		if who == control && w.Pid() == holder {
			return w
		}
		if f, err := w.Figures(r.ctx); err == nil && len(f) > 0 && who == worker {
			return w
		}
		idle = w
	}
	if idle == nil {
		r.t.Fatal("no other worker is alive")
	}
	return idle
}

// equal waits for the whole output, ends the job and judges: what was shown, and that nothing is left open.
func (r *run) equal() {
	r.t.Helper()
	want := r.work.Expect()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	waited := r.reader.Await(ctx, want)
	if v := r.reader.Verdict(want); waited != nil || !v.ExactlyOnce() {
		r.t.Fatalf("not exactly once (%v)\n%s", waited, v)
	}
	bounded := r.c.way.road == end
	if !bounded {
		if err := r.client.CancelWorkflow(ctx, r.name, ""); err != nil {
			r.t.Fatal(err)
		}
	}
	err := r.client.GetWorkflow(ctx, r.name, "").Get(ctx, nil)
	if ctx.Err() != nil || bounded && err != nil {
		r.t.Fatalf("the job did not end: %v", err)
	}
	if v := r.reader.Verdict(want); !v.ExactlyOnce() {
		r.t.Fatalf("not exactly once after the end\n%s", v)
	}
	listed, err := kadm.NewClient(kafkatest.Client(r.t, r.brokers)).ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range listed.Sorted() {
		r.t.Errorf("transaction %s is open after the job's end", l.TxnID)
	}
}

// await polls until the condition holds: there is no event to await across processes.
func (r *run) await(what string, cond func() bool) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			st, err := r.status(r.name)
			r.t.Fatalf("%s: not within %s; the job: %+v %v", what, patience, st, err)
		case <-r.ctx.Done():
			r.t.Fatal(context.Cause(r.ctx))
		}
	}
}

// logs prints the end of the workers' logs of a failed case.
func (r *run) logs() {
	if !r.t.Failed() {
		return
	}
	for _, w := range r.stack.Workers {
		b, err := os.ReadFile(w.Log())
		if err == nil {
			r.t.Logf("== worker %d (pid %d)\n%s", w.Index, w.Pid(), b[max(0, len(b)-6000):])
		}
	}
	fired, _ := os.ReadFile(r.rules.dir + "/log")
	r.t.Logf("== rules %v, fired:\n%s", r.rules.list, fired)
}
