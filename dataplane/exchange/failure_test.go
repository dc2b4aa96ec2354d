package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// rawPeer is a bare socket that speaks the protocol as the test says.
type rawPeer struct {
	t    *testing.T
	sock net.Conn
	in   *frameReader
}

func dialRaw(t *testing.T, addr string) *rawPeer {
	t.Helper()
	sock, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newRawPeer(t, sock)
}

func newRawPeer(t *testing.T, sock net.Conn) *rawPeer {
	t.Cleanup(func() { sock.Close() })
	if err := sock.SetDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	in := newFrameReader(sock, new(atomic.Bool))
	in.expect(testRef)
	return &rawPeer{t: t, sock: sock, in: in}
}

// frame is a sealed frame of the attempt.
func rawFrame(h header, payload []byte) []byte {
	f := append(reserveHeader(nil), payload...)
	h.tag, h.attempt = uidTag(testRef.UID), testRef.Attempt
	seal(f, h)
	return f
}

func (p *rawPeer) write(frame []byte) {
	p.t.Helper()
	if _, err := p.sock.Write(frame); err != nil {
		p.t.Fatal(err)
	}
}

func (p *rawPeer) hello(h hello) {
	p.t.Helper()
	if err := writeHandshake(p.sock, helloFrame, h.Ref, controlPayload(h)); err != nil {
		p.t.Fatal(err)
	}
}

// await reads until a frame of the type comes and returns its payload.
func (p *rawPeer) await(typ frameType) []byte {
	p.t.Helper()
	for {
		h, payload, err := p.in.next()
		if err != nil {
			p.t.Fatalf("waiting for a frame of type %d: %v", typ, err)
		}
		if h.typ == typ {
			return payload
		}
	}
}

// awaitClosed reads until the other side closes, without a further word that matters.
func (p *rawPeer) awaitClosed() {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, p.sock); err != nil && !strings.Contains(err.Error(), "reset") {
		p.t.Errorf("waiting for the connection's end: %v", err)
	}
}

func (p *rawPeer) awaitRefusal(code refusalCode) refusal {
	p.t.Helper()
	r, err := decodeControl[refusal](p.await(refuseFrame))
	if err != nil || r.Code != code {
		p.t.Errorf("refusal = %+v, %v, want %q", r, err, code)
	}
	return r
}

// rawPair is node b with a gate, connected to a peer a that the test plays.
func rawPair(t *testing.T, timings Timings) (*network, *rawPeer, *Gate) {
	t.Helper()
	n := newNetwork(t, timings, "b")
	n.cfg.Nodes = append(n.cfg.Nodes, job.NodeSlot{Node: "a", Addr: "127.0.0.1:1"})
	n.channel("a", "b", testChannel)
	n.attach("b")
	g := n.gate("b", testChannel)
	p := dialRaw(t, n.nodes["b"].server.Addr())
	p.hello(hello{Ref: testRef, From: "a", To: "b", Digest: "digest"})
	n.start()
	p.await(creditFrame)
	return n, p, g
}

// A process that is killed closes its sockets.
func TestKilledPeer(t *testing.T) {
	n, p, g := rawPair(t, fastTimings())
	p.sock.Close()
	wantPeerLost(t, awaitEnd(t, n.nodes["b"].mesh), "a", "")
	if _, _, err := g.Next(t.Context()); !errors.Is(err, n.nodes["b"].mesh.Err()) {
		t.Errorf("next = %v, want the mesh's error", err)
	}
}

// A peer that stopped keeps its sockets open and says nothing.
func TestSilentPeer(t *testing.T) {
	timings := fastTimings()
	timings.Dead = 200 * time.Millisecond
	n, _, _ := rawPair(t, timings)
	wantPeerLost(t, awaitEnd(t, n.nodes["b"].mesh), "a", "not heard for 200ms")
	if log := n.nodes["b"].log.String(); strings.Count(log, "peer is silent") != 1 {
		t.Errorf("log = %s, want one line that the peer is silent", log)
	}
}

// A peer that accepts and never answers is noticed in the handshake.
func TestSilentAcceptor(t *testing.T) {
	timings := fastTimings()
	timings.Dead = 200 * time.Millisecond
	n := newNetwork(t, timings, "a")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n.cfg.Nodes = append(n.cfg.Nodes, job.NodeSlot{Node: "b", Addr: l.Addr().String()})
	wantPeerLost(t, n.attach("a").Start(testContext(t)), "b", "not heard for 200ms")
}

func TestNobodyListens(t *testing.T) {
	n := newNetwork(t, fastTimings(), "a")
	n.cfg.Nodes = append(n.cfg.Nodes, job.NodeSlot{Node: "b", Addr: "127.0.0.1:1"})
	wantPeerLost(t, n.attach("a").Start(testContext(t)), "b", "refused")
}

// An acceptor says no word to a stranger, takes no harm, and logs it once with the address.
func TestGarbageOnThePort(t *testing.T) {
	good := rawFrame(header{typ: helloFrame}, controlPayload(hello{Ref: testRef, From: "a", To: "b", Digest: "digest"}))
	edit := func(at int, v byte) []byte {
		f := append([]byte(nil), good...)
		f[at] = v
		return f
	}
	for name, tc := range map[string]struct {
		bytes []byte
		want  string
	}{
		"another protocol":      {[]byte("GET / HTTP/1.1\r\nHost: weir.example.org\r\nUser-Agent: somebody\r\n\r\n"), "magic"},
		"another version":       {edit(4, 9), "version"},
		"unknown type":          {edit(5, 99), "unknown type"},
		"over-long frame":       {edit(38, 0xff), "at most"},
		"a bit flipped":         {edit(headerSize+3, good[headerSize+3]^0x10), "checksum"},
		"a bit flipped in head": {edit(24, 1), "checksum"},
		"a batch":               {rawFrame(header{typ: batchFrame}, make([]byte, 32)), "before the handshake"},
		"a heartbeat":           {rawFrame(header{typ: heartbeatFrame}, nil), "before a hello"},
		"no JSON":               {rawFrame(header{typ: helloFrame}, []byte("{")), "message"},
		"two attempts":          {rawFrame(header{typ: helloFrame}, controlPayload(hello{Ref: job.Ref{UID: "x", Attempt: 1}})), "of another"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, fastTimings(), "b")
			p := dialRaw(t, n.nodes["b"].server.Addr())
			p.write(tc.bytes)
			p.awaitClosed()
			n.nodes["b"].server.Close() // the log is complete
			log := n.nodes["b"].log.String()
			if strings.Count(log, "\n") != 1 || !strings.Contains(log, tc.want) || !strings.Contains(log, p.sock.LocalAddr().String()) {
				t.Errorf("log = %q, want one line with %q and the address", log, tc.want)
			}
		})
	}
}

// Damage on an established connection ends the attempt before anything wrong is delivered.
func TestDamageMidStream(t *testing.T) {
	payload := batch.AppendBatch(nil, numbers(0, 10))
	good := rawFrame(header{typ: batchFrame, channel: testChannel}, payload)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	long := append([]byte(nil), good...)
	long[39] = 0x7f
	stale := append(reserveHeader(nil), payload...)
	seal(stale, header{typ: batchFrame, tag: uidTag(testRef.UID), attempt: testRef.Attempt - 1, channel: testChannel})
	for name, tc := range map[string]struct {
		frame []byte
		want  string
	}{
		"flipped bit":      {flipped, "checksum"},
		"over-long":        {long, "at most"},
		"older attempt":    {stale, "of attempt 1"},
		"lost frame":       {rawFrame(header{typ: batchFrame, channel: testChannel, seq: 2}, payload), "frame 2, want 1"},
		"unknown channel":  {rawFrame(header{typ: batchFrame}, payload), "does not come from there"},
		"malformed batch":  {rawFrame(header{typ: batchFrame, channel: testChannel, seq: 1}, payload[:24]), "decode batch"},
		"another barrier":  {rawFrame(header{typ: barrierFrame, channel: testChannel, seq: 1}, []byte(`{"uid":"x"}`)), "message barrier"},
		"foreign credit":   {rawFrame(header{typ: creditFrame}, make([]byte, grantSize)), "does not go there"},
		"control skipped":  {rawFrame(header{typ: heartbeatFrame, seq: 1}, nil), "control frame 1, want 0"},
		"a second hello":   {rawFrame(header{typ: helloFrame}, nil), "after the handshake"},
		"cut-off credit":   {rawFrame(header{typ: creditFrame}, make([]byte, 7)), "no multiple"},
		"announce of junk": {rawFrame(header{typ: announceFrame}, []byte("7")), "message"},
		"decline of junk":  {rawFrame(header{typ: declineFrame}, []byte("7")), "message"},
		"foreign decline":  {rawFrame(header{typ: declineFrame}, []byte(`{"barrier":{"uid":"x"}}`)), "message barrier"},
	} {
		t.Run(name, func(t *testing.T) {
			n, p, g := rawPair(t, fastTimings())
			p.write(good)
			if _, e := next(t, g); describe(e) != describe(element(numbers(0, 10))) {
				t.Fatalf("element = %s", describe(e))
			}
			p.write(tc.frame)
			wantPeerLost(t, awaitEnd(t, n.nodes["b"].mesh), "a", tc.want)
			if _, _, err := g.Next(t.Context()); err == nil {
				t.Error("an element was delivered after the damage")
			}
			n.nodes["b"].mesh.Close(nil)
			if log := n.nodes["b"].log.String(); strings.Count(log, "refused what a peer sent") != 1 {
				t.Errorf("log = %q, want one line", log)
			}
		})
	}
}

func TestMoreThanTheCredit(t *testing.T) {
	n, p, _ := rawPair(t, fastTimings())
	for i := range defaultQueueLen + 1 {
		p.write(rawFrame(header{typ: endFrame, channel: testChannel, seq: uint64(i)}, nil))
	}
	wantPeerLost(t, awaitEnd(t, n.nodes["b"].mesh), "a", "without credit")
}

func TestRefusedHandshakes(t *testing.T) {
	good := hello{Ref: testRef, From: "a", To: "b", Digest: "digest"}
	for name, tc := range map[string]struct {
		edit func(*hello)
		want refusalCode
	}{
		"stale attempt":   {func(h *hello) { h.Attempt-- }, refusedSuperseded},
		"wrong node":      {func(h *hello) { h.To = "b-before-its-restart" }, refusedWrongNode},
		"not a peer":      {func(h *hello) { h.From = "x" }, refusedStranger},
		"wrong direction": {func(h *hello) { h.From = "c" }, refusedStranger},
		"another graph":   {func(h *hello) { h.Digest = "other" }, refusedGraph},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, fastTimings(), "b")
			n.cfg.Nodes = append(n.cfg.Nodes, job.NodeSlot{Node: "a"}, job.NodeSlot{Node: "c", Addr: "127.0.0.1:1"})
			n.cfg.Nodes = n.cfg.Nodes[:2]
			m := n.attach("b")
			go m.Start(context.WithoutCancel(t.Context()))
			h := good
			tc.edit(&h)
			p := dialRaw(t, n.nodes["b"].server.Addr())
			p.in.expect(h.Ref)
			p.hello(h)
			if r := p.awaitRefusal(tc.want); tc.want == refusedSuperseded && r.Highest != testRef.Attempt {
				t.Errorf("highest attempt = %d, want %d", r.Highest, testRef.Attempt)
			}
			if m.Err() != nil {
				t.Errorf("the mesh ended: %v", m.Err())
			}
			// The right peer is still welcome.
			p = dialRaw(t, n.nodes["b"].server.Addr())
			p.hello(good)
			p.await(welcomeFrame)
		})
	}
}

// What a refusal means to the node that is refused.
func TestRefusedDialler(t *testing.T) {
	dial := func(t *testing.T, edit func(*network)) error {
		n := newNetwork(t, fastTimings(), "a", "b")
		n.attach("a")
		edit(n)
		return n.nodes["a"].mesh.Start(testContext(t))
	}
	t.Run("superseded", func(t *testing.T) {
		err := dial(t, func(n *network) { n.cfg.Ref.Attempt++; n.attach("b") })
		var stale *job.StaleError
		if !errors.As(err, &stale) || stale.Highest != testRef.Attempt+1 || job.ClassOf(err) != job.Fenced {
			t.Errorf("start = %v, want a fenced stale error", err)
		}
	})
	t.Run("another graph", func(t *testing.T) {
		err := dial(t, func(n *network) {
			n.cfg.GraphDigest = "other"
			go n.attach("b").Start(context.WithoutCancel(t.Context()))
		})
		if job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "other graph") {
			t.Errorf("start = %v, want a fatal error about the graph", err)
		}
	})
	t.Run("ended", func(t *testing.T) {
		err := dial(t, func(n *network) { n.attach("b").Close(errors.New("stopped early")) })
		wantPeerLost(t, err, "b", "stopped early")
	})
	t.Run("another process", func(t *testing.T) {
		n := newNetwork(t, fastTimings(), "a", "b2")
		n.cfg.Nodes[1].Node = "b"
		wantPeerLost(t, n.attach("a").Start(testContext(t)), "b", "this is node b2")
	})
}

// A handshake may come before this node has been told to deploy the attempt.
func TestEarlyHandshakeIsHeld(t *testing.T) {
	timings := fastTimings()
	timings.Dead = 500 * time.Millisecond // shorter than the hold, which heartbeats have to bridge
	n := newNetwork(t, timings, "a", "b")
	m := n.attach("a")
	started := make(chan error, 1)
	go func() { started <- m.Start(testContext(t)) }()
	select {
	case err := <-started:
		t.Fatalf("start without the peer = %v", err)
	case <-time.After(2 * timings.Dead):
	}
	if err := n.attach("b").Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}

func TestPeerNeverDeploys(t *testing.T) {
	timings := fastTimings()
	timings.Connect = 200 * time.Millisecond
	t.Run("dialler", func(t *testing.T) {
		n := newNetwork(t, timings, "a", "b")
		err := n.attach("a").Start(testContext(t))
		wantPeerLost(t, err, "b", "")
	})
	t.Run("acceptor", func(t *testing.T) {
		n := newNetwork(t, timings, "a", "b")
		err := n.attach("b").Start(testContext(t))
		wantPeerLost(t, err, "a", "did not join")
	})
}

// One connection in the life of an attempt: what was on its way in a broken one is lost.
func TestNoReconnect(t *testing.T) {
	n, p, _ := rawPair(t, fastTimings())
	again := dialRaw(t, n.nodes["b"].server.Addr())
	again.hello(hello{Ref: testRef, From: "a", To: "b", Digest: "digest"})
	again.awaitRefusal(refusedTwice)
	p.sock.Close()
	awaitEnd(t, n.nodes["b"].mesh)
	again = dialRaw(t, n.nodes["b"].server.Addr())
	again.hello(hello{Ref: testRef, From: "a", To: "b", Digest: "digest"})
	again.awaitRefusal(refusedEnded)
}

// Whoever first hears of a newer attempt drops the older one.
func TestNewerAttempt(t *testing.T) {
	wantStale := func(t *testing.T, err error) {
		t.Helper()
		var stale *job.StaleError
		if !errors.As(err, &stale) || stale.Highest != testRef.Attempt+1 || job.ClassOf(err) != job.Fenced {
			t.Errorf("error = %v, want a fenced stale error", err)
		}
	}
	t.Run("by its handshake", func(t *testing.T) {
		n, _, g := rawPair(t, fastTimings())
		newer := dialRaw(t, n.nodes["b"].server.Addr())
		newer.hello(hello{Ref: job.Ref{UID: testRef.UID, Attempt: testRef.Attempt + 1}, From: "a2", To: "b", Digest: "digest"})
		wantStale(t, awaitEnd(t, n.nodes["b"].mesh))
		_, _, err := g.Next(t.Context())
		wantStale(t, err)
		_, err = n.nodes["b"].server.Attach(n.cfg)
		wantStale(t, err)
	})
	t.Run("by its deployment", func(t *testing.T) {
		p := newPair(t, fastTimings(), nil)
		old := p.nodes["b"].mesh
		p.cfg.Ref.Attempt++
		p.attach("b")
		wantStale(t, awaitEnd(t, old))
		wantPeerLost(t, awaitEnd(t, p.nodes["a"].mesh), "b", "superseded")
	})
	t.Run("of another job", func(t *testing.T) {
		p := newPair(t, fastTimings(), nil)
		old := p.nodes["b"].mesh
		p.cfg.Ref = job.Ref{UID: "another", Attempt: 9}
		p.attach("b")
		send(t, p.out, element(numbers(0, 1)))
		next(t, p.gate)
		if old.Err() != nil {
			t.Errorf("the mesh of another job ended: %v", old.Err())
		}
	})
}

// Peers hear why a node gives up, and all name the node that was lost first.
func TestGoodbye(t *testing.T) {
	t.Run("its own reason", func(t *testing.T) {
		p := newPair(t, fastTimings(), nil)
		p.nodes["a"].mesh.Close(errors.New("subtask agg[0]: overflow"))
		wantPeerLost(t, awaitEnd(t, p.nodes["b"].mesh), "a", "ended the attempt: subtask agg[0]: overflow")
	})
	t.Run("a third node", func(t *testing.T) {
		n := newNetwork(t, fastTimings(), "a", "b", "c")
		for id := range n.nodes {
			n.attach(id)
		}
		n.start()
		n.nodes["b"].mesh.fail(&job.PeerLostError{Node: "c", Why: "not heard for 1s"})
		wantPeerLost(t, awaitEnd(t, n.nodes["a"].mesh), "c", "reported by node")
		wantPeerLost(t, awaitEnd(t, n.nodes["c"].mesh), "c", "reported by node")
	})
}

// Everybody who waits in a mesh is released when it ends.
func TestWaitersAreReleased(t *testing.T) {
	eachPath(t, func(c *MeshConfig) { c.QueueLen = 1 }, func(t *testing.T, o *Output, g *Gate) {
		send(t, o, element(numbers(0, 1)))
		cause := errors.New("enough")
		results := make(chan error, 2)
		empty := newGate(0)
		go func() { results <- o.Send(testContext(t), element(numbers(1, 2))) }()
		go func() {
			_, _, err := empty.Next(testContext(t))
			results <- err
		}()
		o.mesh.fail(cause)
		empty.fail(cause)
		for range 2 {
			if err := <-results; !errors.Is(err, cause) {
				t.Errorf("waiter got %v, want %v", err, cause)
			}
		}
		o.mesh.Close(nil)
		if err := o.mesh.Err(); !errors.Is(err, cause) {
			t.Errorf("error after close = %v, want the first cause %v", err, cause)
		}
	})
}
