package workflows_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/activities/activitiestest"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/workflows"
)

// resetTo says to which workflow task of a job's history it is reset.
type resetTo func(h *historypb.History, v workflows.Status) int64

func firstTask(h *historypb.History, _ workflows.Status) int64 { return tasks(h)[0] }

func lastTask(h *historypb.History, _ workflows.Status) int64 {
	all := tasks(h)
	return all[len(all)-1]
}

// tasks are the completed workflow tasks.
func tasks(h *historypb.History) (ids []int64) {
	for _, e := range h.Events {
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			ids = append(ids, e.EventId)
		}
	}
	return ids
}

// ordered is the workflow task that ordered a child: after the reset it is ordered again.
func ordered(child func(v workflows.Status) string) resetTo {
	return func(h *historypb.History, v workflows.Status) int64 {
		for _, e := range h.Events {
			if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil && a.WorkflowId == child(v) {
				return a.WorkflowTaskCompletedEventId
			}
		}
		panic("no child " + child(v))
	}
}

func checkpointID(v workflows.Status, id job.CheckpointID) string {
	return activities.CheckpointID(v.Job, v.UID, id)
}

// A job whose workflow is reset, to whatever point, with a checkpoint in flight, goes on by itself: what the run
// forgot is in the store. Nothing of the time before is decided twice, lost or left running.
func TestResetJobGoesOn(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3", "n4")
	for i, tc := range []struct {
		name string
		to   resetTo
		// limit makes the job continue as new, attempts is how many it has had.
		limit    int
		attempts int
	}{
		{"to its first task", firstTask, 0, 1},
		{"to its last task", lastTask, 0, 1},
		{"to where the open checkpoint was ordered", ordered(func(v workflows.Status) string { return checkpointID(v, v.InFlight) }), 0, 1},
		{"to where an earlier checkpoint was ordered", ordered(func(v workflows.Status) string { return checkpointID(v, v.Durable-4) }), 0, 1},
		{"to where its attempt was started", ordered(func(v workflows.Status) string {
			return activities.AttemptID(v.Job, job.Ref{UID: v.UID, Attempt: v.Attempt})
		}), 0, 1},
		{"to where an earlier attempt was started", ordered(func(v workflows.Status) string {
			return activities.AttemptID(v.Job, job.Ref{UID: v.UID, Attempt: v.Attempt - 1})
		}), 0, 2},
		{"to the first task of a later run", firstTask, 80, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.T = t
			name := fmt.Sprintf("reset-%d", i)
			s := spec()
			s.Interval, s.Timeout = 300*time.Millisecond, 2*time.Second
			s.Restart = activities.Restart{Kind: "none"} // a reset is no failure
			first := w.submit(name, s, workflows.StartOptions{HistoryLimit: tc.limit})
			if tc.limit > 0 {
				w.eventually("a later run", func() bool { return w.currentRun(name) != first.GetRunID() })
			}
			before := w.disturbed(name, tc.attempts)
			began := time.Now()
			w.reset(name, tc.to, before)
			for _, n := range w.all() {
				n.Resume()
			}
			after := w.until(name, "two later checkpoints", func(s workflows.Status) bool {
				return s.State == "running" && s.Durable > before.InFlight+1
			})
			t.Logf("from %d, in flight %d, to %d of attempt %d, %v after the reset: %s",
				before.Durable, before.InFlight, after.Durable, after.Attempt, time.Since(began).Round(10*time.Millisecond), after.LastFailure)
			if after.UID != before.UID {
				t.Errorf("uid %s, want still %s", after.UID, before.UID)
			}
			w.consistent(after)
			if err := w.client.CancelWorkflow(t.Context(), name, ""); err != nil {
				t.Fatal(err)
			}
			w.eventually("the job is closed", func() bool { return w.closed(name) })
			w.nothingIsLeft(after)
			w.noFailedTasksButReset(name)
		})
	}
}

// A job that is terminated with a checkpoint in flight leaves no part of it behind, and goes on from there.
func TestTerminatedWithCheckpointInFlight(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	s := spec()
	s.Interval = 300 * time.Millisecond
	w.submit("felled", s, nil)
	before := w.disturbed("felled", 1)
	if err := w.client.TerminateWorkflow(t.Context(), "felled", "", "test"); err != nil {
		t.Fatal(err)
	}
	w.nothingIsLeft(before)
	for _, n := range w.all() {
		n.Resume()
	}
	run := w.submit("felled", s, workflows.StartOptions{From: activities.FromLatest})
	after := w.until("felled", "a later checkpoint", func(s workflows.Status) bool { return s.Durable > before.InFlight })
	if after.UID != before.UID || after.Attempt <= before.Attempt+1 {
		t.Errorf("goes on as attempt %d of %s, want a later one than %d and that which cleaned up, of %s", after.Attempt, after.UID, before.Attempt, before.UID)
	}
	w.consistent(after)
	w.end("felled", run)
	w.nothingIsLeft(after)
}

// openCheckpoints are the checkpoints that a run ordered and has not heard the end of.
func openCheckpoints(h *historypb.History) (open []string) {
	ended := map[int64]bool{}
	for _, e := range h.Events {
		if a := e.GetChildWorkflowExecutionCompletedEventAttributes(); a != nil {
			ended[a.InitiatedEventId] = true
		}
		if a := e.GetChildWorkflowExecutionFailedEventAttributes(); a != nil {
			ended[a.InitiatedEventId] = true
		}
	}
	for _, e := range h.Events {
		if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil && a.WorkflowType.GetName() == "Checkpoint" && !ended[e.EventId] {
			open = append(open, a.WorkflowId)
		}
	}
	return open
}

// disturbed returns the status of a job in its given attempt, perhaps in a later run, that has several checkpoints and
// one in flight that does not come to an end.
func (w *world) disturbed(name string, attempts int) workflows.Status {
	w.Helper()
	first := w.until(name, "running", func(s workflows.Status) bool { return s.State == "running" && s.Succeeded >= 2 })
	for a := 1; a < attempts; a++ {
		n := w.node(first.Nodes[0])
		n.Fail(job.Ref{UID: first.UID, Attempt: first.Attempt}, job.ErrNodeLeaving)
		first = w.until(name, "another attempt", func(s workflows.Status) bool { return s.Attempt > first.Attempt && s.State == "running" })
	}
	first = w.until(name, "several checkpoints", func(s workflows.Status) bool {
		return s.Attempt == first.Attempt && s.Durable > first.Durable+4
	})
	stalled := w.node(first.Nodes[0])
	stalled.Stall()
	w.eventually("a share is held back", func() bool { return stalled.Held() > 0 })
	return w.until(name, "that checkpoint in flight", func(s workflows.Status) bool { return s.InFlight == stalled.Held() })
}

// reset does what temporal workflow reset does.
func (w *world) reset(name string, to resetTo, v workflows.Status) {
	w.Helper()
	run := w.currentRun(name)
	_, err := w.client.ResetWorkflowExecution(w.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: w.ns, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: name, RunId: run},
		Reason: "test", WorkflowTaskFinishEventId: to(w.history(name, run), v), RequestId: name,
	})
	if err != nil {
		w.Fatalf("reset %s: %v", name, err)
	}
}

func (w *world) currentRun(name string) string {
	w.Helper()
	d, err := w.client.DescribeWorkflow(w.Context(), name, "")
	if err != nil {
		w.Fatal(err)
	}
	return d.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// consistent looks at what the store and the sinks hold of a job: every durable checkpoint before the newest has all of
// its transactions committed.
func (w *world) consistent(v workflows.Status) {
	w.Helper()
	look, err := snapshot.SurveyJob(context.Background(), w.store, v.UID, true)
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range look.Decisions {
		if m.Kind != checkpoint.Durable || m.ID >= v.Durable {
			continue
		}
		for _, x := range m.Transactions {
			if s := w.cluster.Sinks.State(x.ID); s != activitiestest.Committed {
				w.Errorf("transaction %s of checkpoint %d is %s, want committed", x.ID, m.ID, s)
			}
		}
	}
}

// nothingIsLeft waits until no node, transaction or workflow of a job that has ended is left.
func (w *world) nothingIsLeft(v workflows.Status) {
	w.Helper()
	w.nothingRuns()
	w.eventually("no transaction is open", func() bool { return w.cluster.Sinks.Count(v.UID, activitiestest.Ongoing) == 0 })
	w.eventually("every workflow of "+v.Job+" is closed", func() bool {
		r, err := w.client.ListWorkflow(w.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: w.ns, Query: fmt.Sprintf(`ExecutionStatus = "Running" AND WorkflowId STARTS_WITH %q`, v.Job),
		})
		return err == nil && len(r.GetExecutions()) == 0
	})
}

// noFailedTasksButReset asserts that no workflow task of the newest run failed, other than by the reset itself.
func (w *world) noFailedTasksButReset(name string) {
	w.Helper()
	for _, e := range w.history(name, w.currentRun(name)).Events {
		a := e.GetWorkflowTaskFailedEventAttributes()
		if a == nil || a.Cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND || a.Cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			continue
		}
		w.Errorf("%s: workflow task failed: %v: %s", name, a.Cause, a.GetFailure().GetMessage())
	}
}
