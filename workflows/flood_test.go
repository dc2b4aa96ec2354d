package workflows_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/workflows"
)

// Signals that stream in neither keep a job from continuing as new nor make it miss one that counts: a job whose history
// is always full goes from run to run, hears of every end of an attempt, once, and whoever sends is never told that
// there is no job.
func TestSignalsStreamInWhileContinuingAsNew(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3", "n4")
	s := spec()
	s.Interval = 300 * time.Millisecond
	first := w.submit("flooded", s, workflows.StartOptions{HistoryLimit: 100})
	before := w.until("flooded", "running", func(s workflows.Status) bool { return s.State == "running" && s.Succeeded > 0 })

	ctx, stop := context.WithCancel(t.Context())
	var sent atomic.Int64
	var senders sync.WaitGroup
	for range 5 { // ten a second each
		senders.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				// News of another life of the job, which changes nothing.
				e := activities.AttemptEnded{UID: "another", Attempt: 1, Outcome: activities.Ending{Kind: activities.TypeFatal, Cause: "noise"}}
				if err := w.client.SignalWorkflow(ctx, "flooded", "", workflows.SignalAttemptEnded, e); err != nil && ctx.Err() == nil {
					t.Errorf("signal: %v", err)
				}
				sent.Add(1)
			}
		})
	}
	runs := map[string]bool{first.GetRunID(): true}
	for i := range 3 {
		w.eventually("two more runs", func() bool { runs[w.currentRun("flooded")] = true; return len(runs) > 2*i+2 })
		v := w.until("flooded", "running", func(s workflows.Status) bool { return s.State == "running" && len(s.Nodes) == 2 })
		w.node(v.Nodes[0]).Fail(job.Ref{UID: v.UID, Attempt: v.Attempt}, job.ErrNodeLeaving)
		w.until("flooded", "the next attempt", func(s workflows.Status) bool { return s.State == "running" && s.Attempt > v.Attempt })
	}
	stop()
	senders.Wait()
	after := w.until("flooded", "a later checkpoint", func(s workflows.Status) bool { return s.State == "running" && s.Durable > before.Durable+3 })
	if after.Restarts != 3 {
		t.Errorf("%d restarts, want one for each of 3 ends", after.Restarts)
	}
	t.Logf("%d signals, %d runs seen, %d checkpoints", sent.Load(), len(runs), after.Succeeded)
	w.consistent(after)
	if err := w.client.CancelWorkflow(t.Context(), "flooded", ""); err != nil {
		t.Fatal(err)
	}
	w.nothingIsLeft(after)
	w.noFailedTasksButReset("flooded")
}
