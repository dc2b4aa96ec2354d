package json

// reader reads one set of leaves from records.
type reader struct {
	*columns
	leaves []*leaf
	root   *node
	values int // value nodes of the tree
	// toEnd says that records are walked to their end; else reading stops when all leaves are read.
	toEnd   bool
	layouts layouts
	p       parse
}

// parse is the state of the full parser within one record.
type parse struct {
	v       []byte
	row     int
	record  uint64 // number of the record, for node.seen
	left    int    // value nodes not met yet
	done    bool   // reading stops here
	missing []int  // columns of leaves that are not there
	// What went wrong, if a method returned −1.
	fault fault
	pos   int
	leaf  *leaf
	path  []string

	learn   bool
	general bool   // learn null values of unknown members as "any value"
	lit     int    // start of the current literal
	ops     []op   // the layout so far
	key     []byte // scratch for names with escapes
}

func newReader(d *columns, leaves []*leaf, toEnd bool) *reader {
	r := &reader{columns: d, leaves: leaves, toEnd: toEnd}
	r.root, r.values = buildTree(leaves)
	r.layouts.mode = d.mode
	return r
}

// read reads the record's value v into row. The record's columns are unspecified after an error.
func (r *reader) read(v []byte, row int) error {
	if r.layouts.read(r, v, row) {
		return nil
	}
	return r.parse(v, row)
}

// parse reads a record by the grammar and, if that is useful, learns its layout.
func (r *reader) parse(v []byte, row int) error {
	p := &r.p
	p.v, p.row, p.left, p.done, p.missing = v, row, r.values, r.values == 0 && !r.toEnd, p.missing[:0]
	p.fault, p.leaf, p.path = ok, nil, nil
	p.record++
	p.learn, p.general = r.layouts.wants()
	p.learn = p.learn && !r.plain
	p.lit, p.ops = 0, p.ops[:0]
	arena := len(r.arena)

	end := r.document()
	if end < 0 {
		r.arena = r.arena[:arena]
		return newError(p.fault, p.pos, p.leaf, p.path)
	}
	if p.learn {
		r.layouts.add(p, end)
	}
	return nil
}

// fail records what went wrong and returns −1.
func (r *reader) fail(f fault, pos int) int {
	r.p.fault, r.p.pos = f, pos
	return -1
}

// document reads the whole record. It returns the position up to which it has read.
func (r *reader) document() int {
	p := &r.p
	i := skipSpace(p.v, 0)
	if at(p.v, i) != '{' {
		return r.fail(faultObject, i)
	}
	if p.done {
		return i
	}
	i = r.object(r.root, i, 0)
	if i < 0 || p.done {
		return i
	}
	if i = skipSpace(p.v, i); i < len(p.v) {
		return r.fail(faultEnd, i)
	}
	return i
}

// object reads the object that starts at i for the node n, whose children are element depth of their paths.
func (r *reader) object(n *node, i, depth int) int {
	p := &r.p
	n.next = 0
	i = skipSpace(p.v, i+1)
	if at(p.v, i) == '}' {
		return r.endObject(n, i+1, depth)
	}
	for {
		name, j := r.name(i)
		if j < 0 {
			return -1
		}
		i = r.member(n.child(name), j, depth)
		if i < 0 || p.done {
			return i
		}
		i = skipSpace(p.v, i)
		switch at(p.v, i) {
		case ',':
			i = skipSpace(p.v, i+1)
		case '}':
			return r.endObject(n, i+1, depth)
		default:
			return r.fail(faultSyntax, i)
		}
	}
}

// name reads a member's name and the colon. It returns the position of the member's value.
func (r *reader) name(i int) ([]byte, int) {
	p := &r.p
	if at(p.v, i) != '"' {
		return nil, r.fail(faultSyntax, i)
	}
	end, escaped, f := scanString(p.v, i+1)
	if f != ok {
		return nil, r.fail(f, i)
	}
	name := p.v[i+1 : end]
	if escaped {
		p.key = appendUnescaped(p.key[:0], name)
		name = p.key
	}
	i = skipSpace(p.v, end+1)
	if at(p.v, i) != ':' {
		return nil, r.fail(faultSyntax, i)
	}
	return name, skipSpace(p.v, i+1)
}

// member reads the value at i of the member n, which is nil if nobody asked for it.
func (r *reader) member(n *node, i, depth int) int {
	p := &r.p
	if n == nil {
		return r.skip(i)
	}
	if n.seen == p.record {
		p.path = n.path
		return r.fail(faultDuplicate, i)
	}
	n.seen = p.record
	if n.leaves != nil {
		return r.value(n, i)
	}
	switch at(p.v, i) {
	case '{':
		return r.object(n, i, depth+1)
	case 'n':
		end := skipWord(p.v, i, 4)
		if end < 0 {
			return r.fail(faultSyntax, i)
		}
		// A null struct is part of the layout's literal: it decides which columns are missing.
		if !r.absent(n, depth, faultNull, i) {
			return -1
		}
		return end
	}
	p.path = n.path
	return r.fail(faultStruct, i)
}

// value reads the leaves of n at i.
func (r *reader) value(n *node, i int) int {
	p := &r.p
	end := i
	for _, l := range n.leaves {
		var f fault
		if end, f = r.columns.read(l, p.v, i, p.row); f != ok {
			p.leaf = l
			return r.fail(f, i)
		}
	}
	r.learned(op{leaves: n.leaves}, i, end)
	r.met()
	return end
}

// met counts a value node that is read or known to be missing.
func (r *reader) met() {
	p := &r.p
	if p.left--; p.left == 0 && !r.toEnd {
		p.done = true
	}
}

// skip passes over a value that nobody asked for.
func (r *reader) skip(i int) int {
	p := &r.p
	end := skipValue(p.v, i)
	switch {
	case end < 0:
		return r.fail(faultSyntax, i)
	case !p.learn:
	case p.general:
		r.learned(op{}, i, end)
	case p.v[i] == '{':
		lit, ops := p.lit, len(p.ops)
		if r.walk(i, maxWalkDepth) != end || len(p.ops)-ops > maxWalkOps {
			p.lit, p.ops = lit, p.ops[:ops]
			r.learned(op{}, i, end)
		}
	case p.v[i] != 'n':
		r.learned(op{}, i, end)
	}
	return end
}

// A skipped object becomes part of the layout, since its literals are passed faster than its brackets are
// counted, if it is not deeper and has not more values than this.
const (
	maxWalkDepth = 4
	maxWalkOps   = 64
)

// walk learns the literals of the skipped object at i and returns the position behind it; −1 if it is not
// worth it, or not valid.
func (r *reader) walk(i, depth int) int {
	v := r.p.v
	i = skipSpace(v, i+1)
	if at(v, i) == '}' {
		return i + 1
	}
	for at(v, i) == '"' {
		if i = skipString(v, i+1); i < 0 {
			return -1
		}
		if i = skipSpace(v, i); at(v, i) != ':' {
			return -1
		}
		i = skipSpace(v, i+1)
		if at(v, i) != '{' {
			end := skipValue(v, i)
			if end < 0 {
				return -1
			}
			r.learned(op{}, i, end)
			i = end
		} else if depth == 0 {
			return -1
		} else if i = r.walk(i, depth-1); i < 0 {
			return -1
		}
		switch i = skipSpace(v, i); at(v, i) {
		case ',':
			i = skipSpace(v, i+1)
		case '}':
			return i + 1
		}
	}
	return -1
}

// learned ends the current literal at the value [i, end), which o tells how to read.
func (r *reader) learned(o op, i, end int) {
	p := &r.p
	if !p.learn {
		return
	}
	o.from, o.to = p.lit, i
	p.lit = end
	p.ops = append(p.ops, o)
}

// endObject is called behind the brace of n's object.
func (r *reader) endObject(n *node, i, depth int) int {
	for _, c := range n.children {
		if c.seen == r.p.record {
			continue
		}
		if !r.absent(c, depth, faultMissing, i-1) {
			return -1
		}
	}
	return i
}

// absent makes all leaves of n null, whose member is missing or null at element depth of their paths.
func (r *reader) absent(n *node, depth int, f fault, pos int) bool {
	for _, c := range n.children {
		if !r.absent(c, depth, f, pos) {
			return false
		}
	}
	for _, l := range n.leaves {
		if !l.absent(depth) {
			r.p.leaf = l
			r.fail(f, pos)
			return false
		}
		r.cols[l.id].SetNull(r.p.row, r.rows)
		r.p.missing = append(r.p.missing, l.id)
	}
	if n.leaves != nil {
		r.met()
	}
	return true
}
