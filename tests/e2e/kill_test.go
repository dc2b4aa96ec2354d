// Package e2e proves the promises on whole clusters of real parts, whose processes are killed.
package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/proof"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/tests/real"
)

// TestExactlyOnceThroughKills is promise 1 on real parts: workers are killed with SIGKILL, one and then another,
// then all at once, while a read-committed reader runs all the time.
func TestExactlyOnceThroughKills(t *testing.T) {
	c := real.Start(t, 3, 2)
	w := proof.NewWorkload(42, 100_000)
	if err := proof.CreateTopics(c.Ctx, c.Brokers, 4); err != nil {
		t.Fatal(err)
	}
	reader, err := proof.NewReader(c.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	c.StartJob("payments", proof.Spec(proof.SpecOptions{Parallelism: 3, Interval: time.Second}))
	c.AwaitState("payments", "running", time.Minute)

	produced := make(chan error, 1)
	go func() { produced <- w.Produce(c.Ctx, c.Brokers, 3000, nil) }()
	flows := func(attempt job.Attempt) {
		t.Helper()
		seen := reader.Passed()
		c.Await(fmt.Sprintf("attempt %d runs and commits", attempt), 2*time.Minute, func() bool {
			st, err := c.Status("payments")
			return err == nil && st.Attempt >= attempt && st.State == "running" && reader.Passed() > seen
		})
	}
	flows(1)
	c.KillAndRestart(c.Workers[0])
	flows(2)
	c.KillAndRestart(c.Workers[2])
	flows(3)
	c.KillAndRestart(c.Workers...)
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	c.AwaitVerdict(reader, w, 2*time.Minute)
	st, err := c.Status("payments")
	if err != nil {
		t.Fatal(err)
	}
	if st.Attempt < 4 {
		t.Errorf("the job is at attempt %d after three kills", st.Attempt)
	}
	history := c.CLI("workflow", "query", "--workflow-id", "payments", "--type", "checkpoints")
	if !strings.Contains(history, "committed") {
		t.Errorf("the checkpoints query shows no committed checkpoint:\n%s", history)
	}
	c.CLI("workflow", "cancel", "--workflow-id", "payments")
	_ = c.AwaitClosed("payments", time.Minute) // cancelled, as asked
	if open := c.OpenTransactions(); len(open) > 0 {
		t.Errorf("transactions are open after the job's end: %v", open)
	}
}
