package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// eachPath runs f on a channel between two nodes and on one within a node.
func eachPath(t *testing.T, edit func(*MeshConfig), f func(t *testing.T, o *Output, g *Gate)) {
	t.Run("between nodes", func(t *testing.T) {
		p := newPair(t, fastTimings(), edit)
		f(t, p.out, p.gate)
	})
	t.Run("within a node", func(t *testing.T) {
		n := newNetwork(t, fastTimings(), "a")
		n.channel("a", "a", testChannel)
		if edit != nil {
			edit(&n.cfg)
		}
		n.attach("a")
		o, g := n.output("a", testChannel), n.gate("a", testChannel)
		n.start()
		f(t, o, g)
	})
}

func TestElementsArriveInOrder(t *testing.T) {
	eachPath(t, nil, func(t *testing.T, o *Output, g *Gate) {
		var elements []batch.Element
		for i := range 300 {
			elements = append(elements, element(numbers(i*10, i*10+rand.IntN(10))))
			if i%50 == 49 {
				elements = append(elements, barrierElement(job.CheckpointID(i)))
			}
		}
		elements = append(elements, element(batch.WatermarkOnly(testSchema, 1<<40, true)),
			batch.Element{Kind: batch.EndElement}, barrierElement(1000))
		go func() {
			for _, e := range elements {
				if err := o.Send(testContext(t), e); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for i, want := range elements {
			ch, got := next(t, g)
			if ch != 0 || describe(got) != describe(want) {
				t.Fatalf("element %d of channel %d = %s, want %s of channel 0", i, ch, describe(got), describe(want))
			}
		}
	})
}

// A writer stops when the reader does, and goes on with it.
func TestWriterWaitsForRoom(t *testing.T) {
	eachPath(t, func(c *MeshConfig) { c.QueueLen = 4 }, func(t *testing.T, o *Output, g *Gate) {
		var sent atomic.Int64
		blocked, stop := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			for {
				if err := o.Send(blocked, element(numbers(0, 1))); err != nil {
					result <- err
					return
				}
				if sent.Add(1) == 4 {
					stop() // the fifth has no room; a writer that had any would not notice the context
				}
			}
		}()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("send into a full channel = %v, want %v", err, context.Canceled)
		}
		if got := sent.Load(); got != 4 {
			t.Errorf("%d elements were sent into a queue of 4", got)
		}
		go func() { result <- o.Send(testContext(t), element(numbers(0, 1))) }()
		for range 5 {
			next(t, g)
		}
		if err := <-result; err != nil {
			t.Errorf("send after the reader went on: %v", err)
		}
	})
}

// Bytes bound a channel too: at most one batch more than the window is under way.
func TestWindowOfBytes(t *testing.T) {
	p := newPair(t, fastTimings(), func(c *MeshConfig) { c.QueueLen, c.WindowBytes = 1000, 1 })
	big := numbers(0, 1000)
	size := batch.EncodedSize(big)
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	for ; sent*size < minWindow; sent++ {
		send(t, p.out, element(big))
	}
	cancel()
	if err := p.out.Send(ctx, element(big)); !errors.Is(err, context.Canceled) {
		t.Errorf("send of batch %d (%d bytes each) = %v, want to wait at %d bytes", sent+1, size, err, minWindow)
	}
	for range sent {
		next(t, p.gate)
	}
	send(t, p.out, element(big))
}

// A batch too long for a frame is split; its watermark comes with the last part only.
func TestLongBatchIsSplit(t *testing.T) {
	p := newPair(t, fastTimings(), nil)
	p.out.limit = 4096
	all := numbers(0, 500)
	want := describe(element(all))
	sent := make(chan error)
	go func() { sent <- p.out.Send(testContext(t), element(all)) }()
	got, parts := "", 0
	for !strings.Contains(got, " 499=") {
		_, e := next(t, p.gate)
		last := e.Batch.Cols[0].Ints[e.Batch.Rows-1] == 499
		if e.Batch.Watermark != batch.NoWatermark && !last {
			t.Errorf("part %d, not the last, has watermark %d", parts, e.Batch.Watermark)
		}
		e.Batch.Watermark = all.Watermark
		_, rows, _ := strings.Cut(describe(e), ":")
		got += rows
		parts++
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if parts < 2 || "watermark 500:"+got != want {
		t.Errorf("%d parts %.100s…, want several with all rows %.100s…", parts, got, want)
	}
	p.out.limit = 64
	if err := p.out.Send(testContext(t), element(numbers(0, 1))); job.ClassOf(err) != job.Fatal {
		t.Errorf("send of a row longer than a frame = %v, want a fatal error", err)
	}
}

func TestStartNeedsAReaderForEveryChannel(t *testing.T) {
	n := newNetwork(t, fastTimings(), "a")
	n.channel("a", "a", testChannel)
	m := n.attach("a")
	if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no gate") {
		t.Errorf("start = %v, want an error about the gate", err)
	}
}

func TestWrongUse(t *testing.T) {
	n := newNetwork(t, fastTimings(), "a", "b")
	n.channel("a", "b", testChannel)
	m := n.attach("a")
	if _, err := n.nodes["a"].server.Attach(n.cfg); err == nil {
		t.Error("an attempt was attached twice")
	}
	if _, err := m.Gate(testChannel); err == nil {
		t.Error("a gate for a channel that ends elsewhere")
	}
	if _, err := m.Output(job.Channel{Edge: 9}); err == nil {
		t.Error("an output for an unknown channel")
	}
	n.output("a", testChannel)
	if _, err := m.Output(testChannel); err == nil {
		t.Error("two outputs for a channel")
	}
	n.attach("b")
	n.gate("b", testChannel)
	if _, err := n.nodes["b"].mesh.Gate(testChannel); err == nil {
		t.Error("two gates for a channel")
	}
	cfg := n.cfg
	cfg.Ref.Attempt++
	cfg.Channels = []ChannelSpec{{Channel: testChannel, FromNode: "a", ToNode: "z", Schema: testSchema}}
	if _, err := n.nodes["a"].server.Attach(cfg); err == nil {
		t.Error("a channel to a node that is not of the attempt")
	}
}

func TestAnnouncementsReachAllPeers(t *testing.T) {
	type heard struct {
		by, from job.NodeID
		b        checkpoint.Barrier
	}
	got := make(chan heard, 10)
	n := newNetwork(t, fastTimings(), "a", "b", "c")
	for id := range n.nodes {
		n.cfg.OnAnnounce = func(from job.NodeID, b checkpoint.Barrier) { got <- heard{id, from, b} }
		n.attach(id)
	}
	n.start()
	want := checkpoint.Barrier{Ref: testRef, ID: 7, Remaining: 1234567, Decided: 6, Durable: 5, Committed: 4, Aligned: true}
	n.nodes["b"].mesh.Announce(want)
	by := map[job.NodeID]bool{}
	for range 2 {
		h := <-got
		by[h.by] = true
		if h.from != "b" || h.b != want {
			t.Errorf("node %s heard %+v from %s, want %+v from b", h.by, h.b, h.from, want)
		}
	}
	if !by["a"] || !by["c"] {
		t.Errorf("heard by %v, want a and c", by)
	}
}

// A node that declines a checkpoint says so, and why.
func TestDeclinesReachAllPeers(t *testing.T) {
	type heard struct {
		by, from job.NodeID
		b        checkpoint.Barrier
		why      string
	}
	got := make(chan heard, 10)
	n := newNetwork(t, fastTimings(), "a", "b", "c")
	for id := range n.nodes {
		n.cfg.OnDecline = func(from job.NodeID, b checkpoint.Barrier, why string) { got <- heard{id, from, b, why} }
		n.attach(id)
	}
	n.start()
	want := checkpoint.Barrier{Ref: testRef, ID: 7, Decided: 6, Durable: 5, Committed: 4, Aligned: true}
	n.nodes["b"].mesh.Decline(want, "no room on "+strings.Repeat("disk", maxWhy))
	by := map[job.NodeID]bool{}
	for range 2 {
		h := <-got
		by[h.by] = true
		if h.from != "b" || h.b != want || !strings.HasPrefix(h.why, "no room") || len(h.why) > maxWhy+len("…") {
			t.Errorf("node %s heard that %s declines %+v: %.20q (%d bytes), want %+v of b", h.by, h.from, h.b, h.why, len(h.why), want)
		}
	}
	if !by["a"] || !by["c"] {
		t.Errorf("heard by %v, want a and c", by)
	}
}

// Data flows between three nodes in all directions at once, and nothing is lost.
func TestThreeNodesAllToAll(t *testing.T) {
	const batches, rows = 200, 50
	ids := []job.NodeID{"a", "b", "c"}
	n := newNetwork(t, fastTimings(), ids...)
	for i, from := range ids {
		for j, to := range ids {
			n.channel(from, to, job.Channel{Edge: 0, From: i, To: j})
		}
	}
	sums := make(chan int64, len(ids))
	for _, id := range ids {
		n.attach(id)
	}
	outs, gates := map[job.NodeID][]*Output{}, map[job.NodeID]*Gate{}
	for i, id := range ids {
		var in []job.Channel
		for j := range ids {
			outs[id] = append(outs[id], n.output(id, job.Channel{Edge: 0, From: i, To: j}))
			in = append(in, job.Channel{Edge: 0, From: j, To: i})
		}
		gates[id] = n.gate(id, in...)
	}
	n.start()
	for _, id := range ids {
		go func() {
			for i := range batches {
				for _, o := range outs[id] {
					if err := o.Send(testContext(t), element(numbers(i*rows, (i+1)*rows))); err != nil {
						t.Error(err)
					}
				}
			}
			for _, o := range outs[id] {
				if err := o.Send(testContext(t), batch.Element{Kind: batch.EndElement}); err != nil {
					t.Error(err)
				}
			}
		}()
		go func() {
			var sum int64
			for ends := 0; ends < len(ids); {
				_, e, err := gates[id].Next(testContext(t))
				if err != nil {
					t.Error(err)
					break
				}
				if e.Kind == batch.EndElement {
					ends++
					continue
				}
				for _, v := range e.Batch.Cols[0].Ints {
					sum += v
				}
			}
			sums <- sum
		}()
	}
	const total = batches * rows
	for range ids {
		if got, want := <-sums, int64(len(ids)*total*(total-1)/2); got != want {
			t.Errorf("sum at a reader = %d, want %d", got, want)
		}
	}
}
