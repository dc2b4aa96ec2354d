package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/workflows"
)

func checkpointInput() workflows.CheckpointInput {
	return workflows.CheckpointInput{
		Job: testJob, Attempt: 1, ID: 7, Nodes: []job.NodeID{"n1", "n2"}, Timeout: time.Minute, Transactional: true,
	}
}

// take runs one Checkpoint and returns its record, out of the failure if it failed.
func (s *script) take(in workflows.CheckpointInput) (r workflows.CheckpointRecord) {
	s.Helper()
	s.env.ExecuteWorkflow(workflows.Checkpoint, in)
	if !s.env.IsWorkflowCompleted() {
		s.Fatal("the checkpoint has not ended")
	}
	err := s.env.GetWorkflowError()
	if err == nil {
		if err := s.env.GetWorkflowResult(&r); err != nil {
			s.Fatal(err)
		}
		return r
	}
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != workflows.TypeAborted {
		s.Fatalf("the checkpoint ended with %v", err)
	}
	if err := app.Details(&r); err != nil {
		s.Fatal(err)
	}
	return r
}

var committing = []string{"commit", "abort", "sinks"}

func TestCheckpointCommits(t *testing.T) {
	s := newScript(t)
	if r := s.take(checkpointInput()); r.Result != workflows.Committed || r.ID != 7 || r.Attempt != 1 {
		t.Errorf("record %+v, want 7 committed", r)
	}
	s.want("calls", s.called(committing...), "commit 7 with 2 acks", "sinks 7")
}

func TestCheckpointWithoutTransactionsNeedsNoSinks(t *testing.T) {
	s := newScript(t)
	s.commit = func(context.Context, activities.CommitInput) (activities.Decision, error) {
		return activities.Decision{Verdict: activities.Durable}, nil
	}
	in := checkpointInput()
	in.Transactional = false
	if r := s.take(in); r.Result != workflows.Committed {
		t.Errorf("record %+v, want committed", r)
	}
	s.want("calls", s.called(committing...), "commit 7 with 2 acks")
}

func TestCheckpointDeclined(t *testing.T) {
	s := newScript(t)
	s.share = func(_ context.Context, node string, _ activities.SnapshotInput) (checkpoint.Ack, error) {
		if node == "n2" {
			return checkpoint.Ack{}, failureOf(activities.TypeDeclined, "node n2: checkpoint 7 declined: disk is full")
		}
		return checkpoint.Ack{Node: "n1"}, nil
	}
	if r := s.take(checkpointInput()); r.Result != workflows.Aborted || r.Reason != "node n2: checkpoint 7 declined: disk is full" {
		t.Errorf("record %+v, want aborted for the node's reason", r)
	}
	s.want("calls", s.called(committing...), "abort 7: node n2: checkpoint 7 declined: disk is full")
}

// A checkpoint that every node refuses and that has been decided already was ordered by a run that does not know: its
// transactions are not touched, and the job is told.
func TestCheckpointSuperseded(t *testing.T) {
	for _, stands := range []string{activities.Durable, activities.Aborted} {
		s := newScript(t)
		s.share = func(context.Context, string, activities.SnapshotInput) (checkpoint.Ack, error) {
			return checkpoint.Ack{}, failureOf(activities.TypeDeclined, "every checkpoint up to 9 is decided")
		}
		s.abort = func(activities.AbortInput) (activities.Decision, error) {
			return activities.Decision{Verdict: stands, Foreign: true, Transactions: 2}, nil
		}
		if r := s.take(checkpointInput()); r.Result != workflows.Superseded || !strings.Contains(r.Reason, stands) || !strings.Contains(r.Reason, "up to 9") {
			t.Errorf("record %+v, want superseded, %s and why", r, stands)
		}
		s.want("calls", s.called(committing...), "abort 7: every checkpoint up to 9 is decided")
	}
}

// A node without an answer does not block the checkpoint beyond its deadline.
func TestCheckpointTimesOut(t *testing.T) {
	s := newScript(t)
	s.share = func(_ context.Context, node string, _ activities.SnapshotInput) (checkpoint.Ack, error) {
		if node == "n2" {
			return checkpoint.Ack{}, temporal.NewHeartbeatTimeoutError()
		}
		return checkpoint.Ack{Node: "n1"}, nil
	}
	if r := s.take(checkpointInput()); r.Result != workflows.Aborted || r.Reason != "node n2 did not answer in time" {
		t.Errorf("record %+v, want aborted for node n2", r)
	}
}

func TestCheckpointOfEndedAttempt(t *testing.T) {
	s := newScript(t)
	s.share = func(ctx context.Context, node string, _ activities.SnapshotInput) (checkpoint.Ack, error) {
		return checkpoint.Ack{}, s.hold(ctx, "share "+node)
	}
	s.at(time.Second, s.env.CancelWorkflow)
	if r := s.take(checkpointInput()); r.Result != workflows.Aborted {
		t.Errorf("record %+v, want aborted", r)
	}
	s.want("calls", s.called(committing...), "abort 7: attempt 1 ended")
}

// The attempt ends while the commit is on its way: an abort competes, and whoever wrote first is obeyed. The
// transactions are left to recovery.
func TestCheckpointAbortRacesCommit(t *testing.T) {
	for _, stands := range []string{activities.Durable, activities.Aborted} {
		s := newScript(t)
		s.commit = func(ctx context.Context, _ activities.CommitInput) (activities.Decision, error) {
			return activities.Decision{}, s.hold(ctx, "commit")
		}
		s.abort = func(activities.AbortInput) (activities.Decision, error) {
			return activities.Decision{Verdict: stands}, nil
		}
		s.at(time.Second, s.env.CancelWorkflow)
		if r := s.take(checkpointInput()); r.Result != stands {
			t.Errorf("record %+v, want what stands in the store: %s", r, stands)
		}
		s.want("calls", s.called(committing...), "commit 7 with 2 acks", "abort 7: attempt 1 ended")
	}
}

func TestCheckpointRefusedAndLost(t *testing.T) {
	s := newScript(t)
	s.commit = func(context.Context, activities.CommitInput) (activities.Decision, error) {
		return activities.Decision{Verdict: activities.Refused, Reason: "transaction too old"}, nil
	}
	if r := s.take(checkpointInput()); r.Result != workflows.Refused || r.Reason != "transaction too old" {
		t.Errorf("record %+v, want refused", r)
	}
	s = newScript(t)
	s.sinks = func(context.Context, activities.SinksInput) (activities.SinksResult, error) {
		return activities.SinksResult{Stake: "10 records"}, nil
	}
	if r := s.take(checkpointInput()); r.Result != workflows.Lost || r.Reason != "10 records" {
		t.Errorf("record %+v, want lost with what is at stake", r)
	}
	s = newScript(t)
	s.sinks = func(ctx context.Context, _ activities.SinksInput) (activities.SinksResult, error) {
		return activities.SinksResult{}, s.hold(ctx, "sinks")
	}
	s.at(time.Second, s.env.CancelWorkflow)
	if r := s.take(checkpointInput()); r.Result != workflows.Durable {
		t.Errorf("record %+v, want durable: recovery commits its transactions", r)
	}
}
