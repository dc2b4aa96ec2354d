package activitiestest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// Cluster is a set of Nodes that know of each other. It implements activities.Members.
type Cluster struct {
	Store snapshot.Store
	Sinks *Sinks

	mu      sync.Mutex
	nodes   map[job.NodeID]*Node
	changed chan struct{} // closed and replaced at every change of membership
}

var _ activities.Members = (*Cluster)(nil)

// NewCluster returns a cluster without nodes.
func NewCluster(store snapshot.Store) *Cluster {
	return &Cluster{Store: store, Sinks: &Sinks{}, nodes: map[job.NodeID]*Node{}, changed: make(chan struct{})}
}

// Add starts a node with some slots.
func (c *Cluster) Add(id job.NodeID, slots int) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &Node{id: id, slots: slots, cluster: c, gate: job.NewGate(), running: map[job.Ref]*tasks{}}
	n.deploys = sync.NewCond(&n.mu)
	c.nodes[id] = n
	c.announce()
	return n
}

// Kill ends a node as SIGKILL does: the cluster loses it, its tasks are gone, and the other nodes of its
// attempts report a lost peer.
func (c *Cluster) Kill(id job.NodeID) {
	c.mu.Lock()
	dead := c.nodes[id]
	delete(c.nodes, id)
	rest := make([]*Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		rest = append(rest, n)
	}
	c.announce()
	c.mu.Unlock()
	refs := dead.Running()
	for _, n := range rest {
		for _, ref := range refs {
			n.Fail(ref, &job.PeerLostError{Node: id, Why: "connection reset"})
		}
	}
}

func (c *Cluster) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Nodes implements activities.Members.
func (c *Cluster) Nodes() []job.NodeSlots {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []job.NodeSlots
	for _, n := range c.nodes {
		out = append(out, job.NodeSlots{ID: n.id, Addr: fmt.Sprintf("%s:7000", n.id), Slots: n.slots})
	}
	slices.SortFunc(out, func(a, b job.NodeSlots) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// Watch implements activities.Members.
func (c *Cluster) Watch(ctx context.Context, ids []job.NodeID) (job.NodeID, error) {
	for {
		c.mu.Lock()
		changed := c.changed
		for _, id := range ids {
			if c.nodes[id] == nil {
				c.mu.Unlock()
				return id, nil
			}
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// All lists the nodes that live.
func (c *Cluster) All() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Node
	for _, n := range c.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *Node) int { return strings.Compare(string(a.id), string(b.id)) })
	return out
}
