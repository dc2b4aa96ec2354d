package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

// three is three queries over one source. With parallelism 1 all of it is one vertex, with two keyed operators.
func three(parallelism int, backend string) string {
	return nexmark(parallelism, backend, "q0", "q17", "tumble")
}

// checkThree compares what three committed with Flink's answers.
func (c *cluster) checkThree() {
	c.t.Helper()
	c.check("q0", "q17", "tumble")
}

// TestExactlyOnceThroughLostNodes kills nodes between checkpoints: what is committed is what one undisturbed run
// would have committed.
func TestExactlyOnceThroughLostNodes(t *testing.T) {
	for _, backend := range []string{"pebble", "memory"} {
		for _, p := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", backend, p), func(t *testing.T) {
				c := newCluster(t, 5, 1, three(p, backend))
				r := c.deploy()
				c.tap.let(8)
				r.mustCheckpoint()
				c.tap.let(4)
				r.mustCheckpoint()
				c.tap.let(4)
				lost := r.on[len(r.on)-1]
				c.kill(lost)
				for _, m := range r.on {
					var peer *job.PeerLostError
					if err := r.outcome(m); m != lost && (!errors.As(err, &peer) || peer.Node != lost.id) {
						t.Errorf("node %s ended with %v, want the loss of node %s", m.id, err, lost.id)
					}
				}
				r = c.deploy()
				c.tap.let(10)
				r.mustCheckpoint()
				r.mustCheckpoint()
				c.tap.let(3)
				c.kill(r.on[0])
				r = c.deploy()
				r.finish()
				c.checkThree()
			})
		}
	}
}
