package window

import (
	"math"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/operator/accumulate"
	"github.com/weirstream/weir/dataplane/state"
)

// firing collects entries of a window: copies, since a table's slots are valid during the visit only.
type firing struct {
	keys  state.KeySet
	words []uint64 // of all entries
	vars  []byte   // variable fields of all entries
	ends  []int32  // of the variable fields in vars
	views [][]uint64
}

func (f *firing) reset() {
	f.keys.Reset()
	f.words, f.vars, f.ends = f.words[:0], f.vars[:0], f.ends[:0]
}

func (f *firing) add(t state.Table, l state.Layout, key []byte, s state.Slot) {
	f.keys.Bytes = append(f.keys.Bytes, key...)
	f.keys.Ends = append(f.keys.Ends, int32(len(f.keys.Bytes)))
	f.words = append(f.words, t.Words(s)...)
	for v := range l.Vars {
		f.vars = append(f.vars, t.Var(s, v)...)
		f.ends = append(f.ends, int32(len(f.vars)))
	}
}

// source returns the collected entries as a source of results.
func (f *firing) source(l state.Layout) accumulate.Source {
	f.views = f.views[:0]
	for i := range f.keys.Len() {
		f.views = append(f.views, f.words[i*l.Words:(i+1)*l.Words])
	}
	return accumulate.Source{Words: f.views, Var: func(i, v int) []byte {
		k, from := i*l.Vars+v, int32(0)
		if k > 0 {
			from = f.ends[k-1]
		}
		return f.vars[from:f.ends[k]]
	}}
}

// fire emits the window whose last microsecond is last, and drops it.
func (o *Operator) fire(last int64) error {
	t, err := o.buckets.Bucket(last)
	if err != nil {
		return err
	}
	layout := o.core.Set.Layout()
	o.firing.reset()
	err = t.Each(func(key []byte, s state.Slot) error {
		o.firing.add(t, layout, key, s)
		if o.firing.keys.Len() < chunk {
			return nil
		}
		return o.emit(last)
	})
	if err == nil && o.firing.keys.Len() > 0 {
		err = o.emit(last)
	}
	if err != nil {
		return err
	}
	return o.buckets.Drop(last)
}

// emit emits the collected entries.
func (o *Operator) emit(last int64) error {
	n := o.firing.keys.Len()
	mid := &batch.Batch{Schema: o.cfg.Mid, Rows: n, Time: repeat(last, n), Watermark: batch.NoWatermark}
	var err error
	if mid.Cols, err = o.keys(); err != nil {
		return err
	}
	start, _ := o.bounds(last)
	end := last
	if end < math.MaxInt64 {
		end++
	}
	k := len(o.cfg.Keys)
	mid.Cols = append(mid.Cols,
		batch.Column{Type: o.cfg.Mid.Fields[k].Type, Ints: repeat(start, n)},
		batch.Column{Type: o.cfg.Mid.Fields[k+1].Type, Ints: repeat(end, n)})
	out, err := o.core.Finish(mid, o.firing.source(o.core.Set.Layout()))
	o.firing.reset()
	if err != nil || out == nil {
		return err
	}
	return o.out.Emit(out)
}

// keys decodes the keys of the collected entries into columns.
func (o *Operator) keys() ([]batch.Column, error) {
	n := o.firing.keys.Len()
	cols := make([]batch.Column, len(o.cfg.Keys), len(o.cfg.Mid.Fields))
	for c := range cols {
		cols[c] = batch.NewColumn(o.cfg.Mid.Fields[c].Type, n)
	}
	for i := range n {
		key := o.firing.keys.Key(i)
		for c := range cols {
			var err error
			if key, err = cols[c].DecodeKey(key, i, n); err != nil {
				return nil, err
			}
		}
	}
	return cols, nil
}

func repeat(v int64, n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = v
	}
	return s
}
