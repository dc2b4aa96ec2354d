package workflows_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/workflows"
)

// job prepares a StreamJob whose children are played by the test: an Attempt that lives until it is
// cancelled and then tells so, and Checkpoints that s.chk answers.
func (s *script) job() {
	s.Helper()
	attempts := map[string]workflows.AttemptInput{}
	s.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in workflows.AttemptInput) (activities.Ending, error) {
		attempts[workflow.GetInfo(ctx).WorkflowExecution.ID] = in
		s.note("attempt %d starts", in.Attempt)
		workflow.NewSelector(ctx).AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).
			AddReceive(workflow.GetSignalChannel(ctx, "end"), func(workflow.ReceiveChannel, bool) {}).Select(ctx)
		return activities.Ending{}, ctx.Err()
	}, workflow.RegisterOptions{Name: "Attempt"})
	s.env.SetOnChildWorkflowCompletedListener(func(info *workflow.Info, _ converter.EncodedValue, err error) {
		if in, ok := attempts[info.WorkflowExecution.ID]; ok && err != nil {
			s.note("attempt %d is stopped", in.Attempt)
			s.ended(in.Attempt, activities.Stopped, "the job stopped it")
		}
	})
	s.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in workflows.CheckpointInput) (workflows.CheckpointRecord, error) {
		s.note("checkpoint %d of %d, durable %d", in.ID, in.Attempt, in.Durable)
		if s.chk != nil {
			return s.chk(ctx, in)
		}
		return workflows.CheckpointRecord{ID: in.ID, Attempt: in.Attempt, Result: workflows.Committed, At: workflow.Now(ctx)}, nil
	}, workflow.RegisterOptions{Name: "Checkpoint"})
}

// ended tells the job of an attempt's end, and lets the child end if it is there.
func (s *script) ended(a job.Attempt, kind, cause string) {
	_ = s.env.SignalWorkflowByID(activities.AttemptID(testJob.Name, testJob.Ref(a)), "end", nil)
	s.env.SignalWorkflow(workflows.SignalAttemptEnded, activities.AttemptEnded{
		UID: testJob.UID, Attempt: a, Outcome: activities.Ending{Kind: kind, Node: "n1", Cause: cause},
	})
}

// start runs the StreamJob to its end and returns the error.
func (s *script) start(args ...any) error {
	s.Helper()
	if len(args) == 0 {
		args = []any{json.RawMessage(`{"name": "test"}`)}
	}
	s.env.RegisterWorkflow(workflows.StreamJob)
	// A child that has just closed cannot be cancelled, as on a server.
	s.env.OnRequestCancelExternalWorkflow(anything, anything, anything).Return(errors.New("workflow execution already completed"))
	s.env.ExecuteWorkflow("StreamJob", args...) // by name, as the CLI does
	if !s.env.IsWorkflowCompleted() {
		s.Fatal("the job has not ended")
	}
	return s.env.GetWorkflowError()
}

func (s *script) status() (v workflows.Status) {
	s.Helper()
	r, err := s.env.QueryWorkflow(workflows.QueryStatus)
	if err != nil || r.Get(&v) != nil {
		s.Fatalf("query status: %v", err)
	}
	return v
}

// Checkpoints follow each other at the interval, ids are contiguous, barriers carry the latest durable one,
// retention runs, and the end is a terminal attempt number.
func TestJobTakesCheckpoints(t *testing.T) {
	s := newScript(t)
	s.job()
	s.at(35*time.Second, func() {
		if v := s.status(); v.State != "running" || v.Durable != 4 || v.Succeeded != 3 || len(v.Nodes) != 2 {
			t.Errorf("status %+v, want three checkpoints up to 4 on two nodes", v)
		}
		s.env.CancelWorkflow()
	})
	var cancelled *temporal.CanceledError
	if err := s.start(); !errors.As(err, &cancelled) {
		t.Fatalf("the job ended with %v, want cancelled", err)
	}
	s.want("calls", s.called("claim", "recover", "place", "attempt", "checkpoint", "retain"),
		"claim above 0", "recover 0 under 1", "place 1 from 0", "attempt 1 starts",
		"checkpoint 2 of 1, durable 0", "checkpoint 3 of 1, durable 2", "retain 3", "checkpoint 4 of 1, durable 3",
		"attempt 1 is stopped", "claim above 1", "recover 100 under 2")
}

// Eighty reports about one attempt are one recovery; reports about others are none.
func TestJobTellsDuplicateSignalsApart(t *testing.T) {
	s := newScript(t)
	s.job()
	s.at(15*time.Second, func() {
		s.env.SignalWorkflow(workflows.SignalAttemptEnded, activities.AttemptEnded{UID: "another", Attempt: 1})
		s.ended(0, activities.TypePeerLost, "long ago")
		for range 80 {
			s.ended(1, activities.TypePeerLost, "peer lost: node n1")
		}
	})
	s.at(40*time.Second, func() {
		s.ended(1, activities.TypePeerLost, "peer lost: node n1") // late
		if v := s.status(); v.Attempt != 2 || v.Restarts != 1 || !strings.Contains(v.LastFailure, "node n1") {
			t.Errorf("status %+v, want attempt 2 after one restart", v)
		}
		s.env.CancelWorkflow()
	})
	_ = s.start()
	s.want("attempts", s.called("attempt"), "attempt 1 starts", "attempt 2 starts", "attempt 2 is stopped")
}

// Without a signal the backstop tells of the end.
func TestJobHasBackstop(t *testing.T) {
	s := newScript(t)
	s.job()
	s.at(15*time.Second, func() {
		_ = s.env.SignalWorkflowByID(activities.AttemptID(testJob.Name, testJob.Ref(1)), "end", nil)
		s.complete("await 1", activities.AttemptEnded{UID: testJob.UID, Attempt: 1, Outcome: activities.Ending{Kind: activities.TypePeerLost, Cause: "n1"}}, nil)
	})
	s.at(40*time.Second, s.env.CancelWorkflow)
	_ = s.start()
	s.want("attempts", s.called("attempt"), "attempt 1 starts", "attempt 2 starts", "attempt 2 is stopped")
}

func TestJobGivesUpWithCause(t *testing.T) {
	s := newScript(t)
	s.planned.Options.Restart = activities.Restart{Kind: "fixed", Attempts: 1, Delay: 5 * time.Second}
	s.job()
	s.at(15*time.Second, func() { s.ended(1, activities.TypeSubtask, "node n1: subtask out[1]: overflow at offset 57") })
	s.at(60*time.Second, func() { s.ended(2, activities.TypeSubtask, "node n1: subtask out[1]: overflow at offset 57") })
	err := s.start()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != workflows.TypeJobFailed {
		t.Fatalf("the job ended with %v, want %s", err, workflows.TypeJobFailed)
	}
	if want := "attempt 2: node n1: subtask out[1]: overflow at offset 57; not restarted: the restart strategy allows 1 restarts"; app.Message() != want {
		t.Errorf("message %q, want %q", app.Message(), want)
	}
	calls := s.called("claim", "recover")
	s.want("the end", calls[len(calls)-2:], "claim above 2", "recover 200 under 3")
}

// The final checkpoint of a bounded job ends it; a restart after it deploys nothing.
func TestJobIsDoneAfterFinalCheckpoint(t *testing.T) {
	s := newScript(t)
	s.planned.Bounded = true
	s.planned.Options.Interval = time.Hour
	s.job()
	s.chk = func(ctx workflow.Context, in workflows.CheckpointInput) (workflows.CheckpointRecord, error) {
		return workflows.CheckpointRecord{ID: in.ID, Result: workflows.Committed, Final: true, At: workflow.Now(ctx)}, nil
	}
	s.claim = func(in activities.ClaimInput) (activities.Claim, error) {
		return activities.Claim{Attempt: in.Above + 1, Newest: 2, First: 2, Final: in.Above > 0}, nil
	}
	s.at(time.Minute, func() {
		s.env.SignalWorkflow(workflows.SignalSourcesEnded, workflows.SourcesEnded{UID: testJob.UID, Attempt: 1})
	})
	if err := s.start(); err != nil {
		t.Fatalf("the job failed: %v", err)
	}
	s.want("calls", s.called("attempt", "checkpoint", "place"),
		"place 1 from 2", "attempt 1 starts", "checkpoint 2 of 1, durable 2", "attempt 1 is stopped")

	s = newScript(t)
	s.job()
	s.claim = func(in activities.ClaimInput) (activities.Claim, error) {
		return activities.Claim{Attempt: 5, Newest: 9, First: 11, Final: true}, nil
	}
	if err := s.start(); err != nil {
		t.Fatalf("the job failed: %v", err)
	}
	s.want("calls", s.called("recover", "place", "attempt"), "recover 9 under 5")
}

// The sources' end asks for a checkpoint once; one that fails is followed by the next at its usual time.
func TestEndOfSourcesIsNoLoop(t *testing.T) {
	s := newScript(t)
	s.planned.Options.Interval = time.Hour
	s.job()
	s.chk = func(ctx workflow.Context, in workflows.CheckpointInput) (workflows.CheckpointRecord, error) {
		return workflows.CheckpointRecord{ID: in.ID, Result: workflows.Aborted, At: workflow.Now(ctx)}, nil
	}
	s.at(time.Minute, func() {
		s.env.SignalWorkflow(workflows.SignalSourcesEnded, workflows.SourcesEnded{UID: testJob.UID, Attempt: 1})
	})
	s.at(30*time.Minute, s.env.CancelWorkflow)
	_ = s.start()
	s.want("checkpoints", s.called("checkpoint"), "checkpoint 2 of 1, durable 0")
}

// Lost transactions: all of them fall back under a new id, some of them stop the job.
func TestJobAndLostTransactions(t *testing.T) {
	s := newScript(t)
	s.job()
	s.claim = func(in activities.ClaimInput) (activities.Claim, error) {
		return activities.Claim{Attempt: 4, Newest: 7, First: 9}, nil
	}
	s.recover = func(activities.RecoverInput) (activities.Recovery, error) {
		return activities.Recovery{Verdict: activities.AllLost, Lost: 2, Stake: "20 records"}, nil
	}
	s.at(15*time.Second, func() {
		if v := s.status(); len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "from checkpoint 7 to 6 (now 9)") {
			t.Errorf("status %+v does not say that it fell back", v)
		}
		s.recover = nil
		s.env.CancelWorkflow()
	})
	_ = s.start()
	s.want("calls", s.called("fall", "place", "checkpoint"), "fall back behind 7 as 9", "place 4 from 9", "checkpoint 10 of 4, durable 9")

	s = newScript(t)
	s.job()
	s.recover = func(activities.RecoverInput) (activities.Recovery, error) {
		return activities.Recovery{Verdict: activities.SomeLost, Committed: 1, Lost: 1, Stake: "transaction x with 10 records is lost"}, nil
	}
	var app *temporal.ApplicationError
	if err := s.start(); !errors.As(err, &app) || app.Type() != workflows.TypeRecordsLost || !strings.Contains(app.Message(), "10 records") {
		t.Errorf("the job ended with %v, want %s and the records at stake", err, workflows.TypeRecordsLost)
	}
}

// A lost transaction or a refused checkpoint ends the attempt, not the job.
func TestLostAndRefusedEndTheAttempt(t *testing.T) {
	for _, result := range []string{workflows.Lost, workflows.Refused} {
		s := newScript(t)
		s.job()
		s.chk = func(ctx workflow.Context, in workflows.CheckpointInput) (workflows.CheckpointRecord, error) {
			r := workflows.CheckpointRecord{ID: in.ID, Attempt: in.Attempt, Result: workflows.Committed, At: workflow.Now(ctx)}
			if in.Attempt > 1 {
				return r, nil
			}
			r.Result, r.Reason = result, "transaction too old"
			return r, temporal.NewApplicationErrorWithOptions("", workflows.TypeAborted, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{r}})
		}
		s.at(30*time.Second, func() {
			if v := s.status(); v.Attempt != 2 || !strings.Contains(v.LastFailure, result) {
				t.Errorf("status %+v, want attempt 2 because checkpoint 2 was %s", v, result)
			}
			s.env.CancelWorkflow()
		})
		_ = s.start()
		s.want("attempts", s.called("attempt"), "attempt 1 starts", "attempt 1 is stopped", "attempt 2 starts", "attempt 2 is stopped")
	}
}

// A run that does not know what was decided plans anew, whatever the strategy: that is no failure of the job.
func TestSupersededIsNoFailure(t *testing.T) {
	s := newScript(t)
	s.job()
	s.planned.Options.Restart = activities.Restart{Kind: "none"}
	s.chk = func(ctx workflow.Context, in workflows.CheckpointInput) (workflows.CheckpointRecord, error) {
		r := workflows.CheckpointRecord{ID: in.ID, Attempt: in.Attempt, Result: workflows.Committed, At: workflow.Now(ctx)}
		if in.Attempt > 1 {
			return r, nil
		}
		r.Result, r.Reason = workflows.Superseded, "it had been decided"
		return r, temporal.NewApplicationErrorWithOptions("", workflows.TypeAborted, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{r}})
	}
	s.at(30*time.Second, func() {
		if v := s.status(); v.Attempt != 2 || v.State != "running" || !strings.Contains(v.LastFailure, "it had been decided") {
			t.Errorf("status %+v, want attempt 2 because checkpoint 2 was superseded", v)
		}
		s.env.CancelWorkflow()
	})
	_ = s.start()
	s.want("attempts", s.called("attempt"), "attempt 1 starts", "attempt 1 is stopped", "attempt 2 starts", "attempt 2 is stopped")
}

// A number that somebody else used is planned anew.
func TestJobPlansAnewWhenTaken(t *testing.T) {
	s := newScript(t)
	s.job()
	s.place = func(in activities.PlaceInput) (activities.Placed, error) {
		return activities.Placed{Nodes: []job.NodeSlot{{Node: "n1"}}, Watchers: []job.NodeID{"n1"}, Taken: in.Attempt == 1}, nil
	}
	s.at(5*time.Second, s.env.CancelWorkflow)
	_ = s.start()
	s.want("calls", s.called("claim", "attempt")[:3], "claim above 0", "claim above 1", "attempt 2 starts")
}

// Steps that cannot succeed now are repeated with back-off, and what is waited for is said.
func TestJobWaitsAndSaysForWhat(t *testing.T) {
	s := newScript(t)
	s.job()
	s.place = func(activities.PlaceInput) (activities.Placed, error) {
		return activities.Placed{}, failureOf(activities.TypeTooFewSlots, "too few slots: the job needs 4")
	}
	s.at(100*time.Second, func() {
		if v := s.status(); v.State != "waiting" || !strings.Contains(v.WaitingFor, "needs 4") {
			t.Errorf("status %+v, want waiting for slots", v)
		}
		if n := len(s.called("place")); n > 16 {
			t.Errorf("%d tries in 100 s, want back-off", n)
		}
		s.env.CancelWorkflow()
	})
	var cancelled *temporal.CanceledError
	if err := s.start(); !errors.As(err, &cancelled) {
		t.Errorf("the job ended with %v, want cancelled", err)
	}
}

// A store or broker that refuses a job which has run, say with changed keys, is waited for: giving up would leave
// its transactions open. Before the first attempt it is a mistake in the job.
func TestJobThatHasRunOutlastsRefusals(t *testing.T) {
	for _, ran := range []bool{false, true} {
		s := newScript(t)
		s.job()
		var refusing atomic.Bool
		refusing.Store(true)
		s.place = func(in activities.PlaceInput) (activities.Placed, error) {
			if refusing.Load() && (in.Attempt > 1) == ran {
				return activities.Placed{}, failureOf(activities.TypeFatal, "the secret key is wrong")
			}
			return activities.Placed{Nodes: []job.NodeSlot{{Node: "n1"}}, Watchers: []job.NodeID{"n1"}}, nil
		}
		s.at(15*time.Second, func() { s.ended(1, activities.TypePeerLost, "peer lost: node n1") })
		s.at(40*time.Second, func() {
			if v := s.status(); v.State != "waiting" || !strings.Contains(v.WaitingFor, "secret key is wrong") {
				t.Errorf("status %+v, want waiting for the store", v)
			}
			refusing.Store(false)
		})
		s.at(100*time.Second, s.env.CancelWorkflow)
		err := s.start()
		if temporal.IsCanceledError(err) != ran {
			t.Errorf("ran before: %v; the job ended with %v", ran, err)
		}
	}
}

// A run hands its state to the next one only between checkpoints, and the next goes on with it.
func TestContinueAsNew(t *testing.T) {
	s := newScript(t)
	s.job()
	s.at(45*time.Second, func() { s.env.SetContinueAsNewSuggested(true) })
	s.at(5*time.Minute, func() { s.ended(1, activities.Stopped, "the test is over") }) // the child outlives the run
	err := s.start()
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) {
		t.Fatalf("the run ended with %v, want continue as new", err)
	}
	if got := len(s.called("checkpoint")); got != 5 {
		t.Errorf("%d checkpoints, want the fifth taken and no open one", got)
	}
	var state workflows.State
	if err := s.env.GetWorkflowError(); err == nil {
		t.Fatal(err)
	}
	if err := decodeArg(next, 2, &state); err != nil {
		t.Fatal(err)
	}
	if state.Running == nil || state.Running.Attempt != 1 || state.Durable != 6 || state.Next != 7 || state.Succeeded != 5 {
		t.Errorf("carried state %+v, want attempt 1 at checkpoint 6", state)
	}

	s = newScript(t)
	s.job()
	s.at(65*time.Second, func() { s.ended(1, activities.TypePeerLost, "after the change of runs") })
	s.at(90*time.Second, s.env.CancelWorkflow)
	_ = s.start(nil, nil, &state)
	s.want("calls", s.called("plan", "place", "checkpoint")[:3], "checkpoint 7 of 1, durable 6", "place 2 from 100", "checkpoint 102 of 2, durable 100")
}
