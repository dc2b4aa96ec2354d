package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/workflows"
)

// attempt runs one Attempt of n1 and n2 and returns how it ended. told is what the StreamJob was told;
// gone makes it a job that is no more.
func (s *script) attempt(bounded, gone bool) (end activities.Ending, told []string) {
	s.Helper()
	s.env.OnSignalExternalWorkflow("default-test-namespace", testJob.Name+"-parent", "", anything, anything).
		Return(func(_, _, _, signal string, arg any) error {
			s.toldAt = s.env.Now()
			switch v := arg.(type) {
			case activities.AttemptEnded:
				told = append(told, signal+" "+v.Outcome.Kind)
			case workflows.SourcesEnded:
				told = append(told, signal)
			}
			if gone {
				return errors.New("workflow execution already completed")
			}
			return nil
		})
	in := workflows.AttemptInput{Job: testJob, Attempt: 1, Nodes: []job.NodeID{"n1", "n2"}, Watchers: []job.NodeID{"n3", "n4"}, Bounded: bounded}
	in.Job.Name += "-parent"
	s.env.ExecuteWorkflow(workflows.Attempt, in)
	if !s.env.IsWorkflowCompleted() {
		s.Fatal("the attempt has not ended")
	}
	err := s.env.GetWorkflowError()
	if err == nil {
		if err := s.env.GetWorkflowResult(&end); err != nil {
			s.Fatal(err)
		}
		return end, told
	}
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Details(&end) != nil {
		s.Fatalf("the attempt ended with %v", err)
	}
	return end, told
}

func TestAttemptStopped(t *testing.T) {
	s := newScript(t)
	s.at(time.Minute, s.env.CancelWorkflow)
	end, told := s.attempt(false, false)
	if end.Kind != activities.Stopped {
		t.Errorf("ended with %+v, want stopped", end)
	}
	s.want("told", told, "attempt-ended Stopped")
	s.want("stops", slices.Sorted(slices.Values(s.called("stop"))), "stop n1", "stop n2")
	s.want("clean-up", s.called("claim", "recover"))
}

// The node that only lost its peer reports first; the one that failed reports when it is stopped. The end names
// the cause.
func TestAttemptNamesTheCause(t *testing.T) {
	s := newScript(t)
	s.at(time.Minute, func() {
		s.complete("run n1", nil, failureOf(activities.TypePeerLost, "peer lost: node n2: connection reset"))
	})
	s.stopped = func(node string) {
		if node == "n2" {
			s.complete("run n2", nil, failureOf(activities.TypeSubtask, "node n2: subtask out[1]: overflow"))
		}
	}
	end, told := s.attempt(false, false)
	if end.Kind != activities.TypeSubtask || end.Node != "n2" || end.Cause != "node n2: subtask out[1]: overflow" {
		t.Errorf("ended with %+v, want the failed subtask", end)
	}
	s.want("told", told, "attempt-ended Subtask")
}

func TestAttemptLosesNode(t *testing.T) {
	for name, lose := range map[string]func(*script){
		"a watcher sees it": func(s *script) { s.complete("watch n3", activities.Watched{Lost: "n2"}, nil) },
		"its heartbeats stop": func(s *script) {
			s.complete("run n2", nil, temporal.NewNonRetryableApplicationError("peer lost: node n2", activities.TypePeerLost, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.at(time.Minute, func() { lose(s) })
			end, told := s.attempt(false, false)
			if end.Kind != activities.TypePeerLost || end.Node != "n2" {
				t.Errorf("ended with %+v, want n2 lost", end)
			}
			s.want("told", told, "attempt-ended PeerLost")
		})
	}
}

// Nodes that are gone, too, when one is lost are not waited for; others are for a while, though they do not answer.
func TestAttemptWaitsForTheLivingOnly(t *testing.T) {
	for _, c := range []struct {
		gone []job.NodeID
		wait time.Duration
	}{{[]job.NodeID{"n1", "n2"}, 0}, {[]job.NodeID{"n2"}, 3 * time.Second}, {nil, 3 * time.Second}} {
		s := newScript(t)
		s.deaf = true
		var lost time.Time
		s.at(time.Minute, func() {
			lost = s.env.Now()
			s.complete("watch n3", activities.Watched{Lost: "n2", Gone: c.gone}, nil)
		})
		s.at(2*time.Minute, func() {
			for _, n := range []string{"n1", "n2"} {
				s.complete("stop "+n, nil, failureOf("Gone", "nobody polls"))
			}
		})
		end, told := s.attempt(false, false)
		if end.Kind != activities.TypePeerLost || end.Node != "n2" {
			t.Errorf("gone %v: ended with %+v, want n2 lost", c.gone, end)
		}
		s.want("told", told, "attempt-ended PeerLost")
		if got := s.toldAt.Sub(lost); got != c.wait {
			t.Errorf("gone %v: told after %v, want %v", c.gone, got, c.wait)
		}
	}
}

// A watcher that fails is replaced; the attempt goes on.
func TestAttemptReplacesWatcher(t *testing.T) {
	s := newScript(t)
	s.at(time.Minute, func() { s.complete("watch n3", nil, failureOf("Gone", "worker gone")) })
	s.at(2*time.Minute, s.env.CancelWorkflow)
	if end, _ := s.attempt(false, false); end.Kind != activities.Stopped {
		t.Errorf("ended with %+v, want it to live until it was stopped", end)
	}
	if got := len(s.called("watch")); got != 3 {
		t.Errorf("%d watches %v, want the failed one replaced", got, s.called("watch"))
	}
}

func TestAttemptTellsEndOfSources(t *testing.T) {
	s := newScript(t)
	s.at(time.Minute, func() { s.complete("end n1", nil, nil) })
	s.at(2*time.Minute, func() { s.complete("end n2", nil, nil) })
	s.at(3*time.Minute, s.env.CancelWorkflow)
	_, told := s.attempt(true, false)
	s.want("told", told, "sources-ended", "attempt-ended Stopped")
}

// Behind a closed StreamJob the attempt does what every end of a job does.
func TestAttemptCleansUpBehindClosedJob(t *testing.T) {
	s := newScript(t)
	s.at(time.Minute, func() { s.complete("watch n4", activities.Watched{Closed: true}, nil) })
	if end, _ := s.attempt(false, true); end.Kind != activities.Stopped {
		t.Errorf("ended with %+v, want stopped", end)
	}
	calls := s.called("stop", "claim", "recover")
	slices.Sort(calls[:min(2, len(calls))]) // the nodes stop in parallel
	s.want("order", calls, "stop n1", "stop n2", "claim above 1", "recover 100 under 2")
}

// A failing attempt whose signal finds no StreamJob cleans up as well.
func TestAttemptCleansUpWhenNobodyListens(t *testing.T) {
	s := newScript(t)
	s.at(time.Minute, func() { s.complete("run n1", nil, failureOf(activities.TypeSubtask, "overflow")) })
	s.attempt(false, true)
	s.want("clean-up", s.called("claim", "recover"), "claim above 1", "recover 100 under 2")
}

// Once somebody has planned since, cleaning up could abort what runs now.
func TestAttemptLeavesCleanUpToSuccessor(t *testing.T) {
	s := newScript(t)
	s.claim = func(in activities.ClaimInput) (activities.Claim, error) {
		if !in.OnlyIfNewest {
			t.Error("the clean-up claims unconditionally")
		}
		return activities.Claim{Superseded: true}, nil
	}
	s.at(time.Minute, func() { s.complete("watch n4", activities.Watched{Closed: true}, nil) })
	s.attempt(false, true)
	s.want("clean-up", s.called("claim", "recover"), "claim above 1")
}

// A failure while cleaning up is repeated with back-off.
func TestAttemptInsistsOnCleanUp(t *testing.T) {
	s := newScript(t)
	tries := 0
	s.recover = func(activities.RecoverInput) (activities.Recovery, error) {
		if tries++; tries < 3 {
			return activities.Recovery{}, errors.New("broker down")
		}
		return activities.Recovery{Verdict: activities.Recovered}, nil
	}
	s.run = func(_ context.Context, node string) error { return failureOf(activities.TypeStale, "superseded") }
	s.attempt(false, true)
	if tries != 3 {
		t.Errorf("%d tries, want three", tries)
	}
}
