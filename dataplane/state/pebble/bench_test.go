package pebble_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/state/statetest"
)

const batchKeys = 1024

// bench is a backend with a table of eight words a key, as of a few aggregates.
type bench struct {
	b     *testing.B
	back  *pebble.Backend
	table state.Table
	keys  state.KeySet
	slots [batchKeys]state.Slot
}

func openBench(b *testing.B, cacheBytes int64) *bench {
	b.Helper()
	back, err := pebble.Open(state.Config{
		Dir: b.TempDir(), KeyRange: job.KeyGroupRange{To: 128}, MaxParallelism: 128, CacheBytes: cacheBytes,
	})
	if err != nil {
		b.Fatalf("open: %v", err)
	}
	table, err := back.Table("aggregate", state.Layout{Words: 8})
	if err != nil {
		b.Fatalf("table: %v", err)
	}
	return &bench{b: b, back: back, table: table}
}

// prepare makes a batch of keys from next.
func (x *bench) prepare(next func() uint64) {
	x.keys.Reset()
	for range batchKeys {
		at := len(x.keys.Bytes)
		x.keys.Bytes = binary.BigEndian.AppendUint64(append(x.keys.Bytes, 1), next())
		x.keys.Ends = append(x.keys.Ends, int32(len(x.keys.Bytes)))
		x.keys.Hash = append(x.keys.Hash, batch.HashBytes(x.keys.Bytes[at:]))
	}
}

func (x *bench) update() {
	if err := x.table.Resolve(&x.keys, x.slots[:]); err != nil {
		x.b.Fatalf("resolve: %v", err)
	}
	for _, s := range x.slots {
		w := x.table.Words(s)
		w[0]++
		w[1] += 17
	}
}

func (x *bench) endBatch() {
	if err := x.back.EndBatch(); err != nil {
		x.b.Fatalf("end of batch: %v", err)
	}
}

func (x *bench) fill(n int) {
	key := uint64(0)
	for range n / batchKeys {
		x.prepare(func() uint64 { key++; return key })
		x.update()
		x.endBatch()
	}
}

// checkpoint freezes and persists; between is called on the owner's goroutine meanwhile.
func (x *bench) checkpoint(id job.CheckpointID, store *statetest.Store, between func()) (saved checkpoint.OperatorState) {
	x.b.Helper()
	f, err := x.back.Freeze(id)
	if err != nil {
		x.b.Fatalf("freeze: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		saved, err = f.Persist(context.Background(), store)
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				x.b.Fatalf("persist: %v", err)
			}
			return saved
		default:
			between()
		}
	}
}

func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return float64(d[int(q*float64(len(d)-1))].Microseconds())
}

// BenchmarkHotKeys is Resolve and an update of keys that are in memory, per key.
func BenchmarkHotKeys(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 16, 1 << 20} {
		b.Run(map[int]string{1 << 10: "1Ki", 1 << 16: "64Ki", 1 << 20: "1Mi"}[n], func(b *testing.B) {
			x := openBench(b, 1<<30)
			defer x.back.Close()
			x.fill(n)
			r := rand.New(rand.NewPCG(1, 2))
			sets := make([]state.KeySet, 64)
			for i := range sets {
				x.keys = state.KeySet{}
				x.prepare(func() uint64 { return 1 + r.Uint64N(uint64(n)) })
				sets[i] = x.keys
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.keys = sets[i%len(sets)]
				x.update()
				x.endBatch()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batchKeys), "ns/key")
		})
	}
}

// BenchmarkBarrier is the owner's pause with 1 M dirty keys: the Freeze itself, and what EndBatch takes while
// the frozen content is copied and persisted beside running updates.
func BenchmarkBarrier(b *testing.B) {
	x := openBench(b, 1<<30)
	defer x.back.Close()
	store := statetest.NewStore()
	r := rand.New(rand.NewPCG(1, 2))
	var freezes, pauses []time.Duration
	var id job.CheckpointID
	for b.Loop() {
		x.fill(1 << 20)
		start := time.Now()
		f, err := x.back.Freeze(id)
		freezes = append(freezes, time.Since(start))
		if err != nil {
			b.Fatalf("freeze: %v", err)
		}
		id++
		done := make(chan error, 1)
		go func() {
			_, err := f.Persist(context.Background(), store)
			done <- err
		}()
		for running := true; running; {
			x.prepare(func() uint64 { return 1 + r.Uint64N(1<<20) })
			x.update()
			start := time.Now()
			x.endBatch()
			pauses = append(pauses, time.Since(start))
			select {
			case err := <-done:
				if running = false; err != nil {
					b.Fatalf("persist: %v", err)
				}
			default:
			}
		}
	}
	b.ReportMetric(quantile(freezes, 1), "freeze-max-µs")
	b.ReportMetric(quantile(pauses, 0.99), "endbatch-p99-µs")
	b.ReportMetric(quantile(pauses, 1), "endbatch-max-µs")
}

// BenchmarkUnchanged is a checkpoint of 1 M keys of which none has changed: the same state again, and the first one
// after a restart that has restored it. No table is uploaded again, which would fail the benchmark; what is uploaded
// after a restart is what describes the new database.
func BenchmarkUnchanged(b *testing.B) {
	x := openBench(b, 1<<30)
	defer x.back.Close()
	store := statetest.NewStore()
	x.fill(1 << 20)
	saved := x.checkpoint(1, store, x.endBatch)
	full := store.Traffic()
	b.Run("again", func(b *testing.B) {
		x.b = b
		id := job.CheckpointID(2)
		for b.Loop() {
			x.checkpoint(id, store, x.endBatch)
			id++
		}
		reportReuse(b, full, store.Traffic())
	})
	b.Run("after-restart", func(b *testing.B) {
		var sum statetest.Traffic
		for b.Loop() {
			b.StopTimer()
			y := openBench(b, 1<<30)
			if err := y.back.Restore(context.Background(), []checkpoint.OperatorState{saved}, store); err != nil {
				b.Fatalf("restore: %v", err)
			}
			store.Traffic()
			b.StartTimer()
			y.checkpoint(2, store, y.endBatch)
			t := store.Traffic()
			b.StopTimer()
			sum.Bytes, sum.Reused, sum.Uploaded = sum.Bytes+t.Bytes, sum.Reused+t.Reused, append(sum.Uploaded, t.Uploaded...)
			y.back.Close()
			b.StartTimer()
		}
		reportReuse(b, full, sum)
	})
}

// reportReuse reports what b.N checkpoints uploaded and used again, beside what the first one had to upload. No table
// may be among it.
func reportReuse(b *testing.B, full, t statetest.Traffic) {
	b.Helper()
	tables := 0
	for _, name := range full.Uploaded {
		if strings.HasSuffix(name, ".sst") {
			tables++
		}
	}
	for _, name := range t.Uploaded {
		if strings.HasSuffix(name, ".sst") {
			b.Fatalf("table %s of an unchanged state was uploaded again", name)
		}
	}
	if tables == 0 || t.Reused < tables*b.N {
		b.Fatalf("%d files were used again in %d checkpoints of %d tables", t.Reused, b.N, tables)
	}
	b.ReportMetric(float64(full.Bytes), "first-B")
	b.ReportMetric(float64(t.Bytes)/float64(b.N), "uploaded-B/op")
	b.ReportMetric(float64(len(t.Uploaded))/float64(b.N), "uploaded-files/op")
	b.ReportMetric(float64(t.Reused)/float64(b.N), "reused-files/op")
}

// BenchmarkChanged is a checkpoint of 1 M keys of which one in a hundred has changed.
func BenchmarkChanged(b *testing.B) {
	x := openBench(b, 1<<30)
	defer x.back.Close()
	store := statetest.NewStore()
	x.fill(1 << 20)
	x.checkpoint(1, store, x.endBatch)
	store.Traffic()
	r := rand.New(rand.NewPCG(1, 2))
	id := job.CheckpointID(2)
	for b.Loop() {
		for range 10 {
			x.prepare(func() uint64 { return 1 + r.Uint64N(1<<20) })
			x.update()
			x.endBatch()
		}
		x.checkpoint(id, store, x.endBatch)
		id++
	}
	b.ReportMetric(float64(store.Traffic().Bytes)/float64(b.N), "uploaded-B/op")
}

// BenchmarkFiveMillion updates keys out of 5 M, of which nine in ten updates go to one in a hundred, under a
// working copy that holds all of them or only a part, per key.
func BenchmarkFiveMillion(b *testing.B) {
	for name, cache := range map[string]int64{"fits": 2 << 30, "256MiB": 256 << 20} {
		b.Run(name, func(b *testing.B) {
			x := openBench(b, cache)
			defer x.back.Close()
			const n = 5_000_000
			x.fill(n)
			r := rand.New(rand.NewPCG(1, 2))
			next := func() uint64 {
				if r.Uint64N(10) != 0 {
					return 1 + r.Uint64N(n/100)*100
				}
				return 1 + r.Uint64N(n)
			}
			for b.Loop() {
				x.prepare(next)
				x.update()
				x.endBatch()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batchKeys), "ns/key")
			b.ReportMetric(float64(x.back.Bytes())/(1<<20), "MiB")
		})
	}
}
