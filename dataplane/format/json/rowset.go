package json

import "github.com/weirstream/weir/dataplane/batch"

// rowSet is a set of rows that is mostly empty.
type rowSet struct {
	bits batch.Bitmap
	n    int
}

// reset empties the set and makes room for the rows [0, n).
func (s *rowSet) reset(n int) {
	if words := (n + 63) / 64; cap(s.bits) < words {
		s.bits = batch.NewBitmap(n)
	} else {
		s.bits = s.bits[:words]
		clear(s.bits)
	}
	s.n = 0
}

func (s *rowSet) has(row int) bool { return s.n > 0 && s.bits.Get(row) }

func (s *rowSet) add(row int) {
	if !s.bits.Get(row) {
		s.bits.Set(row)
		s.n++
	}
}

// others lists the rows of [0, n) that are not in the set; nil stands for all.
func (s *rowSet) others(n int) []int32 {
	if s.n == 0 {
		return nil
	}
	out := make([]int32, 0, n-s.n)
	for row := range n {
		if !s.bits.Get(row) {
			out = append(out, int32(row))
		}
	}
	return out
}

// remove removes the rows of the set from sel, in place.
func (s *rowSet) remove(sel []int32) []int32 {
	if s.n == 0 {
		return sel
	}
	kept := sel[:0]
	for _, row := range sel {
		if !s.bits.Get(int(row)) {
			kept = append(kept, row)
		}
	}
	return kept
}
