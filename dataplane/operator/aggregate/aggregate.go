// Package aggregate is the running keyed aggregate: one entry a key, for ever, and for every key of a batch
// one row with the new result.
package aggregate

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/accumulate"
	"github.com/weirstream/weir/dataplane/state"
)

// Config describes the operator.
type Config struct {
	// Shape's Mid is keys, results.
	accumulate.Shape
}

// table is the name of the state.
const table = "aggregate"

// Operator is one instance. Per batch and key it emits the result after the key's last row, with that row's
// event time: +I for a key that is new, +U afterwards, in the order in which the keys first occur. Without
// calls a key is emitted when it is new only. There is no −U: consumers that need the old row keep it.
type Operator struct {
	cfg     Config
	core    *accumulate.Core
	env     *operator.Env
	out     operator.Output
	table   state.Table
	entries accumulate.Entries
}

var _ operator.Operator = (*Operator)(nil)

// New returns an instance.
func New(cfg Config) (*Operator, error) {
	o := &Operator{cfg: cfg}
	var err error
	if o.core, err = accumulate.NewCore(&o.cfg.Shape, 0); err != nil {
		return nil, fmt.Errorf("aggregate: %w", err)
	}
	return o, nil
}

// Open implements operator.Operator.
func (o *Operator) Open(_ context.Context, env *operator.Env, out operator.Output) error {
	if err := o.core.Open(env); err != nil {
		return fmt.Errorf("aggregate: %w", err)
	}
	o.env, o.out = env, out
	var err error
	if o.table, err = env.State.Table(table, o.core.Set.Layout()); err != nil {
		return fmt.Errorf("aggregate: %w", err)
	}
	return nil
}

// Process implements operator.Operator.
func (o *Operator) Process(_ int, b *batch.Batch) error {
	out, err := o.update(b)
	if err != nil {
		return err
	}
	if out == nil {
		if b.Watermark == batch.NoWatermark && !b.Idle {
			return nil
		}
		return o.out.Emit(batch.WatermarkOnly(o.cfg.Out, b.Watermark, b.Idle))
	}
	out.Watermark, out.Idle = b.Watermark, b.Idle
	return o.out.Emit(out)
}

// update folds the rows of b and returns the rows to emit, or nil.
func (o *Operator) update(b *batch.Batch) (*batch.Batch, error) {
	if b.Len() == 0 {
		return nil, nil
	}
	if err := o.core.Accept(b); err != nil {
		return nil, err
	}
	rows, err := o.core.Prepare(b, o.core.Rows(b))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	groups := o.core.Grouper.Group(b, rows)
	if err := o.entries.Resolve(o.table, &groups.Keys); err != nil {
		return nil, err
	}
	change, fresh := o.changes()
	o.core.Set.Fold(groups, &o.entries)
	last := groups.Last
	if o.core.Set.Len() == 0 {
		if len(fresh) == 0 {
			return nil, nil
		}
		for i, k := range fresh {
			fresh[i] = last[k]
		}
		last, change = fresh, nil
	}
	return o.emission(b, last, change)
}

// changes says for every entry whether it is new. It must be called before the entries are folded into.
func (o *Operator) changes() (change []batch.Change, fresh []int32) {
	change = make([]batch.Change, len(o.entries.Words))
	for k, w := range o.entries.Words {
		change[k] = batch.UpdateAfter
		if w[0] == 0 {
			change[k] = batch.Insert
			fresh = append(fresh, int32(k))
		}
	}
	if len(fresh) == len(change) {
		change = nil
	}
	return change, fresh
}

// emission makes a row for each of the rows last of b, the last ones of their keys.
func (o *Operator) emission(b *batch.Batch, last []int32, change []batch.Change) (*batch.Batch, error) {
	mid := &batch.Batch{
		Schema: o.cfg.Mid, Rows: len(last), Cols: o.core.GatherKeys(b, last), Change: change, Watermark: batch.NoWatermark,
	}
	if b.Time != nil {
		mid.Time = make([]int64, len(last))
		for k, r := range last {
			mid.Time[k] = b.Time[r]
		}
	}
	return o.core.Finish(mid, o.entries.Source())
}

// End implements operator.Operator: nothing is held back.
func (o *Operator) End() error { return nil }

// Freeze implements operator.Operator: all state is in env.State.
func (o *Operator) Freeze() operator.Frozen { return nil }

// Restore implements operator.Operator.
func (o *Operator) Restore([]checkpoint.OperatorState) error { return nil }

// Close implements operator.Operator.
func (o *Operator) Close() error { return nil }
