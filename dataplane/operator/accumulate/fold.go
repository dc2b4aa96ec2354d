package accumulate

import (
	"bytes"
	"math"
	"math/bits"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/state"
)

// overflowed marks a decimal sum that has left 128 bits, in its number of values.
const overflowed = 1 << 63

// Entries are the state of the groups of a batch: entry g is that of group g.
type Entries struct {
	Table state.Table
	Slots []state.Slot
	Words [][]uint64
}

// Resolve finds or creates the entries of the keys. They are valid until state.Backend.EndBatch.
func (e *Entries) Resolve(t state.Table, keys *state.KeySet) error {
	n := keys.Len()
	e.Table = t
	e.Slots = slices.Grow(e.Slots[:0], n)[:n]
	e.Words = slices.Grow(e.Words[:0], n)[:n]
	if err := t.Resolve(keys, e.Slots); err != nil {
		return err
	}
	for i, s := range e.Slots {
		e.Words[i] = t.Words(s)
	}
	return nil
}

// Fold adds the grouped rows, for which Prepare has been called, to the entries. It cannot fail.
func (s *Set) Fold(g *Groups, e *Entries) {
	from := int32(0)
	for k, end := range g.Ends {
		e.Words[k][0] += uint64(end - from)
		from = end
	}
	for i := range s.accs {
		a := &s.accs[i]
		switch {
		case a.kind == countRows || a.shared:
		case !a.partial:
			a.fold(e, g.Rows, g.Ends)
		case len(a.rows) == 0:
		case g.Len() == 1:
			s.one[0] = int32(len(a.rows))
			a.fold(e, a.rows, s.one[:])
		default:
			s.mark(a.rows, g)
			if a.kind == count {
				s.countMarked(e.Words, a.word, g)
			} else {
				s.regroup(g)
				a.fold(e, s.rows, s.ends)
			}
		}
	}
}

// mark sets the mask to rows.
func (s *Set) mark(rows []int32, g *Groups) {
	words := int(slices.Max(g.Last))/64 + 1
	s.mask = slices.Grow(s.mask[:0], words)[:words]
	clear(s.mask)
	for _, r := range rows {
		s.mask.Set(int(r))
	}
}

func (s *Set) countMarked(words [][]uint64, at int, g *Groups) {
	from := int32(0)
	for k, end := range g.Ends {
		n := uint64(0)
		for _, r := range g.Rows[from:end] {
			n += s.mask[r>>6] >> (uint(r) & 63) & 1
		}
		words[k][at] += n
		from = end
	}
}

// regroup makes s.rows and s.ends of the grouped rows that are marked. It writes every row and moves on only
// behind marked ones, so that no branch is mispredicted.
func (s *Set) regroup(g *Groups) {
	s.rows = slices.Grow(s.rows[:0], len(g.Rows))[:len(g.Rows)]
	s.ends = slices.Grow(s.ends[:0], g.Len())[:g.Len()]
	from, n := int32(0), 0
	for k, end := range g.Ends {
		for _, r := range g.Rows[from:end] {
			s.rows[n] = r
			n += int(s.mask[r>>6] >> (uint(r) & 63) & 1)
		}
		from = end
		s.ends[k] = int32(n)
	}
	s.rows = s.rows[:n]
}

func (a *accumulator) fold(e *Entries, rows, ends []int32) {
	switch a.kind {
	case count:
		from := int32(0)
		for k, end := range ends {
			e.Words[k][a.word] += uint64(end - from)
			from = end
		}
	case sumInt:
		foldInts(e.Words, a.word, rows, ends, a.col.Ints)
	case sumFloat:
		foldFloats(e.Words, a.word, rows, ends, a.col.Floats)
	case sumDecimal:
		foldDecimals(e.Words, a.word, rows, ends, a.col.Decs)
	case extremeInt:
		ints := a.col.Ints
		if a.arg.Kind == batch.Bool {
			ints = a.bools
		}
		if a.max {
			maxInts(e.Words, a.word, rows, ends, ints)
		} else {
			minInts(e.Words, a.word, rows, ends, ints)
		}
	case extremeFloat:
		a.extremeFloats(e.Words, rows, ends)
	case extremeDecimal:
		a.extremeDecimals(e.Words, rows, ends)
	case extremeText:
		a.extremeTexts(e, rows, ends)
	}
}

func foldInts(words [][]uint64, at int, rows, ends []int32, values []int64) {
	from := int32(0)
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][at : at+3]
		lo, hi := w[0], w[1]
		for _, r := range rows[from:end] {
			v := values[r]
			var carry uint64
			lo, carry = bits.Add64(lo, uint64(v), 0)
			hi += uint64(v>>63) + carry
		}
		w[0], w[1] = lo, hi
		w[2] += uint64(end - from)
		from = end
	}
}

// foldFloats adds in the order of the rows, so that a sum does not depend on how rows fall into batches.
func foldFloats(words [][]uint64, at int, rows, ends []int32, values []float64) {
	from := int32(0)
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][at : at+2]
		sum := math.Float64frombits(w[0])
		for _, r := range rows[from:end] {
			sum += values[r]
		}
		w[0] = math.Float64bits(sum)
		w[1] += uint64(end - from)
		from = end
	}
}

func foldDecimals(words [][]uint64, at int, rows, ends []int32, values []batch.Dec128) {
	from := int32(0)
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][at : at+3]
		sum, fits := batch.Dec128{Lo: w[0], Hi: int64(w[1])}, true
		for _, r := range rows[from:end] {
			var ok bool
			sum, ok = sum.Add(values[r])
			fits = fits && ok
		}
		w[0], w[1] = sum.Lo, uint64(sum.Hi)
		w[2] += uint64(end - from)
		if !fits {
			w[2] |= overflowed
		}
		from = end
	}
}

func maxInts(words [][]uint64, at int, rows, ends []int32, values []int64) {
	from := int32(0)
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][at : at+2]
		best := int64(w[0])
		if w[1] == 0 {
			best = math.MinInt64
		}
		for _, r := range rows[from:end] {
			best = max(best, values[r])
		}
		w[0], w[1] = uint64(best), 1
		from = end
	}
}

func minInts(words [][]uint64, at int, rows, ends []int32, values []int64) {
	from := int32(0)
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][at : at+2]
		best := int64(w[0])
		if w[1] == 0 {
			best = math.MaxInt64
		}
		for _, r := range rows[from:end] {
			best = min(best, values[r])
		}
		w[0], w[1] = uint64(best), 1
		from = end
	}
}

// sign is +1 for max and −1 for min.
func (a *accumulator) sign() int {
	if a.max {
		return 1
	}
	return -1
}

func (a *accumulator) extremeFloats(words [][]uint64, rows, ends []int32) {
	from, sign := int32(0), a.sign()
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][a.word : a.word+2]
		best := math.Float64frombits(w[0])
		if w[1] == 0 {
			best = a.col.Floats[rows[from]]
		}
		for _, r := range rows[from:end] {
			if v := a.col.Floats[r]; expr.CompareFloats(v, best) == sign {
				best = v
			}
		}
		w[0], w[1] = math.Float64bits(best), 1
		from = end
	}
}

func (a *accumulator) extremeDecimals(words [][]uint64, rows, ends []int32) {
	from, sign := int32(0), a.sign()
	for k, end := range ends {
		if from == end {
			continue
		}
		w := words[k][a.word : a.word+3]
		best := batch.Dec128{Lo: w[0], Hi: int64(w[1])}
		if w[2] == 0 {
			best = a.col.Decs[rows[from]]
		}
		for _, r := range rows[from:end] {
			if v := a.col.Decs[r]; v.Cmp(best) == sign {
				best = v
			}
		}
		w[0], w[1], w[2] = best.Lo, uint64(best.Hi), 1
		from = end
	}
}

// extremeTexts finds the best text of the batch first and then stores it if it beats the entry's.
func (a *accumulator) extremeTexts(e *Entries, rows, ends []int32) {
	from, sign := int32(0), a.sign()
	for k, end := range ends {
		if from == end {
			continue
		}
		best := a.col.Bytes(int(rows[from]))
		for _, r := range rows[from+1 : end] {
			if v := a.col.Bytes(int(r)); bytes.Compare(v, best) == sign {
				best = v
			}
		}
		w, s := &e.Words[k][a.word], e.Slots[k]
		if *w == 0 || bytes.Compare(best, e.Table.Var(s, a.vars)) == sign {
			e.Table.SetVar(s, a.vars, best)
		}
		*w = 1
		from = end
	}
}
