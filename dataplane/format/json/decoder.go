package json

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// Options are the settings of the format.
type Options struct {
	// Timestamps is how timestamps are read and written.
	Timestamps Timestamps
}

// maxBranches is the number of branches that one decoder serves: a record's takers are a 64-bit set.
const maxBranches = 64

// Decoder decodes records that are JSON objects. It implements format.Decoder and is owned by one goroutine.
//
// A record is read at most twice. First the columns that all predicates need are read of every record,
// together with everything that branches without a predicate ask for. Then the predicates are evaluated, and
// the remaining columns are read of the records that some branch takes, each only once. Where most records are
// taken by the same branches, everything that these need is read at once (see guess).
type Decoder struct {
	columns
	leaves   []*leaf
	branches []branch
	first    *reader
	// second has a reader for each set of branches that has taken a record so far; nil if nothing is left to read.
	second map[uint64]*reader
	takers []uint64 // per row, the branches with a predicate that take it
	bad    rowSet
	guess  guess
}

// branch is a consumer.
type branch struct {
	format.Branch
	leaves []*leaf // by column
	rest   []*leaf // leaves that the first pass does not read
	sel    []int32 // rows that the predicate takes; nil: all
}

// NewDecoder returns a decoder for the given branches. It refuses a column without a path or type, a path that
// is asked for both as a value and as a struct, and more than 64 branches.
func NewDecoder(opts Options, branches []format.Branch) (*Decoder, error) {
	if len(branches) > maxBranches {
		return nil, fmt.Errorf("json: %d branches, at most %d", len(branches), maxBranches)
	}
	d := &Decoder{branches: make([]branch, len(branches)), second: map[uint64]*reader{}}
	d.mode = opts.Timestamps
	for i := range branches {
		b := &d.branches[i]
		b.Branch = branches[i]
		for k := range b.Columns {
			l, err := d.leaf(&b.Columns[k])
			if err != nil {
				return nil, err
			}
			b.leaves = append(b.leaves, l)
		}
	}
	var first []*leaf
	toEnd := len(branches) == 0
	for i := range d.branches {
		b := &d.branches[i]
		if b.Where == nil {
			toEnd = true
			first = union(first, b.leaves)
			continue
		}
		for _, c := range b.WhereColumns {
			first = union(first, b.leaves[c:c+1])
		}
	}
	for i := range d.branches {
		b := &d.branches[i]
		for _, l := range b.leaves {
			if !slices.Contains(first, l) {
				b.rest = union(b.rest, []*leaf{l})
			}
		}
	}
	d.first = newReader(&d.columns, first, toEnd)
	return d, nil
}

// leaf returns the leaf of c, a new one if no column before was alike.
func (d *Decoder) leaf(c *format.Column) (*leaf, error) {
	for _, l := range d.leaves {
		if l.same(c) {
			return l, nil
		}
	}
	if err := checkPath(d.leaves, c); err != nil {
		return nil, err
	}
	if c.Type.Kind == batch.Invalid || c.Type.Kind > batch.Bytes {
		return nil, fmt.Errorf("json: column %q has no type", c.Name)
	}
	l := &leaf{id: len(d.leaves), path: slices.Clone(c.Path), typ: c.Type, optional: c.Optional, optionalAt: c.OptionalAt}
	d.leaves = append(d.leaves, l)
	return l, nil
}

// union adds the leaves of b that a does not have.
func union(a, b []*leaf) []*leaf {
	for _, l := range b {
		if !slices.Contains(a, l) {
			a = append(a, l)
		}
	}
	return a
}

// Decode implements format.Decoder. A record that is bad for one of the branches that take it is left out of
// all of them.
func (d *Decoder) Decode(rs *format.Records, from, to int, bad []format.Bad) ([]*batch.Batch, []format.Bad, error) {
	if from < 0 || to < from || to > rs.Len() {
		return nil, bad, fmt.Errorf("json: decode records [%d, %d) of %d", from, to, rs.Len())
	}
	d.start(to - from)
	reported := len(bad)
	bad = d.readAll(rs, from, bad)
	d.setBuffers(rs)
	bad, err := d.filter(from, bad)
	if err != nil {
		return nil, bad, err
	}
	bad = d.readRest(rs, from, bad)
	out := d.finish(rs)
	d.cols, d.arena = nil, nil
	slices.SortFunc(bad[reported:], func(a, b format.Bad) int { return a.Record - b.Record })
	return out, bad, nil
}

// start makes room for the columns of n rows. Columns are handed on, so that each call needs new ones.
func (d *Decoder) start(n int) {
	d.rows = n
	d.cols = make([]batch.Column, len(d.leaves))
	for i, l := range d.leaves {
		d.cols[i] = batch.NewColumn(l.typ, n)
	}
	d.bad.reset(n)
	d.guess.whole.reset(n)
}

// readAll is the first pass.
func (d *Decoder) readAll(rs *format.Records, from int, bad []format.Bad) []format.Bad {
	for row := range d.rows {
		if d.guess.reader != nil && d.guess.read(d, rs.Values[from+row], rs.Buf, row) {
			continue
		}
		if err := d.readOne(d.first, rs, from+row, row); err != nil {
			d.bad.add(row)
			bad = append(bad, format.Bad{Record: from + row, Err: err})
		}
	}
	return bad
}

func (d *Decoder) readOne(r *reader, rs *format.Records, record, row int) error {
	s := rs.Values[record]
	if s.Len < 0 {
		return ErrNullValue
	}
	d.base = int(s.Off)
	return r.read(rs.Buf[s.Off:s.Off+s.Len:s.Off+s.Len], row)
}

// filter evaluates the predicates.
func (d *Decoder) filter(from int, bad []format.Bad) ([]format.Bad, error) {
	d.takers = slices.Grow(d.takers[:0], d.rows)[:d.rows]
	clear(d.takers)
	for i := range d.branches {
		b := &d.branches[i]
		if b.Where == nil {
			continue
		}
		b.sel = make([]int32, 0, d.rows)
		w := &batch.Batch{Schema: b.Schema, Rows: d.rows, Cols: d.columnsOf(b), Watermark: batch.NoWatermark}
		var err error
		if bad, err = d.selectRows(b, w, d.bad.others(d.rows), from, bad); err != nil {
			return bad, err
		}
		for _, row := range b.sel {
			d.takers[row] |= 1 << i
		}
	}
	return bad, nil
}

// selectRows appends to b.sel the rows of sel that b takes. A row that cannot be evaluated is set aside as bad
// and the rest is evaluated again in halves, so that many such rows cost n·log n and not n².
func (d *Decoder) selectRows(b *branch, w *batch.Batch, sel []int32, from int, bad []format.Bad) ([]format.Bad, error) {
	if sel != nil && len(sel) == 0 {
		return bad, nil
	}
	taken := len(b.sel)
	var err error
	if b.sel, err = b.Where.Select(w, sel, b.sel); err == nil {
		return bad, nil
	}
	b.sel = b.sel[:taken]
	var rowErr *batch.RowError
	if !errors.As(err, &rowErr) || rowErr.Row < 0 || rowErr.Row >= d.rows || d.bad.has(rowErr.Row) {
		return bad, fmt.Errorf("json: evaluate predicate: %w", err)
	}
	d.bad.add(rowErr.Row)
	bad = append(bad, format.Bad{Record: from + rowErr.Row, Err: err})
	if sel == nil {
		sel = d.bad.others(d.rows)
	} else {
		sel = slices.DeleteFunc(slices.Clone(sel), func(r int32) bool { return int(r) == rowErr.Row })
	}
	half := len(sel) / 2
	if bad, err = d.selectRows(b, w, sel[:half:half], from, bad); err != nil {
		return bad, err
	}
	return d.selectRows(b, w, sel[half:], from, bad)
}

// readRest is the second pass, over the records that some predicate takes.
func (d *Decoder) readRest(rs *format.Records, from int, bad []format.Bad) []format.Bad {
	var set uint64
	var r *reader
	for row, takers := range d.takers {
		d.guess.vote(takers)
		if takers == 0 || d.bad.has(row) || d.guess.right(takers, row) {
			continue
		}
		if takers != set {
			set, r = takers, d.readerFor(takers)
		}
		if r == nil {
			continue
		}
		if err := d.readOne(r, rs, from+row, row); err != nil {
			d.bad.add(row)
			bad = append(bad, format.Bad{Record: from + row, Err: err})
		}
	}
	d.guess.next(d)
	return bad
}

// readerFor returns the reader of what a set of branches needs; nil if the first pass has read that. It reads the
// columns of the first pass again, so that a second occurrence of their names is noticed.
func (d *Decoder) readerFor(set uint64) *reader {
	r, known := d.second[set]
	if known {
		return r
	}
	leaves := slices.Clone(d.first.leaves)
	for i := range d.branches {
		if set>>i&1 != 0 {
			leaves = union(leaves, d.branches[i].rest)
		}
	}
	if len(leaves) > len(d.first.leaves) || !d.first.toEnd {
		r = newReader(&d.columns, leaves, true)
	}
	d.second[set] = r
	return r
}

// finish builds the batches.
func (d *Decoder) finish(rs *format.Records) []*batch.Batch {
	d.setBuffers(rs)
	out := make([]*batch.Batch, len(d.branches))
	for i := range d.branches {
		b := &d.branches[i]
		sel := d.bad.others(d.rows)
		if b.Where != nil {
			if sel = d.bad.remove(b.sel); len(sel) == d.rows {
				sel = nil
			}
			b.sel = nil
		}
		out[i] = &batch.Batch{Schema: b.Schema, Rows: d.rows, Cols: d.columnsOf(b), Sel: sel, Watermark: batch.NoWatermark}
	}
	return out
}

// setBuffers tells the string columns what their views point into so far.
func (d *Decoder) setBuffers(rs *format.Records) {
	bufs := [][]byte{rs.Buf, d.arena}
	for i := range d.cols {
		if d.cols[i].Type.IsView() {
			d.cols[i].Bufs = bufs
		}
	}
}

// columnsOf returns the columns of b as they are now.
func (d *Decoder) columnsOf(b *branch) []batch.Column {
	cols := make([]batch.Column, len(b.leaves))
	for i, l := range b.leaves {
		cols[i] = d.cols[l.id]
	}
	return cols
}
