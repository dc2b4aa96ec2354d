package watermark

import "testing"

const second = 1_000_000

// TestPartitionLessSubtasks is the case of a topic with 4 partitions read by 6 subtasks, with data in
// partition 0 only (FLINK-8001 and others): two subtasks have no partition, three partitions stay empty. The
// windows must fire after the idle timeout, and rows that come to partition 1 later must count.
func TestPartitionLessSubtasks(t *testing.T) {
	o := Options{IdleAfter: 5 * second}
	sources := make([]*Generator, 6)
	for i := range sources {
		sources[i] = NewGenerator(o)
		if i < 4 {
			sources[i].Add(None)
		}
	}
	window := NewMerger(6)
	forward := func() {
		for i, g := range sources {
			w, idle := g.Watermark()
			if w == Max {
				t.Fatalf("source %d emits Max without an end", i)
			}
			if window.Advance(i, w); idle {
				window.SetIdle(i)
			}
		}
	}
	for i := 4; i < 6; i++ {
		if w, idle := sources[i].Watermark(); w != None || !idle {
			t.Errorf("partition-less source %d: got %d idle %v, want None, idle at once", i, w, idle)
		}
	}
	sources[0].Observe(0, 60*second)
	for i := 1; i < 4; i++ {
		sources[i].Empty(0, 0)
	}
	forward()
	if got := window.Watermark(); got != None {
		t.Errorf("before the idle timeout: got %d, want None", got)
	}
	empty := func(from, to int64) { // it is said every second
		for at := from; at <= to; at += second {
			for i := 1; i < 4; i++ {
				sources[i].Empty(0, at)
			}
		}
	}
	empty(second, 5*second-1)
	forward()
	if got := window.Watermark(); got != None {
		t.Errorf("a microsecond before the idle timeout: got %d, want None", got)
	}
	empty(5*second, 5*second)
	forward()
	if got, want := window.Watermark(), int64(60*second-1); got != want {
		t.Errorf("after the idle timeout: got %d, want %d", got, want)
	}
	sources[1].Observe(0, 61*second)
	forward()
	sources[0].Observe(0, 90*second)
	forward()
	if got, want := window.Watermark(), int64(61*second-1); got != want {
		t.Errorf("partition 1 resumed: got %d, want %d: it must hold the watermark again", got, want)
	}
}

// Ensure that a partition is idle after reports that it is empty only, however long nothing is heard of it.
func TestSilenceIsNotIdleness(t *testing.T) {
	g := NewGenerator(Options{IdleAfter: 5 * second})
	slow, fast := g.Add(None), g.Add(None)
	g.Observe(fast, 10*second)
	g.Observe(slow, second)
	said := func(from, to int64) {
		for at := from; at <= to; at += second {
			g.Empty(slow, at)
		}
	}
	held := func(when string) {
		t.Helper()
		if w, _ := g.Watermark(); w != second-1 {
			t.Errorf("%s: got %d, want %d", when, w, second-1)
		}
	}
	held("nothing was said")
	said(100*second, 104*second)
	held("empty for four seconds")
	g.Observe(slow, second) // a row in between starts the count again
	said(105*second, 109*second)
	held("empty for four seconds again")
	said(112*second, 116*second) // the broker was away for three seconds; what was written meanwhile is to come
	held("a silence, and four seconds")
	said(117*second, 117*second)
	if w, _ := g.Watermark(); w != 10*second-1 {
		t.Errorf("idle now: got %d, want %d", w, 10*second-1)
	}
}

// Ensure that one row dated at the end of time cannot be taken for the end of the input.
func TestFarFutureIsNoEnd(t *testing.T) {
	for _, o := range []int64{0, 5} {
		g := NewGenerator(Options{OutOfOrder: o})
		g.Observe(g.Add(None), Max)
		if w, _ := g.Watermark(); w != Max-o-1 {
			t.Errorf("out of order %d: got %d, want %d", o, w, Max-o-1)
		}
		g = NewGenerator(Options{OutOfOrder: o})
		g.ObserveMark(g.Add(None), Max)
		if w, _ := g.Watermark(); w != Max-1 {
			t.Errorf("watermark expression: got %d, want %d", w, Max-1)
		}
	}
}

func TestEndAndRestore(t *testing.T) {
	g := NewGenerator(Options{OutOfOrder: 4 * second})
	p, q := g.Add(100*second), g.Add(90*second)
	if w, _ := g.Watermark(); w != 86*second-1 {
		t.Errorf("restored: got %d, want %d", w, 86*second-1)
	}
	g.Observe(q, 50*second)
	if got := g.Newest(q); got != 90*second {
		t.Errorf("Newest: got %d, want %d", got, 90*second)
	}
	g.End(q)
	if w, _ := g.Watermark(); w != 96*second-1 {
		t.Errorf("one partition ended: got %d, want %d", w, 96*second-1)
	}
	g.End(p)
	if w, idle := g.Watermark(); w != Max || idle {
		t.Errorf("all ended: got %d idle %v, want Max", w, idle)
	}
	g = NewGenerator(Options{})
	g.Remove(g.Add(None))
	if w, idle := g.Watermark(); w != None || !idle {
		t.Errorf("partition taken away: got %d idle %v, want None, idle", w, idle)
	}
	g.EndInput()
	if w, idle := g.Watermark(); w != Max || idle {
		t.Errorf("end of input: got %d idle %v, want Max", w, idle)
	}
}
