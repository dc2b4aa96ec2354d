package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// wait bounds every wait for an event; it only matters when a test fails.
const wait = 20 * time.Second

var (
	testRef    = job.Ref{UID: "5eed", Attempt: 2}
	testSchema = &batch.Schema{Fields: []batch.Field{
		{Name: "n", Type: batch.Type{Kind: batch.Int64}},
		{Name: "s", Type: batch.Type{Kind: batch.String}},
	}}
)

// numbers returns a batch of the numbers [from, to).
func numbers(from, to int) *batch.Batch {
	n := to - from
	b := &batch.Batch{Schema: testSchema, Rows: n, Watermark: int64(to), Cols: []batch.Column{
		batch.NewColumn(testSchema.Fields[0].Type, n), batch.NewColumn(testSchema.Fields[1].Type, n),
	}}
	for i := range n {
		b.Cols[0].Ints[i] = int64(from + i)
		b.Cols[1].SetBytes(i, fmt.Appendf(nil, "the text of number %d", from+i))
	}
	return b
}

func element(b *batch.Batch) batch.Element {
	return batch.Element{Kind: batch.BatchElement, Batch: b}
}

func barrierElement(id job.CheckpointID) batch.Element {
	return batch.Element{Kind: batch.BarrierElement, Barrier: &checkpoint.Barrier{Ref: testRef, ID: id, Remaining: time.Minute}}
}

func fastTimings() Timings {
	return Timings{Heartbeat: 50 * time.Millisecond, Suspect: 150 * time.Millisecond, Dead: time.Second, Connect: wait, Redial: time.Millisecond}
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testNode is one process of the attempt under test.
type testNode struct {
	id     job.NodeID
	server *Server
	mesh   *Mesh
	log    *logBuffer
}

// network is a set of nodes on loopback.
type network struct {
	t     testing.TB
	nodes map[job.NodeID]*testNode
	cfg   MeshConfig
}

// newNetwork listens for every id, and checks at the test's end that no goroutine is left.
func newNetwork(t testing.TB, timings Timings, ids ...job.NodeID) *network {
	t.Helper()
	checkGoroutines(t)
	n := &network{t: t, nodes: map[job.NodeID]*testNode{}, cfg: MeshConfig{Ref: testRef, GraphDigest: "digest"}}
	for _, id := range ids {
		log := &logBuffer{}
		s, err := Listen(ServerConfig{
			Addr: "127.0.0.1:0", Self: id, Timings: timings,
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		n.nodes[id] = &testNode{id: id, server: s, log: log}
		n.cfg.Nodes = append(n.cfg.Nodes, job.NodeSlot{Node: id, Addr: s.Addr()})
	}
	return n
}

// checkGoroutines fails the test when goroutines of this package outlive it.
func checkGoroutines(t testing.TB) {
	t.Cleanup(func() {
		deadline := time.Now().Add(wait)
		for {
			buf := make([]byte, 1<<20)
			stacks := string(buf[:runtime.Stack(buf, true)])
			var left []string
			for _, g := range strings.Split(stacks, "\n\n") {
				if strings.Contains(g, "exchange.(*") && !strings.Contains(g, "exchange.checkGoroutines") {
					left = append(left, g)
				}
			}
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
				return
			}
			runtime.Gosched()
		}
	})
}

func (n *network) channel(from, to job.NodeID, ch job.Channel) {
	n.cfg.Channels = append(n.cfg.Channels, ChannelSpec{Channel: ch, FromNode: from, ToNode: to, Schema: testSchema})
}

// attach makes the mesh of one node.
func (n *network) attach(id job.NodeID) *Mesh {
	n.t.Helper()
	m, err := n.nodes[id].server.Attach(n.cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.nodes[id].mesh = m
	return m
}

func (n *network) gate(id job.NodeID, channels ...job.Channel) *Gate {
	n.t.Helper()
	g, err := n.nodes[id].mesh.Gate(channels...)
	if err != nil {
		n.t.Fatal(err)
	}
	return g
}

func (n *network) output(id job.NodeID, ch job.Channel) *Output {
	n.t.Helper()
	o, err := n.nodes[id].mesh.Output(ch)
	if err != nil {
		n.t.Fatal(err)
	}
	return o
}

// start starts every attached mesh and waits until all are connected.
func (n *network) start() {
	n.t.Helper()
	var starting sync.WaitGroup
	for _, node := range n.nodes {
		if node.mesh == nil {
			continue
		}
		starting.Go(func() {
			if err := node.mesh.Start(testContext(n.t)); err != nil {
				n.t.Errorf("start node %s: %v", node.id, err)
			}
		})
	}
	starting.Wait()
	if n.t.Failed() {
		n.t.FailNow()
	}
}

// pair is two connected nodes with one channel from a to b.
type pair struct {
	*network
	out  *Output
	gate *Gate
}

var testChannel = job.Channel{Edge: 1, From: 2, To: 3}

func newPair(t testing.TB, timings Timings, edit func(*MeshConfig)) *pair {
	t.Helper()
	n := newNetwork(t, timings, "a", "b")
	n.channel("a", "b", testChannel)
	if edit != nil {
		edit(&n.cfg)
	}
	n.attach("a")
	n.attach("b")
	p := &pair{network: n, out: n.output("a", testChannel), gate: n.gate("b", testChannel)}
	n.start()
	return p
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errors.New("the test waited too long"))
	t.Cleanup(cancel)
	return ctx
}

func send(t testing.TB, o *Output, elements ...batch.Element) {
	t.Helper()
	for _, e := range elements {
		if err := o.Send(testContext(t), e); err != nil {
			t.Fatal(err)
		}
	}
}

func next(t testing.TB, g *Gate) (int, batch.Element) {
	t.Helper()
	ch, e, err := g.Next(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return ch, e
}

// describe is an element in words.
func describe(e batch.Element) string {
	switch e.Kind {
	case batch.BarrierElement:
		return fmt.Sprintf("barrier %d", e.Barrier.ID)
	case batch.EndElement:
		return "end"
	}
	b := e.Batch
	s := fmt.Sprintf("watermark %d:", b.Watermark)
	for i := range b.Len() {
		r := b.Row(i)
		s += fmt.Sprintf(" %d=%s", b.Cols[0].Ints[r], b.Cols[1].Text(r))
	}
	return s
}

// awaitEnd waits until the mesh is over and returns why.
func awaitEnd(t testing.TB, m *Mesh) error {
	t.Helper()
	select {
	case <-m.Done():
		return m.Err()
	case <-time.After(wait):
		t.Fatal("the mesh is not over")
		return nil
	}
}

// wantPeerLost checks that err says that node is lost, for a reason that contains why.
func wantPeerLost(t testing.TB, err error, node job.NodeID, why string) {
	t.Helper()
	var lost *job.PeerLostError
	if !errors.As(err, &lost) || lost.Node != node || !strings.Contains(lost.Why, why) {
		t.Errorf("error = %v, want node %s lost: …%s…", err, node, why)
	}
}
