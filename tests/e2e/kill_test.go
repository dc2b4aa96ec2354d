package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
	"github.com/weirstream/weir/dataplane/job"
)

// TestExactlyOnceThroughKills is promise 1 on real parts: workers are killed with SIGKILL, one and then another,
// then all at once, while a read-committed reader runs all the time.
func TestExactlyOnceThroughKills(t *testing.T) {
	c := start(t, 3, 2)
	w := proof.NewWorkload(42, 100_000)
	if err := proof.CreateTopics(c.ctx, c.Brokers, 4); err != nil {
		t.Fatal(err)
	}
	reader, err := proof.NewReader(c.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	c.startJob("payments", proof.Spec(proof.SpecOptions{Parallelism: 3, Interval: time.Second}))
	c.awaitState("payments", "running", time.Minute)

	produced := make(chan error, 1)
	go func() { produced <- w.Produce(c.ctx, c.Brokers, 3000, nil) }()
	flows := func(attempt job.Attempt) {
		t.Helper()
		seen := reader.Passed()
		c.await(fmt.Sprintf("attempt %d runs and commits", attempt), 2*time.Minute, func() bool {
			st, err := c.status("payments")
			return err == nil && st.Attempt >= attempt && st.State == "running" && reader.Passed() > seen
		})
	}
	flows(1)
	c.killAndRestart(c.Workers[0])
	flows(2)
	c.killAndRestart(c.Workers[2])
	flows(3)
	c.killAndRestart(c.Workers...)
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	c.awaitVerdict(reader, w, 2*time.Minute)
	st, err := c.status("payments")
	if err != nil {
		t.Fatal(err)
	}
	if st.Attempt < 4 {
		t.Errorf("the job is at attempt %d after three kills", st.Attempt)
	}
	history := c.cli("workflow", "query", "--workflow-id", "payments", "--type", "checkpoints")
	if !strings.Contains(history, "committed") {
		t.Errorf("the checkpoints query shows no committed checkpoint:\n%s", history)
	}
	c.cli("workflow", "cancel", "--workflow-id", "payments")
	_ = c.awaitClosed("payments", time.Minute) // cancelled, as asked
	if open := c.openTransactions(); len(open) > 0 {
		t.Errorf("transactions are open after the job's end: %v", open)
	}
}

// killAndRestart kills workers at the same moment and starts them again.
func (c *cluster) killAndRestart(workers ...*local.Worker) {
	c.t.Helper()
	for _, w := range workers {
		c.t.Logf("kill worker %d", w.Index)
		w.Kill()
	}
	for _, w := range workers {
		if err := w.Start(c.ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

// awaitVerdict waits for complete output and fails unless it is exactly right.
func (c *cluster) awaitVerdict(r *proof.Reader, w proof.Workload, within time.Duration) {
	c.t.Helper()
	want := w.Expect()
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	waited := r.Await(ctx, want)
	v := r.Verdict(want)
	c.t.Logf("\n%s", v)
	if waited != nil || !v.ExactlyOnce() {
		c.t.Fatalf("not exactly once (%v)", waited)
	}
}
