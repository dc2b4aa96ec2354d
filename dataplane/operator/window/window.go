// Package window is the keyed aggregate over tumbling windows of event time: one row per key and window, when
// the watermark has passed the window.
package window

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/accumulate"
	"github.com/weirstream/weir/dataplane/state"
)

// Config describes the operator.
type Config struct {
	// Shape's Mid is keys, window_start, window_end (timestamps), results.
	accumulate.Shape
	// Size is the length of the windows, at least 1 µs.
	Size time.Duration
	// Offset moves the windows: one begins at 1970-01-01 + Offset. May be negative.
	Offset time.Duration
}

const (
	// buckets is the name of the state: a bucket per window, called by the window's last microsecond.
	buckets = "window"
	// chunk is the number of rows of the batches that a window is emitted in.
	chunk = 2048
)

// Operator is one instance. A window [start, end) fires when the watermark reaches end − 1 µs, its last
// possible time, which is the event time of its rows; windows fire in the order of their ends. A row whose
// window the watermark has passed already is late: counted and dropped.
type Operator struct {
	cfg     Config
	core    *accumulate.Core
	env     *operator.Env
	out     operator.Output
	buckets state.Buckets
	entries accumulate.Entries
	// watermark is the newest one seen. It is part of the state, so that after a restore windows that have
	// fired stay closed.
	watermark int64
	size      int64
	offset    int64
	panes     []pane
	firing    firing
}

var _ operator.Operator = (*Operator)(nil)

// New returns an instance.
func New(cfg Config) (*Operator, error) {
	o := &Operator{cfg: cfg, watermark: batch.NoWatermark, size: cfg.Size.Microseconds(), offset: cfg.Offset.Microseconds()}
	if o.size <= 0 || cfg.Size%time.Microsecond != 0 {
		return nil, fmt.Errorf("window: size %s is no positive number of microseconds", cfg.Size)
	}
	var err error
	if o.core, err = accumulate.NewCore(&o.cfg.Shape, 2); err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	return o, nil
}

// Open implements operator.Operator.
func (o *Operator) Open(_ context.Context, env *operator.Env, out operator.Output) error {
	if err := o.core.Open(env); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	o.env, o.out = env, out
	var err error
	if o.buckets, err = env.State.Buckets(buckets, o.core.Set.Layout()); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	return nil
}

// Bounds returns the window [start, last] of microseconds that t falls into. start ≤ t ≤ last holds for every
// t; a window that would leave the range of int64 ends there.
func (o *Operator) bounds(t int64) (start, last int64) {
	// Remainders are taken first, so that nothing overflows; Go's are negative for negative times.
	into := floorMod(floorMod(t, o.size)-floorMod(o.offset, o.size), o.size)
	start, last = t-into, t+(o.size-1-into)
	if start > t {
		start = math.MinInt64
	}
	if last < t {
		last = math.MaxInt64
	}
	return start, last
}

func floorMod(a, b int64) int64 {
	if m := a % b; m < 0 {
		return m + b
	} else {
		return m
	}
}

// pane is the rows of a batch that fall into one window.
type pane struct {
	last int64
	rows []int32
}

// Process implements operator.Operator.
func (o *Operator) Process(_ int, b *batch.Batch) error {
	if b.Len() > 0 {
		if b.Time == nil {
			return errors.New("window: the rows have no event time")
		}
		if err := o.core.Accept(b); err != nil {
			return err
		}
		for _, p := range o.split(b) {
			if p.last <= o.watermark {
				o.env.Counters.Late.Add(int64(len(p.rows)))
				continue
			}
			if err := o.fold(b, p); err != nil {
				return err
			}
		}
	}
	return o.advance(b.Watermark, b.Idle)
}

// split sorts the rows of b by window. Rows come nearly in order, so the window of a row is mostly that of
// the row before.
func (o *Operator) split(b *batch.Batch) []pane {
	for i := range o.panes {
		o.panes[i].rows = o.panes[i].rows[:0]
	}
	panes := o.panes[:0]
	at, start, last := -1, int64(0), int64(-1)
	for _, r := range o.core.Rows(b) {
		if t := b.Time[r]; at < 0 || t < start || t > last {
			start, last = o.bounds(t)
			panes, at = find(panes, last)
		}
		panes[at].rows = append(panes[at].rows, r)
	}
	o.panes = panes
	return panes
}

// find returns the index of the pane of a window, new if need be.
func find(panes []pane, last int64) ([]pane, int) {
	for i := range panes {
		if panes[i].last == last {
			return panes, i
		}
	}
	n := len(panes)
	if n < cap(panes) {
		panes = panes[:n+1] // with the memory of an earlier batch's rows
	} else {
		panes = append(panes, pane{})
	}
	panes[n].last, panes[n].rows = last, panes[n].rows[:0]
	return panes, n
}

func (o *Operator) fold(b *batch.Batch, p pane) error {
	rows, err := o.core.Prepare(b, p.rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	t, err := o.buckets.Bucket(p.last)
	if err != nil {
		return err
	}
	groups := o.core.Grouper.Group(b, rows)
	if err := o.entries.Resolve(t, &groups.Keys); err != nil {
		return err
	}
	o.core.Set.Fold(groups, &o.entries)
	return nil
}

// advance fires the windows that watermark w completes and passes it on.
func (o *Operator) advance(w int64, idle bool) error {
	if w > o.watermark {
		o.watermark = w
		for times := o.buckets.Times(); len(times) > 0 && times[0] <= w; times = o.buckets.Times() {
			if err := o.fire(times[0]); err != nil {
				return err
			}
		}
	}
	if w == batch.NoWatermark && !idle {
		return nil
	}
	return o.out.Emit(batch.WatermarkOnly(o.cfg.Out, w, idle))
}

// End implements operator.Operator: the windows that are open fire.
func (o *Operator) End() error { return o.advance(batch.MaxWatermark, false) }

// saved is the operator's own state.
type saved struct {
	Watermark int64 `json:"watermark"`
}

// Inline implements operator.Frozen.
func (s saved) Inline() ([]byte, error) { return json.Marshal(s) }

// Freeze implements operator.Operator.
func (o *Operator) Freeze() operator.Frozen { return saved{o.watermark} }

// Restore implements operator.Operator. All subtasks had the same watermark at the barrier, since it follows
// the same watermarks on every channel; should they differ, the lowest loses no row.
func (o *Operator) Restore(states []checkpoint.OperatorState) error {
	for i, s := range states {
		var v saved
		if err := json.Unmarshal(s.Inline, &v); err != nil {
			return fmt.Errorf("window: restore the watermark of subtask %d: %w", s.Subtask, err)
		}
		if i == 0 || v.Watermark < o.watermark {
			o.watermark = v.Watermark
		}
	}
	return nil
}

// Close implements operator.Operator.
func (o *Operator) Close() error { return nil }
