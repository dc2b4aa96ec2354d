package aggregate_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/aggregate"
	"github.com/weirstream/weir/dataplane/operator/operatortest"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/memory"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/state/statetest"
	"pgregory.net/rapid"
)

var at = operatortest.At

var in = &batch.Schema{HasTime: true, Fields: []batch.Field{
	{Name: "k", Type: batch.Type{Kind: batch.String}, Nullable: true},
	{Name: "v", Type: batch.Type{Kind: batch.Int64}, Nullable: true},
	{Name: "f", Type: batch.Type{Kind: batch.Float64}, Nullable: true},
	{Name: "d", Type: batch.Type{Kind: batch.Decimal, Precision: 12, Scale: 2}, Nullable: true},
	{Name: "s", Type: batch.Type{Kind: batch.String}, Nullable: true},
	{Name: "b", Type: batch.Type{Kind: batch.Bool}, Nullable: true},
	{Name: "n", Type: batch.Type{Kind: batch.Int64}},
}}

func setup(t testing.TB, store operatortest.Store, policy operator.OnError, keys []string, columns ...string) operatortest.Setup {
	return operatortest.Setup{
		New: func() (operator.Operator, error) {
			return aggregate.New(aggregate.Config{Shape: operatortest.Shape(t, in, keys, nil, columns...)})
		},
		State:   func(c state.Config) (state.Backend, error) { return memory.Open(c) },
		Store:   store,
		OnError: policy,
	}
}

func start(t testing.TB, columns ...string) *operatortest.Run {
	t.Helper()
	return operatortest.Start(t, setup(t, statetest.NewStore(), operator.Fail, []string{"k"}, columns...), nil)
}

func want(t *testing.T, r *operatortest.Run, rows ...string) {
	t.Helper()
	if got := r.Rows(); !slices.Equal(got, rows) {
		t.Errorf("emitted\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(rows, "\n  "))
	}
}

func row(time int64, k, v any) operatortest.Row { return at(time, k, v, 1.5, "1.25", "text", true, 1) }

// A key's first result is an insert, later ones are updates; a batch emits a key once, with its last time.
func TestUpdates(t *testing.T) {
	r := start(t, "k", "count(*)", "sum(v)")
	r.Must(operatortest.Batch(t, in, 9, row(10, "a", 1), row(11, "b", 2), row(12, "a", 3)))
	want(t, r, `+I "a" 2 4 @12`, `+I "b" 1 2 @11`)
	r.Must(operatortest.Batch(t, in, 12, row(13, "b", 5), row(14, "c", 7)))
	want(t, r, `+U "b" 2 7 @13`, `+I "c" 1 7 @14`)
	if got := r.Watermark(); got != 12 {
		t.Errorf("watermark=%d, want 12", got)
	}
	r.Must(operatortest.Batch(t, in, 20))
	if got := r.Watermark(); got != 20 {
		t.Errorf("watermark after a batch without rows=%d, want 20", got)
	}
}

func TestSelectionAndNullKeys(t *testing.T) {
	r := start(t, "k", "sum(n)")
	b := operatortest.Batch(t, in, batch.NoWatermark, row(1, "a", 1), row(2, nil, 1), row(3, "a", 1), row(4, nil, 1), row(5, "", 1))
	b.Sel = []int32{1, 2, 3, 4}
	r.Must(b)
	want(t, r, `+I null 2 @4`, `+I "a" 1 @3`, `+I "" 1 @5`)
}

// SQL: aggregates ignore nulls; of no values count is 0 and everything else null.
func TestNullsAndFilters(t *testing.T) {
	r := start(t, "count(*)", "count(v)", "sum(v)", "avg(v)", "min(v)", "max(v)", "sum(v) filter (where v > 5)", "count(*) filter (where b)", "max(s)", "avg(d)")
	null := func(time int64) operatortest.Row { return at(time, "a", nil, nil, nil, nil, nil, 0) }
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, null(1)))
	want(t, r, `+I 1 0 null null null null null 0 null null @1`)
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, null(2), at(3, "a", 4, 1.0, "1.00", "x", false, 0), at(4, "a", 7, 1.0, "2.01", "ab", true, 0)))
	want(t, r, `+U 4 2 11 5 4 7 7 1 "x" 1.505000 @4`)
}

// Sums and averages of the same values are kept once: of the same, not of what looks like it.
func TestSharedSums(t *testing.T) {
	r := start(t, "sum(v) filter (where v > 5)", "avg(v) filter (where v > 5)", "sum(v) filter (where v > 4)", "sum(v + 1) filter (where v > 5)",
		"avg(v)", "sum(v)", "avg(f)", "sum(f)", "avg(d)", "sum(d)")
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, at(1, "a", 5, 0.5, "1.00", "x", true, 0), at(2, "a", 6, 2.5, "2.00", "x", true, 0)))
	want(t, r, `+I 6 6 11 7 5 11 1.5 3 1.500000 3.00 @2`)
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, at(3, "a", 9, 3.0, "0.03", "x", true, 0)))
	want(t, r, `+U 15 7 20 17 6 20 2 6 1.010000 3.03 @3`)
}

// The filter decides before the argument is computed.
func TestFilterGuardsTheArgument(t *testing.T) {
	r := start(t, "sum(100 / v) filter (where v <> 0)")
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, row(1, "a", 0), row(2, "a", 20)))
	want(t, r, `+I 5 @2`)
}

func TestTypes(t *testing.T) {
	r := start(t, "min(f)", "max(f)", "sum(f)", "avg(f)", "min(d)", "max(d)", "sum(d)", "avg(d)", "min(s)", "max(s)", "min(b)", "max(b)", "cast(avg(v) as double)", "max(v) - min(v)")
	r.Must(operatortest.Batch(t, in, batch.NoWatermark,
		at(1, "a", -7, math.NaN(), "-0.01", "b", true, 0), at(2, "a", 2, 1.0, "10.00", "a longer text than a view holds", false, 0)))
	want(t, r, `+I 1 NaN NaN NaN -0.01 10.00 9.99 4.995000 "a longer text than a view holds" "b" false true -2 9 @2`)
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, at(3, "a", 2, -2.5, "0.02", "zz", true, 0)))
	want(t, r, `+U -2.5 NaN NaN NaN -0.01 10.00 10.01 3.336667 "a longer text than a view holds" "zz" false true -1 9 @3`)
}

// A sum that does not fit is an error; on the way there it may be larger than its type.
func TestSumOverflow(t *testing.T) {
	r := start(t, "sum(v)")
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, row(1, "a", math.MaxInt64), row(2, "a", 5), row(3, "a", -6)))
	want(t, r, fmt.Sprintf("+I %d @3", math.MaxInt64-1))
	err := r.Process(operatortest.Batch(t, in, batch.NoWatermark, row(4, "a", 2)))
	var re *batch.RowError
	if !errors.As(err, &re) {
		t.Fatalf("sum beyond 64 bits: %v, want a row error", err)
	}
}

func TestSkip(t *testing.T) {
	r := operatortest.Start(t, setup(t, statetest.NewStore(), operator.Skip, []string{"k"}, "k", "sum(v)", "sum(10 / v)", "100 / sum(v)"), nil)
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, row(1, "a", 0), row(2, "a", 5), row(3, "b", 0), row(4, "c", math.MaxInt64), row(5, "c", math.MaxInt64), row(6, "d", 5), row(7, "d", -5)))
	// a without its first row, b without any; c's sum and d's quotient do not exist.
	want(t, r, `+I "a" 5 2 20 @2`)
	if got := r.Counters.Skipped.Load(); got != 4 {
		t.Errorf("skipped=%d, want 4", got)
	}
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, row(8, "b", 0)))
	want(t, r)
}

func TestUpdatesAreRefused(t *testing.T) {
	r := start(t, "count(*)")
	b := operatortest.Batch(t, in, batch.NoWatermark, row(1, "a", 0))
	b.Change = []batch.Change{batch.UpdateAfter}
	if err := r.Process(b); err == nil {
		t.Error("an update was taken for an insert")
	}
}

func TestWithoutKeysAndWithoutCalls(t *testing.T) {
	all := operatortest.Start(t, setup(t, statetest.NewStore(), operator.Fail, nil, "count(*)", "max(v)"), nil)
	all.Must(operatortest.Batch(t, in, batch.NoWatermark, row(1, "a", 3), row(2, "b", 9)))
	all.Must(operatortest.Batch(t, in, batch.NoWatermark, row(3, "a", 4)))
	want(t, all, "+I 2 9 @2", "+U 3 9 @3")
	distinct := start(t, "k")
	distinct.Must(operatortest.Batch(t, in, 1, row(1, "a", 3), row(2, "b", 9), row(3, "a", 1)))
	distinct.Must(operatortest.Batch(t, in, 2, row(4, "a", 4), row(5, "c", 4)))
	distinct.Must(operatortest.Batch(t, in, 3, row(6, "a", 4)))
	want(t, distinct, `+I "a" @3`, `+I "b" @2`, `+I "c" @5`)
	if got := distinct.Watermark(); got != 3 {
		t.Errorf("watermark=%d, want 3", got)
	}
}

// All NaNs are one key, and so are 0 and −0.
func TestFloatKeys(t *testing.T) {
	r := operatortest.Start(t, setup(t, statetest.NewStore(), operator.Fail, []string{"f"}, "f", "count(*)"), nil)
	nan := math.Float64frombits(0x7ff8000000000001)
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, at(1, "", 0, math.NaN(), "0", "", true, 0), at(2, "", 0, nan, "0", "", true, 0), at(3, "", 0, 0.0, "0", "", true, 0), at(4, "", 0, math.Copysign(0, -1), "0", "", true, 0)))
	want(t, r, "+I NaN 2 @2", "+I -0 2 @4")
}

// What was folded before the barrier is there after a restore, what came behind it is not.
func TestRestore(t *testing.T) {
	for name, open := range map[string]func(state.Config) (state.Backend, error){
		"memory": func(c state.Config) (state.Backend, error) { return memory.Open(c) },
		"pebble": func(c state.Config) (state.Backend, error) { return pebble.Open(c) },
	} {
		t.Run(name, func(t *testing.T) {
			s := setup(t, statetest.NewStore(), operator.Fail, []string{"k"}, "k", "sum(v)", "min(s)")
			s.State = open
			r := operatortest.Start(t, s, nil)
			r.Must(operatortest.Batch(t, in, 1, row(1, "a", 1), row(2, "b", 2)))
			want(t, r, `+I "a" 1 "text" @1`, `+I "b" 2 "text" @2`)
			c := r.Checkpoint()
			r.Must(operatortest.Batch(t, in, 2, row(3, "a", 64), row(4, "c", 64)))
			r = operatortest.Start(t, s, &c)
			r.Must(operatortest.Batch(t, in, 3, row(5, "a", 4), row(6, "c", 8)))
			want(t, r, `+U "a" 5 "text" @5`, `+I "c" 8 "text" @6`)
		})
	}
}

// model is what the aggregates should be, kept in big numbers.
type model struct {
	rows, count int64
	sum         *big.Int
	min, max    int64
	text        string
}

func (m *model) text1(k string, change string, time int64) string {
	if m.count == 0 {
		return fmt.Sprintf("%s %s %d 0 null null null null null @%d", change, k, m.rows, time)
	}
	avg := new(big.Int).Quo(m.sum, big.NewInt(m.count))
	return fmt.Sprintf("%s %s %d %d %s %s %d %d %q @%d", change, k, m.rows, m.count, m.sum, avg, m.min, m.max, m.text, time)
}

// The operator agrees with a model over random batches, across checkpoints and restores at other parallelisms.
func TestModel(t *testing.T) {
	store := statetest.NewStore()
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]string{"k", "n"}).Draw(rt, "key")
		s := setup(t, store, operator.Fail, []string{keys}, keys, "count(*)", "count(v)", "sum(v)", "avg(v)", "min(v)", "max(v)", "max(s) filter (where v is not null)")
		r := operatortest.Start(t, s, nil)
		models := map[string]*model{}
		for time := int64(0); time < rapid.Int64Range(1, 6).Draw(rt, "batches"); time++ {
			var rows []operatortest.Row
			expected := map[string]string{}
			for range rapid.IntRange(0, 30).Draw(rt, "rows") {
				key := rapid.IntRange(0, 5).Draw(rt, "key")
				k := fmt.Sprintf("%q", fmt.Sprint(key))
				if keys == "n" {
					k = fmt.Sprint(key)
				}
				text := rapid.SampledFrom([]string{"", "x", "a text longer than a view", "another text that is long"}).Draw(rt, "text")
				var v any
				m := models[k]
				change := "+U"
				if m == nil {
					m = &model{sum: new(big.Int), min: math.MaxInt64, max: math.MinInt64}
					models[k] = m
					change = "+I"
				}
				if e, ok := expected[k]; ok {
					change = e[:2]
				}
				m.rows++
				if rapid.IntRange(0, 3).Draw(rt, "null") > 0 {
					i := rapid.Int64Range(-1<<60, 1<<60).Draw(rt, "v")
					v = i
					m.count++
					m.sum.Add(m.sum, big.NewInt(i))
					m.min, m.max, m.text = min(m.min, i), max(m.max, i), max(m.text, text)
				}
				rows = append(rows, at(time, fmt.Sprint(key), v, 0.0, "0", text, true, key))
				expected[k] = m.text1(k, change, time)
			}
			r.Must(operatortest.Batch(t, in, batch.NoWatermark, rows...))
			got, all := r.Rows(), []string{}
			for _, e := range expected {
				all = append(all, e)
			}
			slices.Sort(got)
			slices.Sort(all)
			if !slices.Equal(got, all) {
				rt.Fatalf("emitted\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(all, "\n  "))
			}
			if rapid.Bool().Draw(rt, "restore") {
				c := r.Checkpoint()
				r = operatortest.Start(t, s, &c)
			}
		}
	})
}

func BenchmarkEightAggregates(b *testing.B) {
	const rows = 2048
	schema := &batch.Schema{HasTime: true, Fields: []batch.Field{{Name: "auction", Type: batch.Type{Kind: batch.Int64}}, {Name: "price", Type: batch.Type{Kind: batch.Int64}}}}
	for _, keys := range []int{1, 100, 2000, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			shape := operatortest.Shape(b, schema, []string{"auction"}, nil, "auction", "count(*)", "count(*) filter (where price < 10000)",
				"count(*) filter (where price >= 10000 and price < 1000000)", "count(*) filter (where price >= 1000000)", "min(price)", "max(price)", "avg(price)", "sum(price)")
			r := operatortest.Start(b, operatortest.Setup{
				New:   func() (operator.Operator, error) { return aggregate.New(aggregate.Config{Shape: shape}) },
				State: func(c state.Config) (state.Backend, error) { return memory.Open(c) },
			}, nil)
			var batches []*batch.Batch
			seed := uint64(1)
			for range 64 {
				d := &batch.Batch{Schema: schema, Rows: rows, Watermark: batch.NoWatermark, Time: make([]int64, rows)}
				d.Cols = []batch.Column{batch.NewColumn(schema.Fields[0].Type, rows), batch.NewColumn(schema.Fields[1].Type, rows)}
				for i := range rows {
					seed = seed*6364136223846793005 + 1442695040888963407
					d.Cols[0].Ints[i] = int64(seed>>33) % int64(keys)
					d.Cols[1].Ints[i] = int64(seed>>20) % 2_000_000
				}
				batches = append(batches, d)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.Must(batches[i%len(batches)])
				r.Batches()
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
