package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Mesh is one attempt's part of the exchange on this node. Server.Attach makes it; then come Gate and Output
// for every channel of this node, then Start, and Close at the end, whatever happened.
type Mesh struct {
	server *Server
	cfg    MeshConfig
	ref    job.Ref
	tag    uint64
	self   job.NodeID
	peers  map[job.NodeID]string // address by id, without this node
	log    *slog.Logger

	specs   map[job.Channel]*ChannelSpec // of this node
	outputs map[job.Channel]*Output
	queues  map[job.Channel]*queue

	ctx     context.Context // ends with the mesh
	cancel  context.CancelFunc
	done    chan struct{}
	failure atomic.Pointer[error]
	started chan struct{} // closed when every peer is connected
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		gates  []*Gate
		conns  map[job.NodeID]*conn
		taken  map[job.NodeID]bool // peers that have dialled
		sealed bool                // Start was called: no more gates and outputs
	}
}

func newMesh(s *Server, cfg MeshConfig) *Mesh {
	m := &Mesh{
		server: s, cfg: cfg, ref: cfg.Ref, tag: uidTag(cfg.Ref.UID), self: s.self,
		peers: map[job.NodeID]string{}, log: s.log.With("uid", cfg.Ref.UID, "attempt", cfg.Ref.Attempt),
		specs: map[job.Channel]*ChannelSpec{}, outputs: map[job.Channel]*Output{}, queues: map[job.Channel]*queue{},
		done: make(chan struct{}), started: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.mu.conns = map[job.NodeID]*conn{}
	m.mu.taken = map[job.NodeID]bool{}
	for _, n := range cfg.Nodes {
		if n.Node != s.self {
			m.peers[n.Node] = n.Addr
		}
	}
	window := cfg.window(s.self)
	for i := range m.cfg.Channels {
		ch := &m.cfg.Channels[i]
		if ch.FromNode != m.self && ch.ToNode != m.self {
			continue
		}
		m.specs[ch.Channel] = ch
		if ch.ToNode == m.self {
			m.queues[ch.Channel] = &queue{
				channel: ch.Channel, schema: ch.Schema, items: newRing[item](window.elements),
				space: make(chan struct{}, 1), window: window, credit: window,
			}
		}
	}
	return m
}

// Gate returns the reading side of the given channels, which are numbered in that order. Every channel that
// ends on this node belongs to exactly one gate. Call it before Start.
func (m *Mesh) Gate(channels ...job.Channel) (*Gate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.sealed {
		return nil, errors.New("exchange: a gate after the start")
	}
	g := newGate(len(channels))
	for _, ch := range channels {
		q := m.queues[ch]
		if q == nil {
			return nil, fmt.Errorf("exchange: channel %s does not end on node %s", ch, m.self)
		}
		if q.gate != nil {
			return nil, fmt.Errorf("exchange: channel %s has a gate already", ch)
		}
		g.add(q)
	}
	m.mu.gates = append(m.mu.gates, g)
	if err := m.Err(); err != nil {
		g.fail(err)
	}
	return g, nil
}

// Output returns the writing side of a channel that begins on this node. Call it before Start.
func (m *Mesh) Output(ch job.Channel) (*Output, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec := m.specs[ch]
	switch {
	case m.mu.sealed:
		return nil, errors.New("exchange: an output after the start")
	case spec == nil || spec.FromNode != m.self:
		return nil, fmt.Errorf("exchange: channel %s does not begin on node %s", ch, m.self)
	case m.outputs[ch] != nil:
		return nil, fmt.Errorf("exchange: channel %s has an output already", ch)
	}
	o := &Output{mesh: m, channel: ch, schema: spec.Schema, peer: spec.ToNode, limit: maxBatch, space: make(chan struct{}, 1)}
	if spec.ToNode == m.self {
		o.queue = m.queues[ch]
	}
	m.outputs[ch] = o
	return o, nil
}

// Start connects this node with all others of the attempt and returns when every connection stands. Any error
// ends the mesh: it is its error.
func (m *Mesh) Start(ctx context.Context) error {
	if err := m.seal(); err != nil {
		m.fail(err)
		return m.Err()
	}
	m.server.serve(m)
	timeout := time.NewTimer(m.server.timings.Connect)
	defer timeout.Stop()
	select {
	case <-m.started:
	case <-m.done:
	case <-ctx.Done():
		m.fail(fmt.Errorf("connect to the nodes of attempt %s: %w", m.ref, context.Cause(ctx)))
	case <-timeout.C:
		if id, ok := m.absent(); ok {
			m.fail(&job.PeerLostError{Node: id, Why: fmt.Sprintf("did not join attempt %s within %v", m.ref, m.server.timings.Connect)})
		}
	}
	return m.Err()
}

// seal checks that every channel has a reader and starts to dial.
func (m *Mesh) seal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.sealed {
		return errors.New("exchange: started twice")
	}
	m.mu.sealed = true
	for ch, q := range m.queues {
		if q.gate == nil {
			return fmt.Errorf("exchange: channel %s has no gate", ch)
		}
	}
	if m.Err() != nil {
		return m.Err()
	}
	if len(m.peers) == 0 {
		close(m.started)
		return nil
	}
	for id, addr := range m.peers {
		if m.self < id {
			m.running.Go(func() { m.dial(id, addr) })
		}
	}
	m.running.Go(m.beat)
	return nil
}

// absent is the first peer by id that is not connected.
func (m *Mesh) absent() (id job.NodeID, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.peers {
		if m.mu.conns[p] == nil && (!ok || p < id) {
			id, ok = p, true
		}
	}
	return id, ok
}

// reserve reports whether peer has not dialled before: there is one connection in the life of a mesh.
func (m *Mesh) reserve(peer job.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.taken[peer] {
		return false
	}
	m.mu.taken[peer] = true
	return true
}

// join makes c the connection to its peer and starts its goroutines, the last peer's completing the start.
func (m *Mesh) join(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Err() != nil {
		_ = c.sock.Close()
		return
	}
	m.mu.conns[c.peer] = c
	for ch, o := range m.outputs {
		if o.queue == nil && o.peer == c.peer {
			o.to = c
			c.outputs[ch] = o
		}
	}
	for ch, q := range m.queues {
		if m.specs[ch].FromNode == c.peer {
			q.from = c
			c.queues[ch] = q
			c.grant(grant{ch, q.window.elements, q.window.bytes})
		}
	}
	m.running.Go(c.writeLoop)
	m.running.Go(c.readLoop)
	if len(m.mu.conns) == len(m.peers) {
		close(m.started)
	}
}

// beat sends heartbeats and ends the mesh when a peer has been silent for too long.
func (m *Mesh) beat() {
	t := m.server.timings
	suspect, dead := t.beats(t.Suspect), t.beats(t.Dead)
	ticker := time.NewTicker(t.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-m.done:
			return
		}
		for _, c := range m.connections() {
			switch silent := c.heartbeat(); {
			case silent >= dead:
				m.fail(&job.PeerLostError{Node: c.peer, Why: fmt.Sprintf("not heard for %v", t.Dead)})
				return
			case silent == suspect:
				m.log.Warn("peer is silent", "peer", c.peer, "addr", c.sock.RemoteAddr(), "for", t.Suspect)
			}
		}
	}
}

func (m *Mesh) connections() []*conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*conn, 0, len(m.mu.conns))
	for _, c := range m.mu.conns {
		out = append(out, c)
	}
	return out
}

// Announce tells every peer of a barrier that this node has heard of, so that a node whose sources get no
// order of their own injects it as well.
func (m *Mesh) Announce(b checkpoint.Barrier) {
	payload := controlPayload(b)
	for _, c := range m.connections() {
		c.sendControl(announceFrame, payload)
	}
}

// Decline tells every peer that this node has declined the checkpoint of b, and why.
func (m *Mesh) Decline(b checkpoint.Barrier, why string) {
	payload := controlPayload(decline{b, clipped(why)})
	for _, c := range m.connections() {
		c.sendControl(declineFrame, payload)
	}
}

func (m *Mesh) declined(from job.NodeID, d decline) {
	if m.cfg.OnDecline != nil {
		m.cfg.OnDecline(from, d.Barrier, d.Why)
	}
}

func (m *Mesh) announced(from job.NodeID, b checkpoint.Barrier) {
	if m.cfg.OnAnnounce != nil {
		m.cfg.OnAnnounce(from, b)
	}
}

// dismissed ends the mesh because a peer has ended its own. The lost node is the one that the peer names, this
// one perhaps, or else the peer: so all nodes name the same.
func (m *Mesh) dismissed(from job.NodeID, g goodbye) {
	lost := &job.PeerLostError{Node: from, Why: "ended the attempt: " + g.Why}
	if g.Lost != "" {
		lost = &job.PeerLostError{Node: g.Lost, Why: fmt.Sprintf("reported by node %s: %s", from, g.Why)}
	}
	m.fail(lost)
}

// Done is closed when the mesh is over.
func (m *Mesh) Done() <-chan struct{} { return m.done }

// Err is nil while the mesh works. Afterwards it is why it ended: a *job.PeerLostError, a fenced
// *job.StaleError, the cause given to Close.
func (m *Mesh) Err() error {
	if p := m.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail ends the mesh with err, once; everybody who waits in it returns err. It does not block.
func (m *Mesh) fail(err error) {
	if !m.failure.CompareAndSwap(nil, &err) {
		return
	}
	m.server.ended(m)
	m.cancel()
	m.mu.Lock()
	for _, g := range m.mu.gates {
		g.fail(err)
	}
	m.mu.Unlock()
	for _, c := range m.connections() {
		c.shutdown(goodbyeFor(err))
	}
	close(m.done)
}

// Close ends the mesh, telling the peers that cause (nil: ErrClosed) is why, and returns when all its
// goroutines have ended, within about half a second. The first end counts: a mesh that is over keeps its
// error.
func (m *Mesh) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	m.fail(cause)
	m.running.Wait()
}

// Traffic is what a mesh exchanged with one peer.
type Traffic struct {
	Peer           job.NodeID
	Sent, Received int64 // bytes
}

// Traffic returns the figures of every connected peer.
func (m *Mesh) Traffic() []Traffic {
	var out []Traffic
	for _, c := range m.connections() {
		out = append(out, Traffic{c.peer, c.sent.Load(), c.received.Load()})
	}
	return out
}
