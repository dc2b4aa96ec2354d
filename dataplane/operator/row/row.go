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
}

// Operator is one instance.
type Operator struct {
	cfg Config
	env *operator.Env
	out operator.Output
}

var _ operator.Operator = (*Operator)(nil)

// New returns an instance.
func New(cfg Config) (*Operator, error) {
	if len(cfg.Columns) != len(cfg.Out.Fields) {
		return nil, fmt.Errorf("row: %d columns for a schema of %d", len(cfg.Columns), len(cfg.Out.Fields))
	}
	return &Operator{cfg: cfg}, nil
}

// Open implements operator.Operator.
func (o *Operator) Open(_ context.Context, env *operator.Env, out operator.Output) error {
	o.env, o.out = env, out
	return nil
}

// Process implements operator.Operator.
func (o *Operator) Process(_ int, b *batch.Batch) error {
	sel := b.Sel
	if b.Len() > 0 {
		var err error
		if sel, err = o.filter(b); err != nil {
			return err
		}
	}
	if b.Len() == 0 || sel != nil && len(sel) == 0 {
		if b.Watermark == batch.NoWatermark && !b.Idle {
			return nil
		}
		return o.out.Emit(batch.WatermarkOnly(o.cfg.Out, b.Watermark, b.Idle))
	}
	return o.project(b, sel)
}

// filter returns the rows that Where takes. Nil means all.
func (o *Operator) filter(b *batch.Batch) ([]int32, error) {
	if o.cfg.Where == nil {
		return b.Sel, nil
	}
	in := b.Sel
	for {
		sel, err := o.cfg.Where.Select(b, in, nil)
		if err == nil {
			return sel, nil
		}
		if in, err = o.without(b, in, err); err != nil {
			return nil, err
		}
	}
}

// without takes the row that cannot be evaluated out of the selection, if the policy allows it.
func (o *Operator) without(b *batch.Batch, sel []int32, err error) ([]int32, error) {
	var re *batch.RowError
	if o.env.OnError != operator.Skip || !errors.As(err, &re) {
		return nil, err
	}
	o.env.Counters.Skipped.Add(1)
	rest := slices.Clone(sel)
	if sel == nil {
		rest = slices.Clone(batch.AllRows(b, nil))
	}
	return slices.DeleteFunc(rest, func(r int32) bool { return int(r) == re.Row }), nil
}

func (o *Operator) project(b *batch.Batch, sel []int32) error {
	out := &batch.Batch{
		Schema: o.cfg.Out, Rows: b.Rows, Cols: make([]batch.Column, len(o.cfg.Columns)), Change: b.Change,
		Watermark: b.Watermark, Idle: b.Idle,
	}
	if o.cfg.Out.HasTime {
		out.Time = b.Time
	}
	for i := 0; i < len(o.cfg.Columns); i++ {
		c := &o.cfg.Columns[i]
		if c.Program == nil {
			out.Cols[i] = b.Cols[c.Index]
			continue
		}
		col, err := c.Program.Eval(b, sel)
		if err != nil {
			if sel, err = o.without(b, sel, err); err != nil {
				return err
			}
			i-- // once more, without that row
			continue
		}
		out.Cols[i] = col
	}
	out.Sel = sel
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
