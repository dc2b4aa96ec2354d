package accumulate

import (
	"math"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
)

// Source is where results are made from: the words of n entries, and variable field v of entry i.
type Source struct {
	Words [][]uint64
	Var   func(i, v int) []byte
}

// Source returns the entries as a source of results.
func (e *Entries) Source() Source {
	return Source{Words: e.Words, Var: func(i, v int) []byte { return e.Table.Var(e.Slots[i], v) }}
}

// Results appends a column per call to cols, each a row per entry. A result that does not exist in its type
// is reported to bad, with the index of its entry.
func (s *Set) Results(cols []batch.Column, src Source, bad func(*batch.RowError)) []batch.Column {
	for i := range s.accs {
		a := &s.accs[i]
		col := batch.NewColumn(a.Result, len(src.Words))
		a.results(&col, src, bad)
		cols = append(cols, col)
	}
	return cols
}

func (a *accumulator) results(col *batch.Column, src Source, bad func(*batch.RowError)) {
	n, at := len(src.Words), a.word
	switch a.kind {
	case countRows:
		for i, w := range src.Words {
			col.Ints[i] = int64(w[0])
		}
	case count:
		for i, w := range src.Words {
			col.Ints[i] = int64(w[at])
		}
	case sumInt:
		for i, w := range src.Words {
			if w[at+2] == 0 {
				col.SetNull(i, n)
				continue
			}
			v, ok := a.intResult(batch.Dec128{Lo: w[at], Hi: int64(w[at+1])}, w[at+2])
			if col.Ints[i] = v; !ok {
				bad(a.overflow(i))
			}
		}
	case sumFloat:
		for i, w := range src.Words {
			if w[at+1] == 0 {
				col.SetNull(i, n)
				continue
			}
			col.Floats[i] = math.Float64frombits(w[at])
			if a.avg {
				col.Floats[i] /= float64(w[at+1])
			}
		}
	case sumDecimal:
		for i, w := range src.Words {
			if w[at+2] == 0 {
				col.SetNull(i, n)
				continue
			}
			v, ok := a.decimalResult(batch.Dec128{Lo: w[at], Hi: int64(w[at+1])}, w[at+2])
			if col.Decs[i] = v; !ok {
				bad(a.overflow(i))
			}
		}
	default:
		a.extremeResults(col, src)
	}
}

func (a *accumulator) overflow(i int) *batch.RowError {
	return &batch.RowError{Row: i, Place: a.Place, Err: expr.ErrOverflow}
}

// intResult is a sum, or an average cut towards zero.
func (a *accumulator) intResult(sum batch.Dec128, n uint64) (int64, bool) {
	if v, ok := sum.Int64(); ok {
		if a.avg {
			v /= int64(n)
		}
		return v, true
	}
	if a.avg {
		d := batch.DecFromInt64(int64(n))
		whole, _ := sum.Sub(sum.Rem(d))
		sum, _ = whole.DivShift(d, 0)
	}
	return sum.Int64()
}

func (a *accumulator) decimalResult(sum batch.Dec128, n uint64) (batch.Dec128, bool) {
	if n&overflowed != 0 {
		return sum, false
	}
	ok := true
	if a.avg {
		sum, ok = sum.DivShift(batch.DecFromInt64(int64(n)), int(a.Result.Scale)-int(a.arg.Scale))
	}
	return sum, ok && sum.Fits(a.Result.Precision)
}

func (a *accumulator) extremeResults(col *batch.Column, src Source) {
	n, at := len(src.Words), a.word
	present := at + 1
	switch a.kind {
	case extremeDecimal:
		present = at + 2
	case extremeText:
		present = at
	}
	for i, w := range src.Words {
		if w[present] == 0 {
			col.SetNull(i, n)
			continue
		}
		switch {
		case a.kind == extremeFloat:
			col.Floats[i] = math.Float64frombits(w[at])
		case a.kind == extremeDecimal:
			col.Decs[i] = batch.Dec128{Lo: w[at], Hi: int64(w[at+1])}
		case a.kind == extremeText:
			col.SetBytes(i, src.Var(i, a.vars))
		case a.arg.Kind == batch.Bool:
			col.Bools.SetTo(i, w[at] != 0)
		default:
			col.Ints[i] = int64(w[at])
		}
	}
}
