package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/watermark"
)

var (
	ref    = job.Ref{UID: "u", Attempt: 1}
	number = &batch.Schema{HasTime: true, Fields: []batch.Field{{Name: "n", Type: batch.Type{Kind: batch.Int64}}}}
)

// numbers is a batch whose event times are its values.
func numbers(wm int64, ns ...int64) *batch.Batch {
	b := &batch.Batch{Schema: number, Rows: len(ns), Cols: []batch.Column{batch.NewColumn(number.Fields[0].Type, len(ns))}, Time: ns, Watermark: wm}
	copy(b.Cols[0].Ints, ns)
	return b
}

// log collects what happened in the order in which it did, and lets tests await a line.
type log struct {
	mu    sync.Mutex
	lines []string
	left  time.Duration // of the last barrier
	more  chan struct{}
}

func newLog() *log { return &log{more: make(chan struct{}, 1000)} }

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
	l.mu.Unlock()
	l.more <- struct{}{}
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// await waits for a line.
func (l *log) await(t *testing.T, line string) {
	t.Helper()
	for !strings.Contains("\n"+l.text()+"\n", "\n"+line+"\n") {
		select {
		case <-l.more:
		case <-t.Context().Done():
			t.Fatalf("no line %q in\n%s", line, l.text())
		case <-time.After(10 * time.Second):
			t.Fatalf("no line %q in\n%s", line, l.text())
		}
	}
}

// Listener.
func (l *log) Heard(b checkpoint.Barrier) { l.add("heard %d", b.ID) }
func (l *log) Snapshotted(s *Snapshot) {
	l.add("snapshot %d of %s ended=%v", s.Barrier.ID, s.Subtask, s.Ended)
	for _, c := range s.states {
		if c.inline != nil {
			b, err := c.inline.Inline()
			l.add("state %s %s %v", c.operator, b, err)
		}
	}
}
func (l *log) Declined(n job.CheckpointID, id job.SubtaskID, why string) {
	l.add("declined %d: %s", n, why)
}
func (l *log) SourceEnded(id job.SubtaskID) { l.add("source %s ended", id) }

// Output.
func (l *log) Send(_ context.Context, b *batch.Batch) error {
	var ns []int64
	for i := range b.Len() {
		ns = append(ns, b.Cols[0].Ints[b.Row(i)])
	}
	wm := fmt.Sprint(b.Watermark)
	if b.Watermark == watermark.None {
		wm = "none"
	}
	l.add("rows %v watermark %s idle %v", ns, wm, b.Idle)
	return nil
}
func (l *log) Flush(context.Context) error { return nil }
func (l *log) Barrier(_ context.Context, b checkpoint.Barrier) error {
	l.mu.Lock()
	l.left = b.Remaining
	l.mu.Unlock()
	l.add("barrier %d", b.ID)
	return nil
}
func (l *log) End(context.Context) error { l.add("end"); return nil }

// testGate is a gate fed by the test.
type testGate struct {
	in      chan gateItem
	wake    chan struct{}
	blocked map[int]bool
	held    []gateItem
}

type gateItem struct {
	ch int
	e  batch.Element
}

func newTestGate() *testGate {
	return &testGate{in: make(chan gateItem, 100), wake: make(chan struct{}, 1), blocked: map[int]bool{}}
}

func (g *testGate) Next(ctx context.Context) (int, batch.Element, error) {
	for i, it := range g.held {
		if !g.blocked[it.ch] {
			g.held = append(g.held[:i:i], g.held[i+1:]...)
			return it.ch, it.e, nil
		}
	}
	for {
		select {
		case it := <-g.in:
			if g.blocked[it.ch] {
				g.held = append(g.held, it)
				continue
			}
			return it.ch, it.e, nil
		case <-g.wake:
			return 0, batch.Element{}, ErrWoken
		case <-ctx.Done():
			return 0, batch.Element{}, context.Cause(ctx)
		}
	}
}
func (g *testGate) Ready() bool  { return false }
func (g *testGate) Block(ch int) { g.blocked[ch] = true }
func (g *testGate) Unblock()     { clear(g.blocked) }
func (g *testGate) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *testGate) rows(ch int, b *batch.Batch) { g.in <- gateItem{ch, batch.Element{Batch: b}} }
func (g *testGate) barrier(ch int, b *checkpoint.Barrier) {
	g.in <- gateItem{ch, batch.Element{Kind: batch.BarrierElement, Barrier: b}}
}
func (g *testGate) end(ch int) { g.in <- gateItem{ch, batch.Element{Kind: batch.EndElement}} }

func barrierOf(n job.CheckpointID, remaining time.Duration) *checkpoint.Barrier {
	return &checkpoint.Barrier{Ref: ref, ID: n, Remaining: remaining, Aligned: true}
}

// run runs the subtask until the test ends.
func run(t *testing.T, cfg Config) *Subtask {
	t.Helper()
	cfg.Ref, cfg.MaxParallelism, cfg.Parallelism = ref, 128, 1
	cfg.Log = slog.New(slog.DiscardHandler)
	s := New(cfg)
	ctx, cancel := context.WithCancelCause(context.Background())
	start, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		err := s.Run(ctx, func() { close(ready) }, start)
		s.Close(ctx)
		done <- err
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("open: %v", err)
	}
	close(start)
	stopped := errors.New("test is over")
	t.Cleanup(func() {
		cancel(stopped)
		if err := <-done; err == nil {
			t.Error("Run returned nil")
		}
	})
	return s
}

func twoInputs(t *testing.T) (*log, *testGate, *Subtask) {
	l, g := newLog(), newTestGate()
	s := run(t, Config{
		ID:     job.SubtaskID{Vertex: "v"},
		Vertex: &Vertex{Inputs: []Target{{Kind: ToOutput}}, Outputs: 1},
		Gate:   g, ChannelInput: []int{0, 0}, Outputs: []Output{l}, Listener: l,
	})
	return l, g, s
}

// Aligned: what a channel brings after its barrier waits until the other's barrier is there.
func TestAlignmentHoldsBackTheFasterChannel(t *testing.T) {
	l, g, _ := twoInputs(t)
	g.rows(0, numbers(watermark.None, 1))
	g.barrier(0, barrierOf(1, time.Minute))
	g.rows(0, numbers(watermark.None, 2)) // after the barrier
	g.rows(1, numbers(watermark.None, 3)) // before it
	g.barrier(1, barrierOf(1, time.Minute))
	l.await(t, "rows [2] watermark none idle false")
	want := "rows [1] watermark none idle false\nheard 1\nrows [3] watermark none idle false\nbarrier 1\nsnapshot 1 of v[0] ended=false\nrows [2] watermark none idle false"
	if got := l.text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The deadline releases an alignment: a barrier that reached half the cluster blocks nobody for longer.
func TestDeadlineReleasesAlignment(t *testing.T) {
	l, g, _ := twoInputs(t)
	g.barrier(0, barrierOf(1, time.Millisecond))
	g.rows(0, numbers(watermark.None, 2))
	l.await(t, "rows [2] watermark none idle false")
	if got := l.text(); !strings.Contains(got, "declined 1") || strings.Contains(got, "snapshot") {
		t.Errorf("got\n%s\nwant a declined checkpoint and no snapshot", got)
	}
}

func TestGiveUpReleasesAlignment(t *testing.T) {
	l, g, s := twoInputs(t)
	g.barrier(0, barrierOf(1, time.Minute))
	l.await(t, "heard 1")
	s.GiveUp(1)
	g.rows(0, numbers(watermark.None, 2))
	l.await(t, "rows [2] watermark none idle false")
}

func TestWatermarkIsTheMinimumOfTheChannels(t *testing.T) {
	l, g, _ := twoInputs(t)
	g.rows(0, numbers(10, 11))
	g.rows(1, numbers(5, 6))
	l.await(t, "rows [6] watermark 5 idle false")
	g.rows(1, numbers(20, 21))
	l.await(t, "rows [21] watermark 10 idle false")
	g.end(0)
	l.await(t, "rows [] watermark 20 idle false") // the ended channel holds nobody up
	g.end(1)
	l.await(t, "end")
}

// An ended subtask stays and passes barriers.
func TestEndedInputPassesBarriers(t *testing.T) {
	l, g, _ := twoInputs(t)
	g.end(0)
	g.end(1)
	l.await(t, "end")
	g.barrier(1, barrierOf(4, time.Minute))
	l.await(t, "barrier 4")
	g.barrier(0, barrierOf(4, time.Minute)) // nothing new
	g.barrier(0, barrierOf(5, time.Minute))
	l.await(t, "barrier 5")
	if n := strings.Count(l.text(), "barrier 4"); n != 1 {
		t.Errorf("barrier 4 was forwarded %d times", n)
	}
}

// testSource is a source of one split whose records are decimal numbers; 0 is a bad record.
type testSource struct {
	fetches chan connector.Fetch
	told    chan []connector.Split
}

func (s *testSource) Resolve(context.Context) ([]connector.Split, error) { return nil, nil }
func (s *testSource) Owner(string, int) int                              { return 0 }
func (s *testSource) Open(context.Context, int, int, []connector.Split) (connector.Reader, error) {
	return s, nil
}
func (s *testSource) Fetches() <-chan connector.Fetch    { return s.fetches }
func (s *testSource) Committed(splits []connector.Split) { s.told <- splits }
func (s *testSource) Close() error                       { return nil }

// send delivers the numbers as a fetch that begins at offset from.
func (s *testSource) send(from, end int64, ns ...int64) {
	rs := &format.Records{Split: "t/0"}
	for i, n := range ns {
		v := []byte(fmt.Sprint(n))
		rs.Values = append(rs.Values, format.Span{Off: int32(len(rs.Buf)), Len: int32(len(v))})
		rs.Buf = append(rs.Buf, v...)
		rs.Offsets = append(rs.Offsets, from+int64(i))
	}
	s.fetches <- connector.Fetch{Split: connector.Split{ID: "0", Position: from + int64(len(ns)), End: end}, Records: rs, Lag: 0}
}

type testDecoder struct{}

func (testDecoder) Decode(rs *format.Records, from, to int, bad []format.Bad) ([]*batch.Batch, []format.Bad, error) {
	b := &batch.Batch{Schema: number, Rows: to - from, Cols: []batch.Column{batch.NewColumn(number.Fields[0].Type, to-from)}}
	for i := from; i < to; i++ {
		var n int64
		fmt.Sscan(string(rs.Value(i)), &n)
		b.Cols[0].Ints[i-from] = n
		if n == 0 {
			bad = append(bad, format.Bad{Record: i, Err: errors.New("zero")})
		}
	}
	return []*batch.Batch{b}, bad, nil
}

func sourceVertex(src *testSource, onError operator.OnError) *Vertex {
	return &Vertex{Outputs: 1, Source: &Source{
		UID: "s", Connector: src, Branches: [][]Target{{{Kind: ToOutput}}}, Schemas: []*batch.Schema{number}, OnError: onError,
		NewDecoder: func() (format.Decoder, error) { return testDecoder{}, nil },
		NewTime: func() (TimeFunc, error) {
			return func(b *batch.Batch) (*batch.Column, error) { return &b.Cols[0], nil }, nil
		},
		MaxOutOfOrder: 2 * time.Microsecond,
	}}
}

func startedAt(t *testing.T, splits ...connector.Split) []checkpoint.OperatorState {
	t.Helper()
	st, err := StartState("s", splits)
	if err != nil {
		t.Fatal(err)
	}
	return []checkpoint.OperatorState{st}
}

func runSource(t *testing.T, onError operator.OnError, end int64) (*log, *testSource, *Subtask) {
	l, src := newLog(), &testSource{fetches: make(chan connector.Fetch, 10), told: make(chan []connector.Split, 10)}
	s := run(t, Config{
		ID: job.SubtaskID{Vertex: "s"}, Vertex: sourceVertex(src, onError), Outputs: []Output{l}, Listener: l,
		States: startedAt(t, connector.Split{ID: "0", End: end}),
	})
	return l, src, s
}

func TestSourceSavesPositionsAndMovesTheWatermark(t *testing.T) {
	l, src, s := runSource(t, operator.Fail, connector.NoEnd)
	src.send(0, connector.NoEnd, 100, 90)
	l.await(t, "rows [100 90] watermark 97 idle false") // newest − out of order − 1 µs
	s.Inject(*barrierOf(1, time.Minute))
	l.await(t, `state s {"splits":[{"id":"0","position":2,"end":-1,"newest":100}]} <nil>`)
	s.Inject(*barrierOf(1, time.Minute)) // a repeated order
	s.CheckpointDurable(1)
	if got := <-src.told; len(got) != 1 || got[0].Position != 2 {
		t.Errorf("told positions %v, want those of checkpoint 1", got)
	}
	if n := strings.Count(l.text(), "snapshot 1"); n != 1 {
		t.Errorf("%d snapshots of checkpoint 1, want 1", n)
	}
}

func TestBoundedSourceEndsAndPassesBarriers(t *testing.T) {
	l, src, s := runSource(t, operator.Fail, 2)
	src.send(0, 2, 7, 8)
	close(src.fetches)
	l.await(t, "source s[0] ended")
	s.Inject(*barrierOf(3, time.Minute))
	l.await(t, "snapshot 3 of s[0] ended=true")
	if got := l.text(); strings.Index(got, "end\n") > strings.Index(got, "barrier 3") {
		t.Errorf("the end comes after the barrier:\n%s", got)
	}
}

func TestBadRecordsAreSkippedAndCounted(t *testing.T) {
	l, src, s := runSource(t, operator.Skip, connector.NoEnd)
	src.send(0, connector.NoEnd, 5, 0, 6)
	l.await(t, "rows [5 6] watermark 3 idle false")
	if got := s.Figures().Skipped; got != 1 {
		t.Errorf("%d skipped, want 1", got)
	}
}

func TestBadRecordFailsWithItsPlace(t *testing.T) {
	l, src := newLog(), &testSource{fetches: make(chan connector.Fetch, 10)}
	s := New(Config{
		Ref: ref, ID: job.SubtaskID{Vertex: "s"}, Vertex: sourceVertex(src, operator.Fail), Parallelism: 1, MaxParallelism: 128,
		Outputs: []Output{l}, Listener: l, Log: slog.New(slog.DiscardHandler), States: startedAt(t, connector.Split{ID: "0", End: -1}),
	})
	src.send(40, connector.NoEnd, 5, 0)
	start := make(chan struct{})
	close(start)
	err := s.Run(t.Context(), func() {}, start)
	s.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bad record at t/0 offset 41: zero") {
		t.Errorf("got %v, want the place of the bad record", err)
	}
	if job.ClassOf(err) != job.Fatal {
		t.Errorf("class %v, want fatal", job.ClassOf(err))
	}
}
