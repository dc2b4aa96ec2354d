package expr

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
)

// rangeExec tests an integer or a time against constants: low ≤ x ≤ high. Every comparison with a constant
// is such a range or its negation.
type rangeExec struct {
	truth
	x         exec
	low, high int64 // low ≤ high
	negate    bool
	nullable  bool
	live      []int32
}

// rangeOf converts x cmp c; ok is false where the range would be empty.
func rangeOf(c comparison, v int64) (low, high int64, negate, ok bool) {
	switch {
	case c.equal:
		return v, v, c.negate, true
	case c.swap: // c < x
		return v + 1, math.MaxInt64, c.negate, v != math.MaxInt64
	}
	return math.MinInt64, v - 1, c.negate, v != math.MinInt64
}

func (e *rangeExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, e.nullable, rows)
}

func (e *rangeExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	col, err := e.x.eval(m, rows)
	if err != nil {
		return dst, err
	}
	dense := m.dense(rows)
	if col.Valid != nil {
		rows, e.live = nonNull(rows, e.live, col, col)
		dense = false
	}
	x, low, width := col.Ints, e.low, uint64(e.high)-uint64(e.low)
	k := len(dst)
	dst = room(dst, len(rows))
	switch in := want != e.negate; {
	case dense && in:
		for i, v := range x[:m.n] {
			dst[k] = int32(i)
			if uint64(v)-uint64(low) <= width {
				k++
			}
		}
	case in:
		for _, r := range rows {
			dst[k] = r
			if uint64(x[r])-uint64(low) <= width {
				k++
			}
		}
	default:
		for _, r := range rows {
			dst[k] = r
			if uint64(x[r])-uint64(low) > width {
				k++
			}
		}
	}
	return dst[:k], nil
}

// textExec tests text for equality with a constant.
type textExec struct {
	truth
	x        exec
	value    textConstant
	negate   bool
	nullable bool
	live     []int32
}

// textConstant is a text to compare views with: the 16 bytes of its view as two words, and which bits of
// the words decide. A long text is decided by its length and prefix first.
type textConstant struct {
	text                   []byte
	lo, hi, loMask, hiMask uint64
}

func newTextConstant(s string) textConstant {
	c := textConstant{text: []byte(s)}
	var want, mask [16]byte
	binary.NativeEndian.PutUint32(want[:], uint32(len(s)))
	binary.NativeEndian.PutUint32(mask[:], math.MaxUint32)
	n := len(s)
	if n > inlineLen {
		n = 4
	}
	copy(want[4:], s[:n])
	for i := range n {
		mask[4+i] = 0xff
	}
	c.lo, c.hi = binary.NativeEndian.Uint64(want[:]), binary.NativeEndian.Uint64(want[8:])
	c.loMask, c.hiMask = binary.NativeEndian.Uint64(mask[:]), binary.NativeEndian.Uint64(mask[8:])
	return c
}

func (e *textExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, e.nullable, rows)
}

func (e *textExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	col, err := e.x.eval(m, rows)
	if err != nil {
		return dst, err
	}
	rows, e.live = nonNull(rows, e.live, col, col)
	want = want != e.negate
	words, c := viewWords(col.Views), &e.value
	k := len(dst)
	dst = room(dst, len(rows))
	if len(c.text) <= inlineLen {
		for _, r := range rows {
			w := &words[r]
			dst[k] = r
			if ((w[0]^c.lo)&c.loMask|(w[1]^c.hi)&c.hiMask == 0) == want {
				k++
			}
		}
		return dst[:k], nil
	}
	for _, r := range rows {
		equal := (words[r][0]^c.lo)&c.loMask == 0 && bytes.Equal(col.Bytes(int(r)), c.text)
		dst[k] = r
		if equal == want {
			k++
		}
	}
	return dst[:k], nil
}

// shortSet is the number of constants up to which comparing with each beats a hash table.
const shortSet = 8

// setExec tests for membership in a set of constants: one by one if they are few (fewInts, fewTexts), else in
// a hash table.
type setExec struct {
	truth
	x        exec
	ints     map[int64]struct{}
	texts    map[string]struct{}
	fewInts  []int64
	fewTexts []textConstant
	nullable bool
	live     []int32
}

func (e *setExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, e.nullable, rows)
}

func (e *setExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	col, err := e.x.eval(m, rows)
	if err != nil {
		return dst, err
	}
	rows, e.live = nonNull(rows, e.live, col, col)
	k := len(dst)
	dst = room(dst, len(rows))
	switch {
	case e.fewTexts != nil:
		for _, r := range rows {
			dst[k] = r
			if e.oneOfTexts(col, int(r)) == want {
				k++
			}
		}
	case e.texts != nil:
		for _, r := range rows {
			dst[k] = r
			if _, ok := e.texts[string(col.Bytes(int(r)))]; ok == want {
				k++
			}
		}
	case e.fewInts != nil:
		for _, r := range rows {
			dst[k] = r
			if slices.Contains(e.fewInts, col.Ints[r]) == want {
				k++
			}
		}
	default:
		for _, r := range rows {
			dst[k] = r
			if _, ok := e.ints[col.Ints[r]]; ok == want {
				k++
			}
		}
	}
	return dst[:k], nil
}

func (e *setExec) oneOfTexts(col *batch.Column, r int) bool {
	w := &viewWords(col.Views)[r]
	for i := range e.fewTexts {
		c := &e.fewTexts[i]
		if (w[0]^c.lo)&c.loMask|(w[1]^c.hi)&c.hiMask == 0 && (len(c.text) <= inlineLen || bytes.Equal(col.Bytes(r), c.text)) {
			return true
		}
	}
	return false
}
