package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
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
	go func() { produced <- w.Produce(c.ctx, c.Brokers, 4000, nil) }()
	at := func(share float64) {
		t.Helper()
		c.await("records flow", 2*time.Minute, func() bool { return float64(reader.Passed()) >= share*float64(w.Records) })
	}
	at(0.10)
	c.killAndRestart(c.Workers[0])
	at(0.35)
	c.killAndRestart(c.Workers[2])
	at(0.60)
	t.Log("kill all workers")
	for _, k := range c.Workers {
		k.Kill()
	}
	for _, k := range c.Workers {
		if err := k.Start(c.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	want := w.Expect()
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Minute)
	defer cancel()
	waited := reader.Await(ctx, want)
	v := reader.Verdict(want)
	t.Logf("\n%s", v)
	if waited != nil || !v.ExactlyOnce() {
		t.Fatalf("not exactly once (%v)\n%s", waited, v)
	}
	st, err := c.status("payments")
	if err != nil {
		t.Fatal(err)
	}
	if st.Attempt < 3 {
		t.Errorf("the job is at attempt %d, %d restarts: were the workers killed?", st.Attempt, st.Restarts)
	}
	history := c.cli("workflow", "query", "--workflow-id", "payments", "--type", "checkpoints")
	if !strings.Contains(history, "committed") {
		t.Errorf("the checkpoints query shows no committed checkpoint:\n%s", history)
	}
	c.cli("workflow", "cancel", "--workflow-id", "payments")
	c.awaitClosed("payments", time.Minute)
	if open := c.openTransactions(); len(open) > 0 {
		t.Errorf("transactions are open after the job's end: %v", open)
	}
}

func (c *cluster) killAndRestart(w *local.Worker) {
	c.t.Helper()
	c.t.Logf("kill worker %d", w.Index)
	w.Kill()
	if err := w.Start(c.ctx); err != nil {
		c.t.Fatal(err)
	}
}
