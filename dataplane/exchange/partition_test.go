package exchange

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

const testGroups = 16

var timedSchema = &batch.Schema{Fields: testSchema.Fields, HasTime: true}

// fanOut is a partitioner over channels within a node, each with a gate of its own.
type fanOut struct {
	*Partitioner
	gates []*Gate
}

func newFanOut(t testing.TB, kind job.Exchange, channels, batchRows int) *fanOut {
	t.Helper()
	return newNetwork(t, fastTimings(), "a").fanOut(t, kind, channels, batchRows)
}

// fanOut makes the next attempt of the network a partitioner with its channels.
func (n *network) fanOut(t testing.TB, kind job.Exchange, channels, batchRows int) *fanOut {
	t.Helper()
	n.cfg.Ref.Attempt++
	n.cfg.Channels, n.cfg.QueueLen = nil, 4096
	for i := range channels {
		n.channel("a", "a", job.Channel{To: i})
	}
	n.attach("a")
	f := &fanOut{}
	var outs []*Output
	for i := range channels {
		outs = append(outs, n.output("a", job.Channel{To: i}))
		f.gates = append(f.gates, n.gate("a", job.Channel{To: i}))
	}
	n.start()
	p, err := NewPartitioner(PartitionerConfig{
		Exchange: kind, Schema: timedSchema, Outputs: outs, Keys: []int{0}, MaxParallelism: testGroups, BatchRows: batchRows,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Partitioner = p
	return f
}

// drain returns what waits in channel i.
func (f *fanOut) drain(t testing.TB, i int) []batch.Element {
	t.Helper()
	var out []batch.Element
	for f.gates[i].Ready() {
		_, e := next(t, f.gates[i])
		out = append(out, e)
	}
	return out
}

// timed returns a batch of the given keys, whose texts tell the rows apart.
func timed(first int, keys []int64, time, watermark int64) *batch.Batch {
	b := &batch.Batch{Schema: timedSchema, Rows: len(keys), Watermark: watermark, Cols: []batch.Column{
		batch.NewColumn(testSchema.Fields[0].Type, len(keys)), batch.NewColumn(testSchema.Fields[1].Type, len(keys)),
	}}
	for i, k := range keys {
		b.Cols[0].Ints[i] = k
		b.Cols[1].SetBytes(i, fmt.Appendf(nil, "this is row number %06d", first+i))
		b.Time = append(b.Time, time)
	}
	return b
}

func TestHashSendsRowsToTheirOwner(t *testing.T) {
	f := newFanOut(t, job.Hash, 3, 4)
	keys := []int64{5, 7, 5, 9, 11, 5, 7, 100, 200, 300, 400, 500}
	b := timed(0, keys, 10, 9)
	b.Sel = []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9} // the last two rows do not exist
	if err := f.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	hasher, total := batch.NewKeys([]int{0}), 0
	for i := range f.gates {
		for _, e := range f.drain(t, i) {
			got := e.Batch
			want := hasher.Hash(nil, got)
			last := map[int64]string{}
			for r := range got.Rows {
				if got.Hash[r] != want[r] {
					t.Errorf("row %s carries hash %x, want %x", got.Cols[1].Text(r), got.Hash[r], want[r])
				}
				if owner := job.OwnerOf(job.KeyGroupOf(want[r], testGroups), 3, testGroups); owner != i {
					t.Errorf("key %d went to subtask %d, its owner is %d", got.Cols[0].Ints[r], i, owner)
				}
				key, text := got.Cols[0].Ints[r], got.Cols[1].Text(r)
				if text <= last[key] {
					t.Errorf("key %d: row %q after %q", key, text, last[key])
				}
				last[key] = text
				total++
			}
		}
	}
	if total != len(b.Sel) {
		t.Errorf("%d rows arrived, want %d", total, len(b.Sel))
	}
}

// A hash of other columns, left over from an earlier edge, must not route a row.
func TestForeignHashIsReplaced(t *testing.T) {
	f := newFanOut(t, job.Hash, 2, 1)
	b := timed(0, []int64{1, 2, 3, 4}, 0, batch.NoWatermark)
	b.Hash = []uint64{9, 9, 9, 9}
	if err := f.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	want := batch.NewKeys([]int{0}).Hash(nil, timed(0, []int64{1, 2, 3, 4}, 0, 0))
	for i := range f.gates {
		for _, e := range f.drain(t, i) {
			for r := range e.Batch.Rows {
				if key := e.Batch.Cols[0].Ints[r]; e.Batch.Hash[r] != want[key-1] {
					t.Errorf("key %d has hash %x, want %x", key, e.Batch.Hash[r], want[key-1])
				}
			}
		}
	}
	if !slices.Equal(b.Hash, []uint64{9, 9, 9, 9}) {
		t.Errorf("the sender's batch was changed: %v", b.Hash)
	}
}

func TestBatchLeavesWhenFull(t *testing.T) {
	f := newFanOut(t, job.Rebalance, 2, 10)
	steps := []struct{ rows, left0, left1 int }{{4, 0, 0}, {4, 0, 0}, {4, 1, 0}, {4, 0, 0}, {10, 0, 2}, {30, 1, 0}}
	for i, s := range steps {
		if err := f.Send(t.Context(), timed(0, make([]int64, s.rows), 0, batch.NoWatermark)); err != nil {
			t.Fatal(err)
		}
		if got0, got1 := len(f.drain(t, 0)), len(f.drain(t, 1)); got0 != s.left0 || got1 != s.left1 {
			t.Errorf("step %d: %d and %d batches left, want %d and %d", i, got0, got1, s.left0, s.left1)
		}
	}
}

// A full batch that needs no gathering is passed on as it is, after what was gathered before it, which must
// not carry the newer watermark: the rows before it are still to come.
func TestFullBatchIsNotCopied(t *testing.T) {
	f := newFanOut(t, job.Forward, 1, 10)
	small, full := timed(0, []int64{1}, 50, 40), timed(1, make([]int64, 20), 60, 60)
	for _, b := range []*batch.Batch{small, full} {
		if err := f.Send(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	got := f.drain(t, 0)
	if len(got) != 2 || got[0].Batch.Watermark >= 60 || got[1].Batch.Watermark != 60 {
		t.Fatalf("elements = %v", got)
	}
	if &got[1].Batch.Cols[0].Ints[0] != &full.Cols[0].Ints[0] {
		t.Error("a full batch was copied")
	}
}

func TestBarrierAndEndComeLast(t *testing.T) {
	f := newFanOut(t, job.Hash, 3, 100)
	if err := f.Send(t.Context(), timed(0, []int64{1, 2, 3, 4, 5, 6, 7, 8}, 5, 4)); err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Barrier{Ref: f.outs[0].out.mesh.ref, ID: 3}
	if err := f.Barrier(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := f.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range f.gates {
		got := f.drain(t, i)
		if len(got) != 3 || got[0].Kind != batch.BatchElement || got[0].Batch.Watermark != 4 ||
			got[1].Kind != batch.BarrierElement || *got[1].Barrier != want || got[2].Kind != batch.EndElement {
			t.Errorf("channel %d: %v, want a batch with watermark 4, the barrier, the end", i, got)
		}
	}
}

// A channel without rows hears of the watermark although others stay busy and nobody flushes.
func TestQuietChannelHearsOfWatermarks(t *testing.T) {
	f := newFanOut(t, job.Hash, 2, 10)
	for i := range maxInputs {
		if err := f.Send(t.Context(), timed(i, []int64{1}, int64(i), int64(i)-1)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range f.gates {
		got := f.drain(t, i)
		if len(got) == 0 || got[len(got)-1].Batch.Watermark != maxInputs-2 {
			t.Errorf("channel %d: last element %v, want watermark %d", i, got, maxInputs-2)
		}
	}
}

// receiver checks what one channel delivers against what was sent.
type receiver struct {
	watermark int64
	idle      bool
	rows      []string
}

func (r *receiver) take(t *rapid.T, e batch.Element) {
	b := e.Batch
	for i := range b.Len() {
		row := b.Row(i)
		if b.Time[row] <= r.watermark {
			t.Fatalf("row at %d after watermark %d", b.Time[row], r.watermark)
		}
		r.rows = append(r.rows, b.Cols[1].Text(row))
	}
	if b.Watermark != batch.NoWatermark {
		r.watermark = max(r.watermark, b.Watermark)
	}
	r.idle = b.Idle
}

// Whatever is sent: every row arrives once and in order, no row comes after a watermark that denies it, and
// after a flush every channel knows the newest watermark.
func TestPartitionerModel(t *testing.T) {
	for _, kind := range []job.Exchange{job.Forward, job.Hash, job.Rebalance} {
		t.Run(string(kind), func(t *testing.T) {
			n := newNetwork(t, fastTimings(), "a")
			rapid.Check(t, func(rt *rapid.T) {
				channels := 1
				if kind != job.Forward {
					channels = rapid.IntRange(1, 4).Draw(rt, "channels")
				}
				f := n.fanOut(t, kind, channels, rapid.IntRange(1, 20).Draw(rt, "batch rows"))
				checkPartitioner(rt, t, f)
			})
		})
	}
}

func checkPartitioner(rt *rapid.T, t *testing.T, f *fanOut) {
	receivers := make([]receiver, len(f.gates))
	for i := range receivers {
		receivers[i].watermark = batch.NoWatermark
	}
	var sent []string
	watermark, idle := int64(batch.NoWatermark), false
	now := int64(0)
	for range rapid.IntRange(0, 40).Draw(rt, "inputs") {
		keys := rapid.SliceOfN(rapid.Int64Range(0, 30), 0, 30).Draw(rt, "keys")
		now += rapid.Int64Range(1, 5).Draw(rt, "time")
		b := timed(len(sent), keys, now, batch.NoWatermark)
		if rapid.Bool().Draw(rt, "has watermark") {
			b.Watermark = now
			watermark = now
		}
		b.Idle = rapid.Bool().Draw(rt, "idle")
		idle = b.Idle
		for i := range b.Rows {
			sent = append(sent, b.Cols[1].Text(i))
		}
		if err := f.Send(t.Context(), b); err != nil {
			rt.Fatal(err)
		}
	}
	if err := f.Flush(t.Context()); err != nil {
		rt.Fatal(err)
	}
	var got []string
	for i := range receivers {
		for _, e := range f.drain(t, i) {
			receivers[i].take(rt, e)
		}
		if r := receivers[i]; r.watermark != watermark || r.idle != idle {
			rt.Fatalf("channel %d knows watermark %d, idle %v; sent were %d, %v", i, r.watermark, r.idle, watermark, idle)
		}
		if !slices.IsSorted(receivers[i].rows) {
			rt.Fatalf("channel %d got rows out of order: %v", i, receivers[i].rows)
		}
		got = append(got, receivers[i].rows...)
	}
	slices.Sort(got)
	if !slices.Equal(got, sent) {
		rt.Fatalf("rows arrived: %v, want %v", got, sent)
	}
}

func TestNewPartitionerRefuses(t *testing.T) {
	one := []*Output{{}}
	for name, cfg := range map[string]PartitionerConfig{
		"no channels":    {Exchange: job.Hash, Keys: []int{0}, MaxParallelism: 4},
		"wide forward":   {Exchange: job.Forward, Outputs: []*Output{{}, {}}},
		"hash of none":   {Exchange: job.Hash, Outputs: one, MaxParallelism: 4},
		"too few groups": {Exchange: job.Hash, Outputs: []*Output{{}, {}}, Keys: []int{0}, MaxParallelism: 1},
		"unknown":        {Exchange: "broadcast", Outputs: one},
	} {
		cfg.Schema = timedSchema
		if _, err := NewPartitioner(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
