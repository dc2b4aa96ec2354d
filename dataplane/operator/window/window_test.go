package window

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/operatortest"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/memory"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/state/statetest"
	"pgregory.net/rapid"
)

var at = operatortest.At

var in = &batch.Schema{HasTime: true, Fields: []batch.Field{
	{Name: "k", Type: batch.Type{Kind: batch.String}}, {Name: "v", Type: batch.Type{Kind: batch.Int64}},
}}

var bounds = []batch.Field{
	{Name: "window_start", Type: batch.Type{Kind: batch.Timestamp, Precision: 6}},
	{Name: "window_end", Type: batch.Type{Kind: batch.Timestamp, Precision: 6}},
}

func setup(t testing.TB, size, offset time.Duration, columns ...string) operatortest.Setup {
	return operatortest.Setup{
		New: func() (operator.Operator, error) {
			return New(Config{Shape: operatortest.Shape(t, in, []string{"k"}, bounds, columns...), Size: size, Offset: offset})
		},
		State: func(c state.Config) (state.Backend, error) { return memory.Open(c) },
		Store: statetest.NewStore(),
	}
}

func sums(t testing.TB) operatortest.Setup {
	return setup(t, 1000*time.Microsecond, 0, "k", "window_start", "window_end", "sum(v)")
}

func want(t *testing.T, r *operatortest.Run, rows ...string) {
	t.Helper()
	got := r.Rows()
	slices.Sort(got)
	if !slices.Equal(got, rows) {
		t.Errorf("emitted\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(rows, "\n  "))
	}
	if err := r.Violation(); err != nil {
		t.Error(err)
	}
}

// A window fires when the watermark reaches its last microsecond, once, and its rows carry that time.
func TestFires(t *testing.T) {
	r := operatortest.Start(t, sums(t), nil)
	r.Must(operatortest.Batch(t, in, 500, at(0, "a", 1), at(999, "a", 2), at(1000, "a", 4), at(500, "b", 8)))
	want(t, r)
	r.Must(operatortest.Batch(t, in, 998))
	want(t, r)
	r.Must(operatortest.Batch(t, in, 999))
	want(t, r, `+I "a" 0 1000 3 @999`, `+I "b" 0 1000 8 @999`)
	r.Must(operatortest.Batch(t, in, 1998))
	want(t, r)
	if got := r.Watermark(); got != 1998 {
		t.Errorf("watermark=%d, want 1998", got)
	}
	r.End()
	want(t, r, `+I "a" 1000 2000 4 @1999`)
	r.End()
	want(t, r)
}

// Several windows fire in the order of their ends, before the watermark that completes them.
func TestOrder(t *testing.T) {
	r := operatortest.Start(t, sums(t), nil)
	r.Must(operatortest.Batch(t, in, 0, at(5500, "a", 1), at(1500, "a", 1), at(3500, "a", 1)))
	r.Must(operatortest.Batch(t, in, 10_000))
	got := r.Rows()
	if wanted := []string{`+I "a" 1000 2000 1 @1999`, `+I "a" 3000 4000 1 @3999`, `+I "a" 5000 6000 1 @5999`}; !slices.Equal(got, wanted) {
		t.Errorf("emitted %q, want %q", got, wanted)
	}
}

// Late is what the watermark before the batch has passed; the batch's own watermark holds behind its rows.
func TestLate(t *testing.T) {
	r := operatortest.Start(t, sums(t), nil)
	r.Must(operatortest.Batch(t, in, 999, at(100, "a", 1)))
	want(t, r, `+I "a" 0 1000 1 @999`)
	r.Must(operatortest.Batch(t, in, 1500, at(100, "a", 1), at(999, "b", 1), at(1000, "a", 1)))
	want(t, r)
	if got := r.Counters.Late.Load(); got != 2 {
		t.Errorf("late=%d, want 2", got)
	}
	// Behind the watermark, but its window is open.
	r.Must(operatortest.Batch(t, in, 1999, at(1100, "a", 1)))
	want(t, r, `+I "a" 1000 2000 2 @1999`)
	if got := r.Counters.Late.Load(); got != 2 {
		t.Errorf("late=%d, want 2", got)
	}
}

func TestIdlenessAndSilence(t *testing.T) {
	r := operatortest.Start(t, sums(t), nil)
	r.Must(operatortest.Batch(t, in, batch.NoWatermark, at(100, "a", 1)))
	if got := len(r.Batches()); got != 0 {
		t.Errorf("%d batches for rows that complete nothing, want none", got)
	}
	b := operatortest.Batch(t, in, batch.NoWatermark)
	b.Idle = true
	r.Must(b)
	if got := r.Batches(); len(got) != 1 || !got[0].Idle {
		t.Errorf("idleness was not passed on: %v", got)
	}
}

// A window holds its start and not its end, on both sides of 1970.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ size, offset, t, start int64 }{
		{1000, 0, -1, -1000}, {1000, 0, -1000, -1000}, {1000, 0, -1001, -2000}, {1000, 0, -1500, -2000}, {1000, 300, -1500, -1700},
		{1000, 0, 0, 0}, {1000, 0, 999, 0}, {1000, 0, 1000, 1000}, {1000, 300, 299, -700}, {1000, 300, 300, 300},
		{86_400_000_000, -8 * 3_600_000_000, 0, -8 * 3_600_000_000}, {86_400_000_000, -8 * 3_600_000_000, 16 * 3_600_000_000, 16 * 3_600_000_000},
	} {
		o := &Operator{size: c.size, offset: c.offset}
		if start, last := o.bounds(c.t); start != c.start || last != c.start+c.size-1 {
			t.Errorf("window of %d (size %d, offset %d) = [%d, %d], want [%d, %d]", c.t, c.size, c.offset, start, last, c.start, c.start+c.size-1)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		o := &Operator{size: rapid.Int64Range(1, 1<<50).Draw(t, "size"), offset: rapid.Int64Range(-1<<50, 1<<50).Draw(t, "offset")}
		at := rapid.OneOf(rapid.Int64(), rapid.Int64Range(math.MinInt64, math.MinInt64+1<<20), rapid.Int64Range(math.MaxInt64-1<<20, math.MaxInt64)).Draw(t, "t")
		start, last := o.bounds(at)
		if start > at || at > last || uint64(last)-uint64(start) >= uint64(o.size) {
			t.Fatalf("window of %d = [%d, %d] with size %d", at, start, last, o.size)
		}
		if s, l := o.bounds(start); s != start || l != last {
			t.Fatalf("the window of %d is [%d, %d], that of its start [%d, %d]", at, start, last, s, l)
		}
	})
}

// Windows survive a restore and fire once; those that had fired stay closed.
func TestRestore(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testRestore(t, sums(t)) })
	t.Run("pebble", func(t *testing.T) {
		s := sums(t)
		s.State = func(c state.Config) (state.Backend, error) { return pebble.Open(c) }
		testRestore(t, s)
	})
}

func testRestore(t *testing.T, s operatortest.Setup) {
	r := operatortest.Start(t, s, nil)
	r.Must(operatortest.Batch(t, in, 999, at(100, "a", 1), at(1100, "a", 2), at(2100, "b", 4)))
	want(t, r, `+I "a" 0 1000 1 @999`)
	c := r.Checkpoint()
	r.Must(operatortest.Batch(t, in, 1000, at(1200, "a", 64))) // after the barrier: gone with the crash
	r = operatortest.Start(t, s, &c)
	r.Must(operatortest.Batch(t, in, 999, at(500, "a", 8)))
	want(t, r)
	if got := r.Counters.Late.Load(); got != 1 {
		t.Errorf("late=%d after a restore, want 1", got)
	}
	r.Must(operatortest.Batch(t, in, 5000))
	want(t, r, `+I "a" 1000 2000 2 @1999`, `+I "b" 2000 3000 4 @2999`)
}

func TestExpressionsOverWindows(t *testing.T) {
	r := operatortest.Start(t, setup(t, time.Minute, 0, "upper(k) || '!'", "cast(window_end as string)", "cast(sum(v) as double) / count(*)", "event_time() < window_end"), nil)
	r.Must(operatortest.Batch(t, in, 0, at(1, "a", 1), at(2, "a", 2)))
	r.End()
	want(t, r, `+I "A!" "1970-01-01 00:01:00.000000" 1.5 true @59999999`)
}

// Many keys leave in several batches.
func TestManyKeys(t *testing.T) {
	r := operatortest.Start(t, setup(t, time.Second, 0, "k", "max(k)", "count(*)"), nil)
	var rows []operatortest.Row
	for i := range 3 * chunk {
		rows = append(rows, at(1, fmt.Sprintf("key %06d of the many", i/2), 1))
	}
	r.Must(operatortest.Batch(t, in, 0, rows...))
	r.Must(operatortest.Batch(t, in, 2_000_000))
	got := r.Rows()
	slices.Sort(got)
	if len(got) != 3*chunk/2 {
		t.Fatalf("%d rows, want %d", len(got), 3*chunk/2)
	}
	for i, g := range got {
		if w := fmt.Sprintf(`+I "key %06[1]d of the many" "key %06[1]d of the many" 2 @999999`, i); g != w {
			t.Fatalf("row %d is %s, want %s", i, g, w)
		}
	}
}

// The operator agrees with a model over random rows, watermarks and restores, also at another parallelism.
func TestModel(t *testing.T) {
	s := setup(t, 10*time.Microsecond, 3*time.Microsecond, "k", "window_start", "sum(v)", "count(*)")
	type pane struct {
		key   string
		start int64
	}
	type total struct{ sum, n int64 }
	rapid.Check(t, func(rt *rapid.T) {
		r := operatortest.Start(t, s, nil)
		model, late := map[pane]total{}, int64(0)
		wm := int64(batch.NoWatermark)
		for range rapid.IntRange(1, 8).Draw(rt, "batches") {
			var rows []operatortest.Row
			for range rapid.IntRange(0, 12).Draw(rt, "rows") {
				key, v := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "key")), rapid.Int64Range(-9, 9).Draw(rt, "v")
				ts := rapid.Int64Range(-60, 60).Draw(rt, "ts")
				rows = append(rows, at(ts, key, v))
				start := int64(math.Floor(float64(ts-3)/10))*10 + 3
				if wm >= start+9 {
					late++
					continue
				}
				p := model[pane{key, start}]
				model[pane{key, start}] = total{p.sum + v, p.n + 1}
			}
			wm = max(wm, rapid.Int64Range(-70, 70).Draw(rt, "watermark"))
			r.Must(operatortest.Batch(t, in, wm, rows...))
			expected := []string{}
			for p, m := range model {
				if p.start+9 <= wm {
					expected = append(expected, fmt.Sprintf("+I %q %d %d %d @%d", p.key, p.start, m.sum, m.n, p.start+9))
					delete(model, p)
				}
			}
			got := r.Rows()
			slices.Sort(got)
			slices.Sort(expected)
			if !slices.Equal(got, expected) {
				rt.Fatalf("emitted %q, want %q", got, expected)
			}
			if r.Violation() != nil || r.Counters.Late.Load() != late {
				rt.Fatalf("%v; late=%d, want %d", r.Violation(), r.Counters.Late.Load(), late)
			}
			if rapid.Bool().Draw(rt, "restore") {
				c := r.Checkpoint()
				r, late = operatortest.Start(t, s, &c), 0
			}
		}
	})
}

// Two subtasks take over the keys of one, and one those of two.
func TestRescale(t *testing.T) {
	s := sums(t)
	store := s.Store
	one := operatortest.Start(t, s, nil)
	var rows []operatortest.Row
	for i := range 50 {
		rows = append(rows, at(100, fmt.Sprintf("%02d", i), 1))
	}
	one.Must(operatortest.Batch(t, in, 50, rows...))
	c := one.Checkpoint()
	var parts []operatortest.Checkpoint
	for i := range 2 {
		s.Index, s.Parallelism, s.Store = i, 2, store
		parts = append(parts, operatortest.Start(t, s, &c).Checkpoint())
	}
	s.Index, s.Parallelism = 0, 1
	all := operatortest.Join(parts...)
	again := operatortest.Start(t, s, &all)
	again.End()
	got := again.Rows()
	slices.Sort(got)
	if len(got) != 50 {
		t.Fatalf("%d windows after 1 → 2 → 1 subtasks, want 50", len(got))
	}
	for i, g := range got {
		if w := fmt.Sprintf(`+I "%02d" 0 1000 1 @999`, i); g != w {
			t.Errorf("row %d is %s, want %s", i, g, w)
		}
	}
}
