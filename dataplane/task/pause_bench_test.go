package task_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/aggregate"
	"github.com/weirstream/weir/dataplane/operator/operatortest"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/state/statetest"
	"github.com/weirstream/weir/dataplane/task"
)

// What BenchmarkBarrierPause runs: eight aggregates a key over pauseKeys keys in batches of pauseRows rows, and a
// barrier after pauseBatches of them, which make about a tenth of the keys dirty.
const (
	pauseKeys    = 1 << 20
	pauseRows    = 1024
	pauseBatches = 100
)

// BenchmarkBarrierPause is how long a subtask with a keyed operator of 1 M keys in Pebble stands still at a barrier:
// from the moment at which the last of its channels has delivered it until the subtask asks for the next batch. An
// iteration is a checkpoint, persisted in the background while batches go on; the next one waits for that. Beside it
// stands what batches take while frozen state is still being copied aside, which is where the work goes.
func BenchmarkBarrierPause(b *testing.B) {
	ctx, cancel := context.WithCancelCause(context.Background())
	f := newFeed(b)
	l := &pauseListener{b: b, ctx: ctx, feed: f, files: &statetest.Discard{}}
	backend, err := pebble.Open(state.Config{
		Dir: b.TempDir(), KeyRange: job.KeyGroupRange{To: 128}, MaxParallelism: 128, CacheBytes: 1 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	out := &countInserts{}
	cfg := eightAggregates(b)
	s := task.New(task.Config{
		Ref: pauseRef, ID: job.SubtaskID{Vertex: "stats"}, Parallelism: 1, MaxParallelism: 128,
		Vertex: &task.Vertex{
			Inputs: []task.Target{{Kind: task.ToStage}}, Outputs: 1,
			Stages: []task.Stage{{
				UID: "stats", Keyed: true, Out: []task.Target{{Kind: task.ToOutput}},
				New: func() (operator.Operator, error) { return aggregate.New(cfg) },
			}},
		},
		Gate: f, ChannelInput: []int{0, 0}, Outputs: []task.Output{out}, Listener: l,
		Backends: map[string]state.Backend{"stats": backend}, Log: slog.New(slog.DiscardHandler),
	})
	stop := runUntilStopped(ctx, cancel, b, s)
	f.await(f.filled)
	for b.Loop() {
		select {
		case f.ask <- struct{}{}:
		case <-f.failed:
		}
		f.await(f.done)
	}
	stop()
	if n := out.inserts; n != pauseKeys {
		b.Errorf("the state has %d keys, want %d", n, pauseKeys)
	}
	if n := l.persisted.Load(); n < int64(b.N)-1 || l.files.Bytes() == 0 {
		b.Errorf("%d checkpoints with %d bytes were persisted, want those of %d barriers", n, l.files.Bytes(), b.N)
	}
	reportMicros(b, "pause", f.pauses)
	reportMicros(b, "batch-while-persisting", f.persisting)
	reportMicros(b, "batch", f.batches)
	b.ReportMetric(float64(l.files.Bytes())/float64(max(l.persisted.Load(), 1))/(1<<20), "uploaded-MiB/op")
	b.ReportMetric(0, "ns/op") // which says how far barriers are apart, no more
}

var pauseRef = job.Ref{UID: "u", Attempt: 1}

var pauseSchema = &batch.Schema{HasTime: true, Fields: []batch.Field{
	{Name: "auction", Type: batch.Type{Kind: batch.Int64}}, {Name: "price", Type: batch.Type{Kind: batch.Int64}},
}}

func eightAggregates(b *testing.B) aggregate.Config {
	return aggregate.Config{Shape: operatortest.Shape(b, pauseSchema, []string{"auction"}, nil, "auction", "count(*)",
		"count(*) filter (where price < 10000)", "count(*) filter (where price >= 10000 and price < 1000000)",
		"count(*) filter (where price >= 1000000)", "min(price)", "max(price)", "avg(price)", "sum(price)")}
}

// runUntilStopped runs s; the function that it returns ends it. A subtask that ends by itself fails the benchmark.
func runUntilStopped(ctx context.Context, cancel context.CancelCauseFunc, b *testing.B, s *task.Subtask) (stop func()) {
	over := errors.New("the benchmark is over")
	start, done := make(chan struct{}), make(chan struct{})
	close(start)
	go func() {
		defer close(done)
		if err := s.Run(ctx, func() {}, start); !errors.Is(err, over) {
			b.Errorf("the subtask ended: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel(over)
		<-done
		s.Close(ctx)
	})
	b.Cleanup(stop)
	return stop
}

// feed is a gate with two channels. It fills the state, then brings barriers, in both channels, with batches between
// them. All but Wake is called on the subtask's goroutine, which works between two calls of Next.
type feed struct {
	b     *testing.B
	woken atomic.Bool
	// idle says that no checkpoint is in progress.
	idle atomic.Bool

	filled, ask, done, failed chan struct{}

	key      int64 // next to fill in
	random   []*batch.Batch
	turn     int
	since    int // batches after the last barrier
	barriers job.CheckpointID
	half     bool // one channel has its barrier
	// last is when an element was handed out, and into what the time until the next call of Next goes.
	last time.Time
	into *[]time.Duration

	pauses, batches, persisting []time.Duration
}

func newFeed(b *testing.B) *feed {
	f := &feed{b: b, filled: make(chan struct{}), ask: make(chan struct{}), done: make(chan struct{}), failed: make(chan struct{})}
	f.idle.Store(true)
	r := rand.New(rand.NewPCG(1, 2))
	for range 256 {
		f.random = append(f.random, bids(func() int64 { return r.Int64N(pauseKeys) }))
	}
	return f
}

// bids is a batch whose keys come from next.
func bids(next func() int64) *batch.Batch {
	d := &batch.Batch{Schema: pauseSchema, Rows: pauseRows, Watermark: batch.NoWatermark, Time: make([]int64, pauseRows)}
	d.Cols = []batch.Column{batch.NewColumn(pauseSchema.Fields[0].Type, pauseRows), batch.NewColumn(pauseSchema.Fields[1].Type, pauseRows)}
	for i := range pauseRows {
		key := next()
		d.Cols[0].Ints[i], d.Cols[1].Ints[i] = key, key*7919%2_000_000
	}
	return d
}

// await waits for what the subtask's goroutine tells.
func (f *feed) await(c chan struct{}) {
	f.b.Helper()
	select {
	case <-c:
	case <-f.failed:
		f.b.FailNow()
	case <-time.After(5 * time.Minute):
		f.b.Fatal("nothing happens")
	}
}

// Next implements task.Gate.
func (f *feed) Next(ctx context.Context) (int, batch.Element, error) {
	if now := time.Now(); f.into != nil {
		*f.into = append(*f.into, now.Sub(f.last))
	}
	paused := f.into == &f.pauses
	f.into = nil
	switch {
	case ctx.Err() != nil:
		return 0, batch.Element{}, context.Cause(ctx)
	case f.woken.Swap(false):
		return 0, batch.Element{}, task.ErrWoken
	case paused:
		select {
		case f.done <- struct{}{}:
		case <-ctx.Done():
			return 0, batch.Element{}, context.Cause(ctx)
		}
	}
	if f.key < pauseKeys {
		return f.element(batch.Element{Batch: bids(func() int64 { f.key++; return f.key - 1 })})
	}
	if f.key == pauseKeys {
		f.key++
		close(f.filled)
	}
	if f.half || f.since >= pauseBatches && f.idle.Load() {
		return f.barrier(ctx)
	}
	f.since++
	f.into = &f.batches
	if !f.idle.Load() {
		f.into = &f.persisting
	}
	f.turn++
	return f.element(batch.Element{Batch: f.random[f.turn%len(f.random)]})
}

func (f *feed) element(e batch.Element) (int, batch.Element, error) {
	f.last = time.Now()
	return f.turn % 2, e, nil
}

// barrier brings the next barrier into the first channel, when it is asked for, then into the second.
func (f *feed) barrier(ctx context.Context) (int, batch.Element, error) {
	if !f.half {
		select {
		case <-f.ask:
		case <-ctx.Done():
			return 0, batch.Element{}, context.Cause(ctx)
		}
		f.barriers++
	} else {
		f.since = 0
		f.into = &f.pauses
		f.idle.Store(false)
	}
	b := &checkpoint.Barrier{Ref: pauseRef, ID: f.barriers, Remaining: 10 * time.Minute, Aligned: true}
	channel := 0
	if f.half {
		channel = 1
	}
	f.half = !f.half
	f.last = time.Now()
	return channel, batch.Element{Kind: batch.BarrierElement, Barrier: b}, nil
}

// Ready implements task.Gate: there is always more to read.
func (f *feed) Ready() bool { return true }

// Block implements task.Gate: the feed sends nothing behind a barrier.
func (f *feed) Block(int) {}

// Unblock implements task.Gate.
func (f *feed) Unblock() {}

// Wake implements task.Gate.
func (f *feed) Wake() { f.woken.Store(true) }

// countInserts is an output that counts the keys that are new. Subtask's goroutine only, until that has ended.
type countInserts struct{ inserts int }

func (c *countInserts) Send(_ context.Context, b *batch.Batch) error {
	for i := range b.Len() {
		if b.ChangeAt(b.Row(i)) == batch.Insert {
			c.inserts++
		}
	}
	return nil
}
func (c *countInserts) Flush(context.Context) error                       { return nil }
func (c *countInserts) Barrier(context.Context, checkpoint.Barrier) error { return nil }
func (c *countInserts) End(context.Context) error                         { return nil }

// pauseListener persists snapshots in the background, as a node does.
type pauseListener struct {
	b         *testing.B
	ctx       context.Context
	feed      *feed
	files     *statetest.Discard
	persisted atomic.Int64
	once      sync.Once
}

func (l *pauseListener) Heard(checkpoint.Barrier) {}
func (l *pauseListener) Snapshotted(s *task.Snapshot) {
	go func() {
		if _, _, err := s.Persist(l.ctx, l.files); err != nil {
			l.fail("persist checkpoint %d: %v", s.Barrier.ID, err)
			return
		}
		l.persisted.Add(1)
		l.feed.idle.Store(true)
	}()
}
func (l *pauseListener) Declined(n job.CheckpointID, _ job.SubtaskID, why string) {
	l.fail("checkpoint %d is declined: %s", n, why)
}
func (l *pauseListener) SourceEnded(job.SubtaskID) {}

func (l *pauseListener) fail(format string, args ...any) {
	if l.ctx.Err() == nil {
		l.b.Errorf(format, args...)
		l.once.Do(func() { close(l.feed.failed) })
	}
}

func reportMicros(b *testing.B, what string, ds []time.Duration) {
	if len(ds) == 0 {
		b.Errorf("%s: nothing was measured", what)
		return
	}
	slices.Sort(ds)
	at := func(q float64) float64 { return float64(ds[int(q*float64(len(ds)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(0.5), what+"-p50-µs")
	b.ReportMetric(at(0.99), what+"-p99-µs")
	b.ReportMetric(at(1), what+"-max-µs")
}
