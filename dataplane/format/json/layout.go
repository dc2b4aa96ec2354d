package json

// maxLayouts bounds the layouts that a reader keeps. The first half may be specific (a null of a member that
// nobody asked for is part of the literal); the rest is general, so that records with many independent
// optional members need few.
const maxLayouts = 16

// relearnAfter is the number of records that no layout fits, with the table full, before the least useful
// layout makes room for a new one.
const relearnAfter = 256

// op is one value of a layout: compare the literal before it, then read the value into the leaves, or skip it
// if there are none. from and to are the literal's place in the record that is being learned.
type op struct {
	lit      string
	leaves   []*leaf
	from, to int
}

// layout is how records of one shape are laid out.
type layout struct {
	ops []op
	// tail follows the last value; toEnd says that nothing may follow it.
	tail    string
	toEnd   bool
	missing []int // columns that are null in every record of the layout
	hits    uint64
}

// layouts is the set of layouts of a reader, roughly the most frequent first.
type layouts struct {
	all    []*layout
	misses int  // since the table was full or the last replacement
	off    bool // tests only: leaves everything to the parser
}

// wants says whether the record at hand should be learned, and whether generally.
func (s *layouts) wants() (learn, general bool) {
	if s.off {
		return false, false
	}
	if len(s.all) < maxLayouts {
		return true, len(s.all) >= maxLayouts/2
	}
	s.misses++
	return s.misses >= relearnAfter, true
}

// add keeps the layout that the parser has found in p.v[:end].
func (s *layouts) add(p *parse, end int) {
	l := &layout{ops: make([]op, len(p.ops)), tail: string(p.v[p.lit:end]), toEnd: !p.done, missing: append([]int(nil), p.missing...)}
	for i, o := range p.ops {
		l.ops[i] = op{lit: string(p.v[o.from:o.to]), leaves: o.leaves}
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
	if len(s.all) == 0 || len(v) == 0 || v[len(v)-1] != '}' {
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

// follow reads the record by l, as far as it fits.
func (r *reader) follow(l *layout, v []byte, row int) bool {
	i := 0
	for k := range l.ops {
		o := &l.ops[k]
		if len(v)-i < len(o.lit) || string(v[i:i+len(o.lit)]) != o.lit {
			return false
		}
		i += len(o.lit)
		if o.leaves == nil {
			if i = skipValue(v, i); i < 0 {
				return false
			}
			continue
		}
		from := i
		for _, lf := range o.leaves {
			var f fault
			if i, f = r.columns.read(lf, v, from, row); f != ok {
				return false
			}
		}
	}
	if len(v)-i < len(l.tail) || string(v[i:i+len(l.tail)]) != l.tail || l.toEnd && len(v) != i+len(l.tail) {
		return false
	}
	for _, id := range l.missing {
		r.cols[id].SetNull(row, r.rows)
	}
	return true
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
