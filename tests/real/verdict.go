package real

import (
	"context"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
)

// KillAndRestart kills workers at the same moment and starts them again.
func (c *Cluster) KillAndRestart(workers ...*local.Worker) {
	c.t.Helper()
	for _, w := range workers {
		c.t.Logf("kill worker %d", w.Index)
		w.Kill()
	}
	for _, w := range workers {
		if err := w.Start(c.Ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

// AwaitVerdict waits for complete output and fails unless it is exactly right.
func (c *Cluster) AwaitVerdict(r *proof.Reader, w proof.Workload, within time.Duration) {
	c.t.Helper()
	want := w.Expect()
	ctx, cancel := context.WithTimeout(c.Ctx, within)
	defer cancel()
	waited := r.Await(ctx, want)
	v := r.Verdict(want)
	c.t.Logf("\n%s", v)
	if waited != nil || !v.ExactlyOnce() {
		c.t.Fatalf("not exactly once (%v)", waited)
	}
}
