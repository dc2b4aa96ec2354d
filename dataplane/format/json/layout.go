package json

import (
	"encoding/binary"

	"github.com/weirstream/weir/dataplane/batch"
)

// maxLayouts bounds the layouts that a reader keeps. The first half may be specific (a null of a member that
// nobody asked for is part of the literal); the rest is general, so that records with many independent
// optional members need few.
const maxLayouts = 16

// relearnAfter is the number of records that no layout fits, with the table full, before the least useful
// layout makes room for a new one.
const relearnAfter = 256

// op is one value of a layout: compare the literal before it, then read or skip the value.
type op struct {
	lit    literal
	kind   opKind
	col    int // the column of opInt, opText and opTime
	leaves []*leaf
	// from and to are the literal's place in the record that is being learned.
	from, to int
}

// opKind says how a value is read. The kinds after opRead are the frequent ones; what they cannot read they
// leave to the general routine.
type opKind uint8

const (
	opSkip opKind = iota
	opRead
	opInt
	opText
	opTime
)

// literal is text that is compared in words. head and last are its first and last eight bytes, or for a shorter
// one head is all of it and mask tells its bytes.
type literal struct {
	text             string
	head, last, mask uint64
}

func newLiteral(b []byte) literal {
	l := literal{text: string(b)}
	var w [8]byte
	copy(w[:], b)
	l.head = binary.LittleEndian.Uint64(w[:])
	if len(b) >= 8 {
		l.last = binary.LittleEndian.Uint64(b[len(b)-8:])
	}
	l.mask = 1<<(8*min(len(b), 8)) - 1
	return l
}

// match returns the position behind the literal if it stands at v[i], else -1.
func (l *literal) match(v []byte, i int) int {
	end := i + len(l.text)
	if end > len(v) {
		return -1
	}
	if i+8 > len(v) {
		if string(v[i:end]) != l.text {
			return -1
		}
		return end
	}
	x := binary.LittleEndian.Uint64(v[i:])
	if end < i+8 {
		if (x^l.head)&l.mask != 0 {
			return -1
		}
		return end
	}
	if x != l.head || binary.LittleEndian.Uint64(v[end-8:]) != l.last {
		return -1
	}
	if end > i+16 && string(v[i+8:end-8]) != l.text[8:len(l.text)-8] {
		return -1
	}
	return end
}

// layout is how records of one shape are laid out.
type layout struct {
	ops []op
	// tail follows the last value; toEnd says that nothing may follow it.
	tail    literal
	toEnd   bool
	missing []int // columns that are null in every record of the layout
	hits    uint64
}

// layouts is the set of layouts of a reader, roughly the most frequent first.
type layouts struct {
	all    []*layout
	mode   Timestamps
	misses int // since the table was full or the last replacement
}

// wants says whether the record at hand should be learned, and whether generally.
func (s *layouts) wants() (learn, general bool) {
	if len(s.all) < maxLayouts {
		return true, len(s.all) >= maxLayouts/2
	}
	s.misses++
	return s.misses >= relearnAfter, true
}

// add keeps the layout that the parser has found in p.v[:end].
func (s *layouts) add(p *parse, end int) {
	l := &layout{ops: make([]op, len(p.ops)), tail: newLiteral(p.v[p.lit:end]), toEnd: !p.done, missing: append([]int(nil), p.missing...)}
	for i, o := range p.ops {
		l.ops[i] = newOp(p.v[o.from:o.to], o.leaves, s.mode)
	}
	if len(s.all) < maxLayouts {
		s.all = append(s.all, l)
		return
	}
	s.misses = 0
	least := 0
	for i, o := range s.all {
		if o.hits < s.all[least].hits {
			least = i
		}
	}
	s.all[least] = l
	for _, o := range s.all {
		o.hits /= 2
	}
}

// read tries to read the record by the layouts. It reports whether one fits; the values are then in row.
func (s *layouts) read(r *reader, v []byte, row int) bool {
	if len(s.all) == 0 {
		return false
	}
	arena := len(r.arena)
	for i, l := range s.all {
		if r.follow(l, v, row) {
			l.hits++
			if i > 0 && s.all[i-1].hits < l.hits {
				s.all[i-1], s.all[i] = l, s.all[i-1]
			}
			return true
		}
		r.undo(arena, row)
	}
	return false
}

// newOp chooses how to read a value.
func newOp(lit []byte, leaves []*leaf, mode Timestamps) op {
	o := op{lit: newLiteral(lit), leaves: leaves}
	if len(leaves) == 0 {
		return o
	}
	o.kind, o.col = opRead, leaves[0].id
	if len(leaves) > 1 {
		return o
	}
	switch k := leaves[0].typ.Kind; {
	case k == batch.Int64:
		o.kind = opInt
	case k == batch.String:
		o.kind = opText
	case k == batch.Timestamp && mode.micros() == 0:
		o.kind = opTime
	}
	return o
}

// follow reads the record by l, as far as it fits.
func (r *reader) follow(l *layout, v []byte, row int) bool {
	i := 0
	for k := range l.ops {
		o := &l.ops[k]
		if i = o.lit.match(v, i); i < 0 {
			return false
		}
		if i = r.apply(o, v, i, row); i < 0 {
			return false
		}
	}
	if i = l.tail.match(v, i); i < 0 || l.toEnd && i != len(v) {
		return false
	}
	for _, id := range l.missing {
		r.cols[id].SetNull(row, r.rows)
	}
	return true
}

// apply reads or skips the value at v[i]. It returns the position behind it, or -1.
func (r *reader) apply(o *op, v []byte, i, row int) int {
	switch o.kind {
	case opSkip:
		return skipValue(v, i)
	case opInt:
		if n, end := shortInt(v, i); end >= 0 {
			r.cols[o.col].Ints[row] = n
			return end
		}
	case opText:
		if at(v, i) == '"' {
			if end, escaped, f := scanString(v, i+1); f == ok && !escaped {
				setView(&r.cols[o.col].Views[row], v, i+1, end, r.base)
				return end + 1
			}
		}
	case opTime:
		if at(v, i) == '"' {
			if n, end := r.minute.readMillis(v, i+1, r.mode); end >= 0 {
				r.cols[o.col].Ints[row] = n
				return end
			}
		}
	}
	end := i
	for _, l := range o.leaves {
		var f fault
		if end, f = r.columns.read(l, v, i, row); f != ok {
			return -1
		}
	}
	return end
}

// undo forgets what a layout that did not fit has left behind.
func (r *reader) undo(arena, row int) {
	r.arena = r.arena[:arena]
	for _, l := range r.leaves {
		if valid := r.cols[l.id].Valid; valid != nil {
			valid.Set(row)
		}
	}
}
