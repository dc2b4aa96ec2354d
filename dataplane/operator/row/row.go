// Package row filters and projects: the part of every step that needs no state.
package row

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/operator"
)

// Column is one column of the output: column Index of the input, shared without a copy, or, if Program is
// set, what it computes.
type Column struct {
	Index   int
	Program *expr.Program
}

// Config describes the operator. Programs and the predicate belong to one instance.
type Config struct {
	// Where selects rows; nil for all.
	Where batch.Predicate
	// Columns are parallel to Out.Fields.
	Columns []Column
	Out     *batch.Schema
	// Divert takes a row that cannot be evaluated if the policy is operator.Divert. It is called on the
	// subtask's goroutine and must not keep b.
	Divert func(b *batch.Batch, row int, err error) error
}

// sparse is the share of rows (one in sparse) below which the rows that are left are gathered before the
// projection: computing and passing on full-length columns for few rows would cost more.
const sparse = 4

// Operator is one instance.
type Operator struct {
	cfg      Config
	env      *operator.Env
	out      operator.Output
	programs []*expr.Program
	// need are the input columns that the output is made of, narrow their schema.
	need   []int
	narrow *batch.Schema
	picked []int32
	all    []int32
}

var _ operator.Operator = (*Operator)(nil)

// New returns an instance.
func New(cfg Config) (*Operator, error) {
	if len(cfg.Columns) != len(cfg.Out.Fields) {
		return nil, fmt.Errorf("row: %d columns for a schema of %d", len(cfg.Columns), len(cfg.Out.Fields))
	}
	o := &Operator{cfg: cfg}
	for _, c := range cfg.Columns {
		if c.Program == nil {
			o.need = append(o.need, c.Index)
			continue
		}
		o.programs = append(o.programs, c.Program)
		o.need = append(o.need, c.Program.Typed().Columns()...)
	}
	slices.Sort(o.need)
	o.need = slices.Compact(o.need)
	return o, nil
}

// Open implements operator.Operator.
func (o *Operator) Open(_ context.Context, env *operator.Env, out operator.Output) error {
	if env.OnError == operator.Divert && o.cfg.Divert == nil {
		return errors.New("row: on_error is divert, but nothing takes the rows")
	}
	o.env, o.out = env, out
	return nil
}

// Process implements operator.Operator.
func (o *Operator) Process(_ int, b *batch.Batch) error {
	if b.Len() == 0 {
		return o.forward(b)
	}
	sel, err := o.filter(b)
	if err != nil {
		return err
	}
	if o.env.OnError != operator.Fail && len(o.programs) > 0 {
		if sel, err = o.computable(b, sel); err != nil {
			return err
		}
	}
	switch {
	case sel == nil:
	case len(sel) == 0:
		return o.forward(b)
	case len(sel)*sparse < b.Rows:
		b, sel = o.gather(b, sel), nil
	case len(sel) == b.Rows:
		sel = nil
	}
	return o.project(b, sel)
}

// forward passes on what a batch says about event time, if anything.
func (o *Operator) forward(b *batch.Batch) error {
	if b.Watermark == batch.NoWatermark && !b.Idle {
		return nil
	}
	return o.out.Emit(batch.WatermarkOnly(o.cfg.Out, b.Watermark, b.Idle))
}

// filter returns the rows that Where takes; nil means all physical rows. The result may be scratch memory.
func (o *Operator) filter(b *batch.Batch) ([]int32, error) {
	if o.cfg.Where == nil {
		return b.Sel, nil
	}
	picked, err := o.cfg.Where.Select(b, b.Sel, o.picked[:0])
	if err != nil && o.env.OnError != operator.Fail {
		picked, err = o.sift(b, b.Sel, picked[:0], func(rows, dst []int32) ([]int32, error) {
			return o.cfg.Where.Select(b, rows, dst)
		})
	}
	o.picked = picked[:0]
	return picked, err
}

// computable returns the rows of sel (nil: all) that every program can be evaluated for.
func (o *Operator) computable(b *batch.Batch, sel []int32) ([]int32, error) {
	return o.sift(b, sel, make([]int32, 0, b.Len()), func(rows, dst []int32) ([]int32, error) {
		for _, p := range o.programs {
			if _, err := p.Borrow(b, rows); err != nil {
				return dst, err
			}
		}
		return append(dst, rows...), nil
	})
}

// sift appends to dst what try appends for those of rows that it does not fail on; the others are skipped or
// diverted.
func (o *Operator) sift(b *batch.Batch, rows, dst []int32, try func(rows, dst []int32) ([]int32, error)) ([]int32, error) {
	if rows == nil {
		o.all = batch.AllRows(&batch.Batch{Rows: b.Rows}, o.all)
		rows = o.all
	}
	err := expr.Sift(rows, func(part []int32) error {
		more, err := try(part, dst)
		if err == nil {
			dst = more
		}
		return err
	}, func(e *batch.RowError) error {
		o.env.Counters.Skipped.Add(1)
		if o.env.OnError == operator.Divert {
			return o.cfg.Divert(b, e.Row, e)
		}
		return nil
	})
	return dst, err
}

// gather returns the rows sel of b as a dense batch; of the columns only those that the output is made of.
func (o *Operator) gather(b *batch.Batch, sel []int32) *batch.Batch {
	if o.narrow == nil {
		o.narrow = &batch.Schema{HasTime: b.Schema.HasTime}
		for _, c := range o.need {
			o.narrow.Fields = append(o.narrow.Fields, b.Schema.Fields[c])
		}
	}
	src := *b
	src.Schema, src.Cols = o.narrow, make([]batch.Column, len(o.need))
	for i, c := range o.need {
		src.Cols[i] = b.Cols[c]
	}
	g := batch.NewBuilder(o.narrow)
	g.Gather(&src, sel)
	out := g.Finish(b.Watermark, b.Idle)
	cols := make([]batch.Column, len(b.Cols))
	for i, c := range o.need {
		cols[c] = out.Cols[i]
	}
	out.Schema, out.Cols = b.Schema, cols
	return out
}

// project emits the output columns for the rows sel; nil: all physical rows.
func (o *Operator) project(b *batch.Batch, sel []int32) error {
	out := &batch.Batch{
		Schema: o.cfg.Out, Rows: b.Rows, Cols: make([]batch.Column, len(o.cfg.Columns)), Change: b.Change,
		Watermark: b.Watermark, Idle: b.Idle,
		// The batch is kept by others: its selection must not be scratch memory.
		Sel: slices.Clone(sel),
	}
	if o.cfg.Out.HasTime {
		out.Time = b.Time
	}
	for i, c := range o.cfg.Columns {
		if c.Program == nil {
			out.Cols[i] = b.Cols[c.Index]
			continue
		}
		var err error
		if out.Cols[i], err = c.Program.Eval(b, sel); err != nil {
			return err
		}
	}
	return o.out.Emit(out)
}

// End implements operator.Operator: nothing is held back.
func (o *Operator) End() error { return nil }

// Freeze implements operator.Operator: there is no state.
func (o *Operator) Freeze() operator.Frozen { return nil }

// Restore implements operator.Operator.
func (o *Operator) Restore([]checkpoint.OperatorState) error { return nil }

// Close implements operator.Operator.
func (o *Operator) Close() error { return nil }
