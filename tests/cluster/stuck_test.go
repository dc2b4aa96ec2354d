package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/node"
)

// A connector that hangs, whatever its context says, holds up neither the attempt after it nor the end of the
// process: the attempt is over without it.
func TestNobodyWaitsForAConnectorThatHangs(t *testing.T) {
	for _, op := range []string{"Open", "Close"} {
		t.Run(op, func(t *testing.T) {
			c := newCluster(t, 2, 1, three(2, "pebble"), func(cfg *node.Config) { cfg.CloseWithin = 200 * time.Millisecond })
			release := c.out.hang(op)
			t.Cleanup(release) // before the cluster looks for what was left behind
			old := c.deploy()
			if op == "Open" {
				c.awaitAdmitted(old)
			} else {
				c.tap.let(6)
				old.mustCheckpoint()
			}
			for _, m := range old.on {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if err := m.node.StopTasks(ctx, old.dep.Ref); err != nil {
					t.Fatalf("stop: %v", err)
				}
				cancel()
			}
			c.out.recover()
			r := c.deploy()
			c.tap.let(6)
			r.mustCheckpoint()
			r.finish()
			c.checkThree()
		})
	}
}
