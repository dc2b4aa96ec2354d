package aggregate_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/aggregate"
	"github.com/weirstream/weir/dataplane/operator/operatortest"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/state/statetest"
)

// What BenchmarkLargerThanCache runs.
const (
	largeKeys   = 5_000_000
	largeRows   = 2048
	largeEvents = 4 << 20 // between two checkpoints: about ten seconds of a busy subtask
)

// BenchmarkLargerThanCache is the cost of an event for eight running aggregates over 5 M keys in Pebble, under a cache
// that holds all of them and under one of 256 MiB, and how many times the first the second is: on the clock, and in CPU
// time with what Pebble does in the background. An iteration is largeEvents events with a checkpoint, which is persisted
// beside them. "hot" keys are as in most streams: nine events
// in ten go to one key in a hundred; "even" is the worst case: every event is to any key.
func BenchmarkLargerThanCache(b *testing.B) {
	for _, load := range []struct {
		name string
		next func(r *rand.Rand) int64
	}{
		{"hot", func(r *rand.Rand) int64 {
			if r.IntN(10) > 0 {
				return r.Int64N(largeKeys/100) * 100
			}
			return r.Int64N(largeKeys)
		}},
		{"even", func(r *rand.Rand) int64 { return r.Int64N(largeKeys) }},
	} {
		var fits cost
		b.Run(load.name+"/fits", func(b *testing.B) {
			fits = newLarge(b, 4<<30, load.next).measure()
		})
		b.Run(load.name+"/256MiB", func(b *testing.B) {
			c := newLarge(b, 256<<20, load.next).measure()
			if fits.wall > 0 { // else it was not chosen to run
				b.ReportMetric(c.wall/fits.wall, "×fits")
				b.ReportMetric(c.cpu/fits.cpu, "×fits-cpu")
			}
		})
	}
}

// cost is what an event takes, in ns.
type cost struct{ wall, cpu float64 }

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// large is an aggregate over largeKeys keys.
type large struct {
	*testing.B
	run   *operatortest.Run
	back  *pebble.Backend
	files statetest.Discard
	next  func() int64
	id    job.CheckpointID
	done  chan error // of the checkpoint in progress; nil when there is none
}

var largeSchema = &batch.Schema{HasTime: true, Fields: []batch.Field{
	{Name: "auction", Type: batch.Type{Kind: batch.Int64}}, {Name: "price", Type: batch.Type{Kind: batch.Int64}},
}}

// newLarge fills the state, every key once, and saves it.
func newLarge(b *testing.B, cache int64, next func(*rand.Rand) int64) *large {
	b.Helper()
	l := &large{B: b}
	shape := operatortest.Shape(b, largeSchema, []string{"auction"}, nil, "auction", "count(*)", "count(*) filter (where price < 10000)",
		"count(*) filter (where price >= 10000 and price < 1000000)", "count(*) filter (where price >= 1000000)", "min(price)", "max(price)", "avg(price)", "sum(price)")
	l.run = operatortest.Start(b, operatortest.Setup{
		New: func() (operator.Operator, error) { return aggregate.New(aggregate.Config{Shape: shape}) },
		State: func(c state.Config) (_ state.Backend, err error) {
			c.CacheBytes = cache
			l.back, err = pebble.Open(c)
			return l.back, err
		},
	}, nil)
	key := int64(0)
	l.next = func() int64 { key++; return key - 1 }
	inserts := 0
	for key < largeKeys {
		inserts += l.batch(min(largeRows, int(largeKeys-key)))
	}
	if inserts != largeKeys {
		b.Fatalf("the state has %d keys, want %d", inserts, largeKeys)
	}
	l.checkpoint()
	l.finish()
	r := rand.New(rand.NewPCG(1, 2))
	l.next = func() int64 { return next(r) }
	for range largeEvents / largeRows { // until the cache holds what it will hold
		l.batch(largeRows)
	}
	return l
}

// measure runs the benchmark and returns the cost of an event.
func (l *large) measure() cost {
	l.Helper()
	before, used := l.files.Bytes(), cpuTime(l.B)
	for l.Loop() {
		l.checkpoint()
		for range largeEvents / largeRows {
			if n := l.batch(largeRows); n > 0 {
				l.Fatalf("%d keys are new: the state has lost them", n)
			}
		}
		l.finish()
	}
	events := float64(l.N) * largeEvents
	c := cost{wall: float64(l.Elapsed().Nanoseconds()) / events, cpu: float64((cpuTime(l.B) - used).Nanoseconds()) / events}
	saved := l.files.Bytes() - before
	if saved == 0 {
		l.Fatal("the checkpoints saved nothing")
	}
	l.ReportMetric(c.wall, "ns/event")
	l.ReportMetric(c.cpu, "cpu-ns/event")
	l.ReportMetric(float64(l.back.Bytes())/(1<<20), "memory-MiB")
	l.ReportMetric(float64(saved)/float64(l.N)/(1<<20), "uploaded-MiB/op")
	return c
}

// batch gives the operator n rows and returns for how many keys it was the first time.
func (l *large) batch(n int) (inserts int) {
	d := &batch.Batch{Schema: largeSchema, Rows: n, Watermark: batch.NoWatermark, Time: make([]int64, n)}
	d.Cols = []batch.Column{batch.NewColumn(largeSchema.Fields[0].Type, n), batch.NewColumn(largeSchema.Fields[1].Type, n)}
	for i := range n {
		key := l.next()
		d.Cols[0].Ints[i], d.Cols[1].Ints[i] = key, key*7919%2_000_000
	}
	l.run.Must(d)
	for _, out := range l.run.Batches() {
		if out.Change == nil {
			inserts += out.Len()
			continue
		}
		for i := range out.Len() {
			if out.ChangeAt(out.Row(i)) == batch.Insert {
				inserts++
			}
		}
	}
	return inserts
}

// checkpoint freezes the state and begins to persist it.
func (l *large) checkpoint() {
	l.id++
	f, err := l.back.Freeze(l.id)
	if err != nil {
		l.Fatalf("freeze: %v", err)
	}
	l.done = make(chan error, 1)
	go func() {
		_, err := f.Persist(context.Background(), &l.files)
		l.done <- err
	}()
}

// finish pays for what is left of the checkpoint and waits for it.
func (l *large) finish() {
	for l.back.Pending() {
		if err := l.back.EndBatch(); err != nil {
			l.Fatalf("end of batch: %v", err)
		}
	}
	if err := <-l.done; err != nil {
		l.Fatalf("persist: %v", err)
	}
}
