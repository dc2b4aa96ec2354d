package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

// three is three queries over one source, each with a sink. With parallelism 1 all of it is one vertex, with two
// keyed operators.
const three = `
name: three
parallelism: %d
sources:
  events:
    nexmark: {events: 100000, rate: 1000/s}
    event_time: {at: "coalesce(bid.dateTime, auction.dateTime, person.dateTime)", max_out_of_order: 4s}
steps:
  bid: {from: events, where: event_type = 2, select: [bid.*]}
  q0: {from: bid, select: [auction, bidder, price, dateTime, extra]}
  q17: %s
  tumble: %s
sinks:
  out_q0: {from: q0, discard: {}}
  out_q17: {from: q17, discard: {}}
  out_tumble: {from: tumble, discard: {}}
state: {%s: {}}
`

func step(name string) string {
	for _, q := range queries {
		if q.name == name {
			return q.step
		}
	}
	panic("no query " + name)
}

// checkThree compares all sinks of three with Flink's answers.
func (c *cluster) checkThree() {
	c.t.Helper()
	want := answers(c.t)
	for _, q := range queries {
		switch q.name {
		case "q0", "tumble":
			c.check(q.name, c.out.rows("out_"+q.name), want[q.name])
		case "q17":
			c.check(q.name, c.out.table("out_q17", q.keys), want[q.name])
		}
	}
}

// TestExactlyOnceThroughLostNodes kills nodes between checkpoints: what is committed is what one undisturbed run
// would have committed.
func TestExactlyOnceThroughLostNodes(t *testing.T) {
	for _, backend := range []string{"pebble", "memory"} {
		for _, p := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", backend, p), func(t *testing.T) {
				c := newCluster(t, 5, 1, fmt.Sprintf(three, p, step("q17"), step("tumble"), backend))
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
