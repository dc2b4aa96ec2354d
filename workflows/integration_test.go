package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/activities/activitiestest"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/workflows"
)

func spec() activitiestest.Spec {
	return activitiestest.Spec{
		Parallelism: 2, Transactional: true, Interval: time.Second, Timeout: time.Minute, Keep: 3,
		Restart: activities.Restart{Kind: "backoff", Initial: time.Second, Max: 10 * time.Second, ResetAfter: time.Minute},
	}
}

// A job takes checkpoints, loses a node, goes on with the next attempt from the latest checkpoint, and ends
// as cancelled, with no transaction left open.
func TestJobSurvivesLossOfNodeAndCancels(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	run := w.submit("orders", spec(), nil)
	first := w.until("orders", "three checkpoints", func(s workflows.Status) bool { return s.Succeeded >= 3 })
	if first.Attempt != 1 || len(first.Nodes) != 2 {
		t.Fatalf("status %+v, want attempt 1 on two nodes", first)
	}
	w.cluster.Kill(first.Nodes[0])
	killed := time.Now()
	w.nodes[first.Nodes[0]].Stop()
	w.until("orders", "running again", func(s workflows.Status) bool { return s.Attempt > first.Attempt && s.State == "running" })
	t.Logf("running again after %v", time.Since(killed))
	second := w.until("orders", "a later attempt with a later checkpoint", func(s workflows.Status) bool {
		return s.Attempt > first.Attempt && s.Durable > first.Durable+1 && s.State == "running"
	})
	if !strings.Contains(second.LastFailure, string(first.Nodes[0])) {
		t.Errorf("last failure %q does not name node %s", second.LastFailure, first.Nodes[0])
	}
	for _, n := range second.Nodes {
		if n == first.Nodes[0] {
			t.Errorf("attempt %d runs on the lost node %s", second.Attempt, n)
		}
	}
	if err := w.client.CancelWorkflow(t.Context(), "orders", ""); err != nil {
		t.Fatal(err)
	}
	var cancelled *temporal.CanceledError
	if err := run.Get(t.Context(), nil); !errors.As(err, &cancelled) {
		t.Fatalf("the job ended with %v, want a cancellation", err)
	}
	if n := w.cluster.Sinks.Count(second.UID, activitiestest.Ongoing); n != 0 {
		t.Errorf("%d transactions are open after the end", n)
	}
	look := w.survey(second.UID)
	if !look.Found || look.Newest.ID < second.Durable {
		t.Errorf("newest checkpoint %d, want at least %d", look.Newest.ID, second.Durable)
	}
	if look.MaxAttempt <= second.Attempt {
		t.Errorf("highest attempt %d, want a terminal one above %d", look.MaxAttempt, second.Attempt)
	}
	w.nothingRuns()
	w.noFailedTasks("orders", run.GetRunID())
	w.record("job-cancelled", "orders", run.GetRunID())
	w.record("attempt-node-lost", activities.AttemptID("orders", job.Ref{UID: second.UID, Attempt: first.Attempt}), "")
	w.record("attempt-stopped", activities.AttemptID("orders", job.Ref{UID: second.UID, Attempt: second.Attempt}), "")
	w.record("checkpoint-committed", activities.CheckpointID("orders", second.UID, first.Durable), "")
}

// A checkpoint that is in flight when its attempt fails is decided before the next attempt is planned: its
// abort record stands below the claim.
func TestCheckpointInFlightIsDecidedFirst(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	run := w.submit("inflight", spec(), nil)
	first := w.until("inflight", "one checkpoint", func(s workflows.Status) bool { return s.Succeeded >= 1 })
	stalled := w.node(first.Nodes[0])
	stalled.Stall()
	w.eventually("a share is held back", func() bool { return stalled.Held() > 0 })
	v := w.until("inflight", "that checkpoint in flight", func(s workflows.Status) bool { return s.InFlight == stalled.Held() })
	stalled.Fail(job.Ref{UID: v.UID, Attempt: v.Attempt}, job.ErrNodeLeaving)
	next := w.until("inflight", "a second attempt", func(s workflows.Status) bool { return s.Attempt > v.Attempt && s.State == "running" })
	m, err := snapshot.ReadManifest(t.Context(), w.store, v.UID, v.InFlight)
	if err != nil || m.Kind != checkpoint.Aborted || m.Attempt != v.Attempt {
		t.Errorf("checkpoint %d is %+v (%v), want it aborted by attempt %d", v.InFlight, m, err, v.Attempt)
	}
	m, err = snapshot.ReadManifest(t.Context(), w.store, v.UID, v.InFlight+1)
	if err != nil || m.Kind != checkpoint.Aborted || m.Attempt != next.Attempt {
		t.Errorf("checkpoint %d is %+v (%v), want the claim of attempt %d", v.InFlight+1, m, err, next.Attempt)
	}
	if n := len(stalled.Running()); n != 0 {
		t.Errorf("%d attempts run on the node that was stalled and left", n)
	}
	w.end("inflight", run)
	w.record("job-checkpoint-in-flight", "inflight", run.GetRunID())
	w.record("checkpoint-of-ended-attempt", activities.CheckpointID("inflight", v.UID, v.InFlight), "")
}

// The budget of PROTOCOL.md: at most 20 events of the StreamJob per checkpoint, 30 + 6 a node of the child.
func TestEventBudget(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	s := spec()
	s.Interval = 2 * time.Second // with timers
	run := w.submit("budget", s, nil)
	w.until("budget", "one checkpoint", func(s workflows.Status) bool { return s.Succeeded >= 1 })
	from := len(w.history("budget", run.GetRunID()).Events)
	v := w.until("budget", "seven checkpoints", func(s workflows.Status) bool { return s.Succeeded >= 7 })
	if got, most := len(w.history("budget", run.GetRunID()).Events)-from, 20*6; got > most {
		t.Errorf("%d events for six checkpoints, want at most %d", got, most)
	} else {
		t.Logf("%d events for six checkpoints", got)
	}
	child := len(w.history(activities.CheckpointID("budget", v.UID, v.Durable), "").Events)
	if most := 30 + 6*len(v.Nodes); child > most {
		t.Errorf("%d events in the child, want at most %d", child, most)
	} else {
		t.Logf("%d events in the child", child)
	}
	w.end("budget", run)
	w.record("job-with-timers", "budget", run.GetRunID())
}

// A terminated StreamJob leaves nothing behind: its Attempt stops the nodes and brings the sinks to rest.
func TestTerminatedJobIsCleanedUp(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	w.submit("gone", spec(), nil)
	v := w.until("gone", "two checkpoints", func(s workflows.Status) bool { return s.Succeeded >= 2 })
	if err := w.client.TerminateWorkflow(t.Context(), "gone", "", "test"); err != nil {
		t.Fatal(err)
	}
	id := activities.AttemptID("gone", job.Ref{UID: v.UID, Attempt: v.Attempt})
	w.eventually("the attempt is closed", func() bool { return w.closed(id) })
	w.nothingRuns()
	if n := w.cluster.Sinks.Count(v.UID, activitiestest.Ongoing); n != 0 {
		t.Errorf("%d transactions are open after the termination", n)
	}
	look := w.survey(v.UID)
	m, err := snapshot.ReadManifest(t.Context(), w.store, v.UID, look.Decided[len(look.Decided)-1])
	if err != nil || m.Kind != checkpoint.Aborted || m.Attempt <= v.Attempt {
		t.Errorf("the highest decision is %+v (%v), want the claim of a terminal attempt", m, err)
	}
	if open, err := activities.AttemptOpen(t.Context(), w.executions(), "gone", job.Ref{UID: v.UID, Attempt: v.Attempt}); err != nil || open {
		t.Errorf("AttemptOpen = %v, %v; want false", open, err)
	}
	w.record("attempt-of-terminated-job", id, "")
}

// A bounded job ends after its final checkpoint; nothing is deployed again.
func TestBoundedJobIsDone(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	s := spec()
	s.Bounded, s.Interval = true, time.Minute
	run := w.submit("batch", s, nil)
	v := w.until("batch", "running", func(s workflows.Status) bool { return s.State == "running" })
	ref := job.Ref{UID: v.UID, Attempt: v.Attempt}
	w.eventually("both nodes run", func() bool { return len(w.running(ref)) == 2 })
	for _, n := range w.running(ref) {
		n.EndSources(ref)
	}
	var r workflows.Result
	if err := run.Get(t.Context(), &r); err != nil {
		t.Fatalf("the job failed: %v", err)
	}
	if r.Latest != 2 || r.Checkpoints != 1 || r.Restarts != 0 { // 1 is the first attempt's claim
		t.Errorf("result %+v, want the one final checkpoint 2 and no restart", r)
	}
	if look := w.survey(v.UID); !look.Newest.Final {
		t.Errorf("newest checkpoint %d is not final", look.Newest.ID)
	}
	if n := w.cluster.Sinks.Count(v.UID, activitiestest.Ongoing); n != 0 {
		t.Errorf("%d transactions are open after the end", n)
	}
	w.nothingRuns()
	w.record("job-bounded", "batch", run.GetRunID())
	w.record("attempt-bounded", activities.AttemptID("batch", ref), "")
	w.record("checkpoint-final", activities.CheckpointID("batch", v.UID, r.Latest), "")
	again := w.submit("batch", s, nil) // a finished job's name is free
	w.until("batch", "running again", func(s workflows.Status) bool { return s.State == "running" && s.UID != v.UID })
	w.end("batch", again)
}

// A run that continues as new keeps what it knows, and a failure after that restarts the job as before.
func TestContinueAsNewCarriesState(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	run := w.submit("long", spec(), workflows.StartOptions{HistoryLimit: 60})
	firstRun := run.GetRunID()
	first := w.until("long", "seven checkpoints", func(s workflows.Status) bool { return s.Succeeded >= 7 })
	if first.Attempt != 1 || first.Restarts != 0 {
		t.Errorf("attempt %d, %d restarts; want the first attempt to live on", first.Attempt, first.Restarts)
	}
	d, err := w.client.DescribeWorkflow(t.Context(), "long", "")
	if err != nil {
		t.Fatal(err)
	}
	if latest := d.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId(); latest == firstRun {
		t.Fatalf("seven checkpoints and still the first run %s", latest)
	}
	w.cluster.Kill(first.Nodes[1])
	w.nodes[first.Nodes[1]].Stop()
	w.until("long", "a second attempt", func(s workflows.Status) bool { return s.Attempt > 1 && s.Durable > first.Durable+1 })
	w.end("long", run)
	w.noFailedTasks("long", firstRun)
	if open := openCheckpoints(w.history("long", firstRun)); len(open) > 0 {
		t.Errorf("the first run continued as new while %v were open: nobody hears of their end", open)
	}
	w.record("job-continues-first", "long", firstRun)
	w.record("job-continues-last", "long", "")
}

// The update "checkpoint" takes one at once and answers with its record.
func TestUpdateCheckpoint(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	s := spec()
	s.Interval = time.Hour
	s.Transactional = false
	run := w.submit("manual", s, nil)
	w.until("manual", "running", func(s workflows.Status) bool { return s.State == "running" })
	var view workflows.CheckpointView
	if err := w.update("manual", &view); err != nil {
		t.Fatalf("update: %v", err)
	}
	if view.Result != workflows.Committed || view.State != "2.0 MiB" {
		t.Errorf("answer %+v, want a committed checkpoint of 2.0 MiB", view)
	}
	for _, n := range w.all() {
		n.Decline("disk is full")
	}
	if err := w.update("manual", new(workflows.CheckpointView)); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("update of a declined checkpoint: %v, want the reason", err)
	}
	v := w.until("manual", "a failed checkpoint", func(s workflows.Status) bool { return s.Failed == 1 })
	if v.Attempt != 1 {
		t.Errorf("attempt %d: a declined checkpoint must not end the attempt", v.Attempt)
	}
	w.end("manual", run)
	w.record("job-updates", "manual", run.GetRunID())
	w.record("checkpoint-declined", activities.CheckpointID("manual", v.UID, view.ID+1), "")
}

// A spec with mistakes fails the workflow at once, with every one of them.
func TestInvalidSpecFailsAtOnce(t *testing.T) {
	w := newWorld(t, "n1")
	s := spec()
	s.Problems = []string{"job.yaml:3:5: sources.a.topc: unknown key; did you mean topic?", "job.yaml:9:1: steps: empty"}
	err := w.submit("bad", s, nil).Get(t.Context(), nil)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != activities.TypeInvalidSpec {
		t.Fatalf("the job ended with %v, want %s", err, activities.TypeInvalidSpec)
	}
	for _, p := range s.Problems {
		if !strings.Contains(app.Message(), p) {
			t.Errorf("message %q lacks %q", app.Message(), p)
		}
	}
	err = w.submit("bad", spec(), map[string]string{"form": "latest"}).Get(t.Context(), nil)
	if !errors.As(err, &app) || !strings.Contains(app.Message(), `unknown field "form"`) {
		t.Errorf("misspelt option: %v, want it named", err)
	}
}

// A name with checkpoints of an unfinished run is refused, unless the options say what to do with them.
func TestUnfinishedNameIsRefused(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	run := w.submit("twice", spec(), nil)
	old := w.until("twice", "two checkpoints", func(s workflows.Status) bool { return s.Succeeded >= 2 })
	w.end("twice", run)
	err := w.submit("twice", spec(), nil).Get(t.Context(), nil)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != activities.TypeRefused {
		t.Fatalf("second start ended with %v, want %s", err, activities.TypeRefused)
	}
	run = w.submit("twice", spec(), workflows.StartOptions{From: activities.FromLatest})
	v := w.until("twice", "a checkpoint after going on", func(s workflows.Status) bool { return s.Succeeded >= 1 })
	if v.UID != old.UID || v.Durable <= old.Durable || v.Attempt <= old.Attempt {
		t.Errorf("went on as %+v, want uid %s, checkpoint above %d, attempt above %d", v, old.UID, old.Durable, old.Attempt)
	}
	if n := w.planner.Starts(); n != 1 {
		t.Errorf("start positions were resolved %d times, want once", n)
	}
	w.end("twice", run)
	run = w.submit("twice", spec(), workflows.StartOptions{From: activities.FromFresh})
	v = w.until("twice", "running afresh", func(s workflows.Status) bool { return s.State == "running" })
	if v.UID == old.UID {
		t.Errorf("fresh start has the old uid %s", v.UID)
	}
	w.end("twice", run)
}

// A job waits for slots and says so, and starts as soon as there are enough.
func TestWaitsForSlots(t *testing.T) {
	w := newWorld(t, "n1")
	s := spec()
	s.Parallelism = 4
	run := w.submit("big", s, nil)
	v := w.until("big", "waiting", func(s workflows.Status) bool { return s.State == "waiting" })
	if !strings.Contains(v.WaitingFor, "needs 4") {
		t.Errorf("waiting for %q, want the number of slots", v.WaitingFor)
	}
	w.add("n2")
	w.until("big", "running", func(s workflows.Status) bool { return s.State == "running" && len(s.Nodes) == 2 })
	w.end("big", run)
	w.record("job-waits", "big", run.GetRunID())
}

// A broken broker is said within seconds and waited for; cancelling while waiting works.
func TestWaitsForBroker(t *testing.T) {
	w := newWorld(t, "n1")
	w.planner.SetDown(errors.New("broker kafka:9092: connection refused"))
	run := w.submit("early", spec(), nil)
	w.until("early", "waiting for the broker", func(s workflows.Status) bool {
		return s.State == "waiting" && strings.Contains(s.WaitingFor, "connection refused")
	})
	w.end("early", run)
}

// A strategy that allows no restart fails the job with the cause: node, subtask, reason.
func TestFailureIsReadable(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	s := spec()
	s.Restart = activities.Restart{Kind: "none"}
	run := w.submit("fails", s, nil)
	v := w.until("fails", "one checkpoint", func(s workflows.Status) bool { return s.Succeeded >= 1 })
	ref := job.Ref{UID: v.UID, Attempt: v.Attempt}
	cause := &job.SubtaskError{Node: "n2", Subtask: job.SubtaskID{Vertex: "out", Index: 1}, Err: errors.New("integer overflow in totals.sum")}
	w.node("n1").Fail(ref, &job.PeerLostError{Node: "n2", Why: "connection closed"}) // heard of first, explains least
	w.node("n2").Fail(ref, cause)
	var app *temporal.ApplicationError
	if err := run.Get(t.Context(), nil); !errors.As(err, &app) {
		t.Fatalf("the job ended with %v, want a failure", err)
	}
	for _, part := range []string{"attempt 1", "n2", "out[1]", "integer overflow", `"none"`} {
		if !strings.Contains(app.Message(), part) {
			t.Errorf("message %q lacks %q", app.Message(), part)
		}
	}
	w.nothingRuns()
	w.record("job-failed", "fails", run.GetRunID())
	w.record("attempt-failed", activities.AttemptID("fails", ref), "")
}

func (w *world) update(name string, into any) error {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	h, err := w.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: name, UpdateName: workflows.UpdateCheckpoint, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, into)
}

// end cancels a job and waits for it.
func (w *world) end(name string, run client.WorkflowRun) {
	w.Helper()
	if err := w.client.CancelWorkflow(w.Context(), name, ""); err != nil {
		w.Fatalf("cancel %s: %v", name, err)
	}
	var cancelled *temporal.CanceledError
	if err := run.Get(w.Context(), nil); !errors.As(err, &cancelled) {
		w.Fatalf("job %s ended with %v, want a cancellation", name, err)
	}
	w.noFailedTasks(name, run.GetRunID())
}

func (w *world) survey(uid job.UID) snapshot.Survey {
	w.Helper()
	look, err := snapshot.SurveyJob(context.Background(), w.store, uid, false)
	if err != nil {
		w.Fatalf("survey: %v", err)
	}
	return look
}

func (w *world) all() []*activitiestest.Node { return w.cluster.All() }

func (w *world) node(id job.NodeID) *activitiestest.Node {
	w.Helper()
	for _, n := range w.all() {
		if n.ID() == id {
			return n
		}
	}
	w.Fatalf("no node %s", id)
	return nil
}

func (w *world) running(ref job.Ref) (out []*activitiestest.Node) {
	for _, n := range w.all() {
		for _, r := range n.Running() {
			if r == ref {
				out = append(out, n)
			}
		}
	}
	return out
}

// nothingRuns waits until no node runs anything.
func (w *world) nothingRuns() {
	w.Helper()
	w.eventually("all nodes are idle", func() bool {
		for _, n := range w.all() {
			if len(n.Running()) > 0 {
				return false
			}
		}
		return true
	})
}
