package exchange

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// ErrClosed is a mesh's error after Close without a cause, and that of its server's end.
var ErrClosed = errors.New("exchange closed")

// Timings are the intervals of the exchange. The zero value of a field takes DefaultTimings' value.
type Timings struct {
	// Heartbeat is how often each node lets its peers hear of it. A peer that was not heard for Suspect is
	// logged, for Dead lost, at the latest. Both count heartbeats of this process, so that a pause of its own
	// is not held against its peers.
	Heartbeat, Suspect, Dead time.Duration
	// Connect is how long the nodes of an attempt wait for each other to start.
	Connect time.Duration
	// Redial is the pause before the one further try when a peer's address refuses the connection.
	Redial time.Duration
}

// DefaultTimings notice a killed process at once and a silent one after 2.5 seconds.
func DefaultTimings() Timings {
	return Timings{
		Heartbeat: 500 * time.Millisecond,
		Suspect:   1500 * time.Millisecond,
		Dead:      2500 * time.Millisecond,
		Connect:   30 * time.Second,
		Redial:    200 * time.Millisecond,
	}
}

// RelaxedTimings are for machines whose processes wait seconds for a core, such as a laptop that runs the
// whole cluster: a silent peer is lost after 10 seconds, a killed process still at once.
func RelaxedTimings() Timings {
	t := DefaultTimings()
	t.Heartbeat, t.Suspect, t.Dead = time.Second, 4*time.Second, 10*time.Second
	return t
}

func (t Timings) withDefaults() Timings {
	d := DefaultTimings()
	for _, f := range []struct {
		v *time.Duration
		d time.Duration
	}{{&t.Heartbeat, d.Heartbeat}, {&t.Suspect, d.Suspect}, {&t.Dead, d.Dead}, {&t.Connect, d.Connect}, {&t.Redial, d.Redial}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	return t
}

// beats is the number of heartbeats in a row, at least 1, that a peer may be silent for d to have all but
// passed: the last thing heard may have come right after one of this process's heartbeats.
func (t Timings) beats(d time.Duration) int {
	return max(int(d/t.Heartbeat)-1, 1)
}

// ServerConfig configures Listen. Addr and Self are required.
type ServerConfig struct {
	// Addr is the host:port to listen on; port 0 takes a free one.
	Addr string
	// Self is this process's id; a peer that means another one is refused.
	Self    job.NodeID
	Timings Timings
	// Logger receives refused connections and silent peers; nil discards them.
	Logger *slog.Logger
}

// ChannelSpec is a channel with its ends and the shape of its batches.
type ChannelSpec struct {
	job.Channel
	FromNode, ToNode job.NodeID
	Schema           *batch.Schema
}

// MeshConfig describes one attempt as this node sees it.
type MeshConfig struct {
	Ref job.Ref
	// Nodes are all nodes of the attempt; this one may be among them.
	Nodes []job.NodeSlot
	// Channels are the attempt's channels; those that neither begin nor end here are ignored.
	Channels []ChannelSpec
	// GraphDigest must be the same on all nodes.
	GraphDigest string
	// QueueLen is the number of elements that wait in a channel; 0 means 8.
	QueueLen int
	// WindowBytes bounds the encoded bytes that wait in all channels from other nodes together; 0 means
	// 64 MiB. A channel has its share, at least 32 KiB and at most 1 MiB, exceeded by at most one batch.
	WindowBytes int
	// OnAnnounce is called with each barrier that a peer announces, on the goroutine that reads from the
	// peer: it must not block.
	OnAnnounce func(from job.NodeID, b checkpoint.Barrier)
	// OnDecline is called with each checkpoint that a peer declines, as OnAnnounce is. A peer declines only what it
	// has heard of, but its announcement may still be under way here.
	OnDecline func(from job.NodeID, b checkpoint.Barrier, why string)
}

const (
	defaultQueueLen    = 8
	defaultWindowBytes = 64 << 20
	minWindow          = 32 << 10
	maxWindow          = 1 << 20
)

// window is the credit of each channel from another node.
func (c *MeshConfig) window(self job.NodeID) credit {
	remote := 0
	for i := range c.Channels {
		if ch := &c.Channels[i]; ch.ToNode == self && ch.FromNode != self {
			remote++
		}
	}
	total := c.WindowBytes
	if total <= 0 {
		total = defaultWindowBytes
	}
	return credit{elements: c.queueLen(), bytes: min(max(total/max(remote, 1), minWindow), maxWindow)}
}

func (c *MeshConfig) queueLen() int {
	if c.QueueLen <= 0 {
		return defaultQueueLen
	}
	return c.QueueLen
}

// validate checks that every channel of this node leads to a node of the attempt.
func (c *MeshConfig) validate(self job.NodeID) error {
	if c.Ref.UID == "" || c.Ref.Attempt <= 0 {
		return fmt.Errorf("%q is no attempt", c.Ref)
	}
	known := map[job.NodeID]bool{self: true}
	for _, n := range c.Nodes {
		known[n.Node] = true
	}
	seen := map[job.Channel]bool{}
	for i := range c.Channels {
		ch := &c.Channels[i]
		switch {
		case ch.FromNode != self && ch.ToNode != self:
			continue
		case !known[ch.FromNode] || !known[ch.ToNode]:
			return fmt.Errorf("channel %s goes from node %s to node %s, not both of the attempt", ch, ch.FromNode, ch.ToNode)
		case seen[ch.Channel]:
			return fmt.Errorf("channel %s is given twice", ch)
		case ch.Schema == nil:
			return fmt.Errorf("channel %s has no schema", ch)
		case min(ch.Edge, ch.From, ch.To) < 0 || max(ch.Edge, ch.From, ch.To) > maxChannelID:
			return fmt.Errorf("channel %s: an index is not in [0, %d]", ch, maxChannelID)
		}
		seen[ch.Channel] = true
	}
	return nil
}
