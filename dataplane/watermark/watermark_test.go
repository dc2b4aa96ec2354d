package watermark

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestSaturation(t *testing.T) {
	edge := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{None, None + 1, -1, 0, 1, Max - 1, Max}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := edge.Draw(t, "a"), edge.Draw(t, "b")
		clamp := func(x *big.Int) int64 {
			if x.Cmp(big.NewInt(math.MaxInt64)) > 0 {
				return math.MaxInt64
			}
			if x.Cmp(big.NewInt(math.MinInt64)) < 0 {
				return math.MinInt64
			}
			return x.Int64()
		}
		if got, want := Add(a, b), clamp(new(big.Int).Add(big.NewInt(a), big.NewInt(b))); got != want {
			t.Errorf("Add(%d, %d): got %d, want %d", a, b, got, want)
		}
		if got, want := Sub(a, b), clamp(new(big.Int).Sub(big.NewInt(a), big.NewInt(b))); got != want {
			t.Errorf("Sub(%d, %d): got %d, want %d", a, b, got, want)
		}
	})
}

func TestBounded(t *testing.T) {
	for _, c := range []struct{ maxAt, outOfOrder, want int64 }{
		{None, 5, None},
		{10_000, 4_000, 5_999},
		{0, 0, -1},
		{Max, 0, Max - 1},
		{None + 1, 10, None},
		{None + 1, Max, None},
		{-1, 0, -2},
	} {
		if got := Bounded(c.maxAt, c.outOfOrder); got != c.want {
			t.Errorf("Bounded(%d, %d): got %d, want %d", c.maxAt, c.outOfOrder, got, c.want)
		}
	}
}

func TestAhead(t *testing.T) {
	const day = 86_400_000_000
	for _, c := range []struct {
		at, now int64
		want    bool
	}{{day, 0, false}, {day + 1, 0, true}, {Max, 0, true}, {Max, Max - 1, false}, {None, 0, false}, {0, Max, false}} {
		if got := Ahead(c.at, c.now, day); got != c.want {
			t.Errorf("Ahead(%d, %d): got %v, want %v", c.at, c.now, got, c.want)
		}
	}
}

func TestMergerMinimumAndIdleness(t *testing.T) {
	m := NewMerger(3)
	expect := func(what string, w int64, idle bool) {
		t.Helper()
		if m.Watermark() != w || m.Idle() != idle {
			t.Errorf("%s: got %d idle %v, want %d idle %v (%s)", what, m.Watermark(), m.Idle(), w, idle, m)
		}
	}
	expect("new", None, false)
	m.Advance(0, 10)
	m.Advance(1, 20)
	expect("one input is silent", None, false)
	m.SetIdle(2)
	expect("the silent one is idle", 10, false)
	m.Advance(2, 5)
	expect("an idle one speaks below the watermark", 10, false)
	m.Advance(0, 30)
	expect("and holds it until it has caught up", 10, false)
	m.Advance(2, 25)
	expect("caught up", 20, false)
	m.Advance(1, 15)
	expect("a watermark never falls", 20, false)
	m.SetIdle(0)
	m.SetIdle(1)
	m.SetIdle(2)
	expect("all idle: the highest, whoever was last", 30, true)
	m.SetActive(1)
	expect("active again", 30, false)
}

// Ensure that Max comes only when every input has ended: the end of the others must not close the windows of
// an input that is idle now and speaks later.
func TestMergerEnd(t *testing.T) {
	m := NewMerger(2)
	m.Advance(0, 10)
	m.SetIdle(1)
	m.End(0)
	if w, idle := m.Watermark(), m.Idle(); w != 10 || !idle {
		t.Errorf("one ended, one idle: got %d idle %v, want 10 idle true", w, idle)
	}
	m.Advance(1, 12)
	if got := m.Watermark(); got != 12 {
		t.Errorf("the idle one speaks: got %d, want 12", got)
	}
	if !m.Advance(1, Max) || m.Watermark() != Max || m.Idle() {
		t.Errorf("all ended: got %d idle %v, want Max", m.Watermark(), m.Idle())
	}
}

func TestMergerReportsChange(t *testing.T) {
	m := NewMerger(2)
	for i, c := range []struct {
		got, want bool
	}{
		{m.Advance(0, 7), false}, {m.Advance(1, 5), true}, {m.Advance(1, 5), false}, {m.Advance(0, 9), false},
		{m.SetIdle(1), true}, {m.SetIdle(1), false}, {m.SetIdle(0), true}, {m.Advance(0, 1), true},
	} {
		if c.got != c.want {
			t.Errorf("call %d: changed %v, want %v", i, c.got, c.want)
		}
	}
}

// TestMergerModel compares the merger with the definition, computed from scratch after every call.
func TestMergerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "inputs")
		m := NewMerger(n)
		marks, states, out := make([]int64, n), make([]state, n), None
		for i := range marks {
			marks[i] = None
		}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			if n == 0 {
				break
			}
			i, w := rapid.IntRange(0, n-1).Draw(t, "i"), rapid.Int64Range(0, 20).Draw(t, "w")
			before, beforeIdle := m.Watermark(), m.Idle()
			var changed bool
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0:
				changed = m.SetIdle(i)
				if states[i] == active {
					states[i] = idle
				}
			case 1:
				if rapid.IntRange(0, 3).Draw(t, "rare") == 0 {
					changed = m.End(i)
					states[i] = ended
				}
			default:
				changed = m.Advance(i, w)
				if states[i] != ended {
					states[i], marks[i] = active, max(marks[i], w)
				}
			}
			low, high, isIdle, over := Max, None, true, true
			for j := range marks {
				switch states[j] {
				case active:
					low, isIdle, over = min(low, marks[j]), false, false
				case idle:
					high, over = max(high, marks[j]), false
				}
			}
			switch {
			case over:
				out, isIdle = Max, false
			case isIdle:
				out = max(out, high)
			default:
				out = max(out, low)
			}
			if m.Watermark() != out || m.Idle() != isIdle {
				t.Fatalf("got %d idle %v, want %d idle %v (%s)", m.Watermark(), m.Idle(), out, isIdle, m)
			}
			if want := before != out || beforeIdle != isIdle; changed != want {
				t.Fatalf("changed: got %v, want %v (%s)", changed, want, m)
			}
		}
	})
}

func TestMergerAllocatesNothing(t *testing.T) {
	m, w := NewMerger(64), int64(0)
	got := testing.AllocsPerRun(100, func() {
		w++
		for i := range 64 {
			m.Advance(i, w)
		}
	})
	if got != 0 {
		t.Errorf("allocations: got %v, want 0", got)
	}
}
