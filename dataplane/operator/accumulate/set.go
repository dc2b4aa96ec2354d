package accumulate

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/state"
)

// Call is one aggregate. Its programs belong to it alone.
type Call struct {
	// Func is count, sum, min, max or avg.
	Func string
	// Arg is nil for count(*).
	Arg *expr.Program
	// Filter is FILTER (WHERE …), or nil. Arg is evaluated for the rows that it takes only.
	Filter *expr.Predicate
	// Result is the type of the result: what expr.AggregateCall.Result says.
	Result batch.Type
	// Place names the call in errors of its result: "steps.totals.aggregate.sum".
	Place string
}

// kind is how a call accumulates.
type kind uint8

const (
	countRows kind = iota // count(*) without a filter: word 0
	count
	sumInt
	sumFloat
	sumDecimal
	extremeInt // integers, times, booleans
	extremeFloat
	extremeDecimal
	extremeText
)

// accumulator is a call with its place in the entries, and what Prepare has found for the batch.
type accumulator struct {
	Call
	kind kind
	avg  bool
	max  bool
	word int // first word
	vars int // variable field
	arg  batch.Type
	// shared: an earlier sum or average of the same has these words and fills them.
	shared bool

	col *batch.Column
	// rows are the rows that count, if partial; else all of the batch's are.
	partial bool
	rows    []int32
	bools   []int64 // boolean arguments as integers
}

// Set is the accumulators of one operator instance. It belongs to one goroutine.
type Set struct {
	accs   []accumulator
	layout state.Layout
	// Scratch of Fold: a bit per row, and grouped rows that count for one accumulator.
	mask batch.Bitmap
	rows []int32
	ends []int32
	one  [1]int32
}

// New returns the set of calls.
func New(calls []Call) (*Set, error) {
	s := &Set{accs: make([]accumulator, len(calls)), layout: state.Layout{Words: 1}}
	for i, c := range calls {
		a := &s.accs[i]
		a.Call, a.avg, a.max = c, c.Func == "avg", c.Func == "max"
		if c.Arg != nil {
			a.arg = c.Arg.Type()
		}
		words, err := a.classify()
		if err != nil {
			return nil, err
		}
		if first := s.sumLike(a, i); first != nil {
			a.word, a.shared = first.word, true
			continue
		}
		a.word = s.layout.Words
		s.layout.Words += words
		if a.kind == extremeText {
			a.vars = s.layout.Vars
			s.layout.Vars++
		}
	}
	return s, nil
}

// sumLike returns the one of the first n calls that adds up the same values as a, or nil.
func (s *Set) sumLike(a *accumulator, n int) *accumulator {
	if a.kind != sumInt && a.kind != sumFloat && a.kind != sumDecimal {
		return nil
	}
	for i := range s.accs[:n] {
		b := &s.accs[i]
		sameFilter := a.Filter == nil && b.Filter == nil || a.Filter != nil && b.Filter != nil && a.Filter.Typed().Same(b.Filter.Typed())
		if a.kind == b.kind && sameFilter && a.Arg.Typed().Same(b.Arg.Typed()) {
			return b
		}
	}
	return nil
}

// classify sets the kind and returns the number of words.
func (a *accumulator) classify() (words int, err error) {
	numbers := map[batch.Kind]kind{batch.Int64: sumInt, batch.Float64: sumFloat, batch.Decimal: sumDecimal}
	widths := map[kind]int{sumInt: 3, sumFloat: 2, sumDecimal: 3, extremeInt: 2, extremeFloat: 2, extremeDecimal: 3, extremeText: 1}
	switch a.Func {
	case "count":
		if a.kind = count; a.Arg == nil && a.Filter == nil {
			a.kind = countRows
			return 0, nil
		}
		return 1, nil
	case "sum", "avg":
		k, ok := numbers[a.arg.Kind]
		if !ok {
			return 0, fmt.Errorf("accumulate: %s of %s is not defined", a.Func, a.arg)
		}
		a.kind = k
	case "min", "max":
		switch {
		case a.arg.IsInt64() || a.arg.Kind == batch.Bool:
			a.kind = extremeInt
		case a.arg.Kind == batch.Float64:
			a.kind = extremeFloat
		case a.arg.Kind == batch.Decimal:
			a.kind = extremeDecimal
		case a.arg.IsView():
			a.kind = extremeText
		default:
			return 0, fmt.Errorf("accumulate: %s needs an argument", a.Func)
		}
	default:
		return 0, fmt.Errorf("accumulate: no aggregate %q", a.Func)
	}
	return widths[a.kind], nil
}

// Layout is the shape of the entries.
func (s *Set) Layout() state.Layout { return s.layout }

// Len is the number of calls.
func (s *Set) Len() int { return len(s.accs) }

// Prepare evaluates arguments and filters for the rows (ascending) of b. It changes no entry. An error of a
// row is a *batch.RowError. What it finds is valid until the next call of Prepare.
func (s *Set) Prepare(b *batch.Batch, rows []int32) error {
	for i := range s.accs {
		if err := s.accs[i].prepare(b, rows); err != nil {
			return err
		}
	}
	return nil
}

func (a *accumulator) prepare(b *batch.Batch, rows []int32) (err error) {
	a.partial, a.col = false, nil
	if a.shared {
		return nil
	}
	if a.Filter != nil {
		if a.rows, err = a.Filter.Select(b, rows, a.rows[:0]); err != nil {
			return err
		}
		a.partial, rows = true, a.rows
	}
	if a.Arg == nil {
		return nil
	}
	if a.col, err = a.Arg.Borrow(b, rows); err != nil {
		return err
	}
	if a.col.Valid != nil {
		valid := a.rows[:0] // filters its own memory if rows is a.rows
		for _, r := range rows {
			if a.col.Valid.Get(int(r)) {
				valid = append(valid, r)
			}
		}
		a.rows, a.partial = valid, true
	}
	if a.arg.Kind == batch.Bool && a.kind == extremeInt {
		a.widenBools(b.Rows)
	}
	return nil
}

// widenBools makes integers of a boolean argument, so that min and max have one loop less.
func (a *accumulator) widenBools(n int) {
	if cap(a.bools) < n {
		a.bools = make([]int64, n)
	}
	a.bools = a.bools[:n]
	for i := range a.bools {
		a.bools[i] = 0
		if a.col.Bools.Get(i) {
			a.bools[i] = 1
		}
	}
}
