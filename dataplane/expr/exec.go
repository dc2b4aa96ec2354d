package expr

import (
	"errors"

	"github.com/weirstream/weir/dataplane/batch"
)

// machine is what the nodes of a program share while they evaluate a batch.
type machine struct {
	b *batch.Batch
	n int // physical rows
	// all is 0…n−1.
	all []int32
	// free are selection buffers that are not in use.
	free [][]int32
	// keep says that text results leave the program, so that their memory must not be used again.
	keep  bool
	place func(offset int) string
}

func (m *machine) begin(b *batch.Batch) {
	m.b, m.n = b, b.Rows
	for len(m.all) < m.n {
		m.all = append(m.all, int32(len(m.all)))
	}
}

// every is the selection of all rows.
func (m *machine) every() []int32 { return m.all[:m.n] }

// dense reports whether rows are all rows: an ascending selection is, if it is as long.
func (m *machine) dense(rows []int32) bool { return len(rows) == m.n }

// borrow returns an empty selection with room for all rows, to be given back.
func (m *machine) borrow() []int32 {
	if k := len(m.free) - 1; k >= 0 {
		s := m.free[k]
		m.free = m.free[:k]
		if cap(s) >= m.n {
			return s[:0]
		}
	}
	return make([]int32, 0, max(m.n, 16))
}

func (m *machine) giveBack(s []int32) { m.free = append(m.free, s) }

// fail turns a kernel's failure into the error of a row.
func (m *machine) fail(err error, offset int) error {
	var f *rowFailure
	if !errors.As(err, &f) {
		return err
	}
	return &batch.RowError{Row: int(f.row), Place: m.place(offset), Err: f.err}
}

// exec is a node of a program. Selections are ascending lists of physical rows.
type exec interface {
	// eval computes the rows. The column is valid until the node's next eval; its other rows are
	// unspecified. It may be a column of the batch.
	eval(m *machine, rows []int32) (*batch.Column, error)
	// detach gives the memory of the last result away: the next eval uses new memory.
	detach()
}

// picker is a condition that can select without computing a column first.
type picker interface {
	exec
	// pick appends to dst those of rows for which the condition is want (null is neither).
	pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error)
}

// pick is picker.pick for every node.
func pick(m *machine, e exec, rows []int32, want bool, dst []int32) ([]int32, error) {
	if p, ok := e.(picker); ok {
		return p.pick(m, rows, want, dst)
	}
	col, err := e.eval(m, rows)
	if err != nil {
		return dst, err
	}
	return pickBools(col, rows, want, dst), nil
}

func pickBools(col *batch.Column, rows []int32, want bool, dst []int32) []int32 {
	if col.Valid == nil {
		for _, r := range rows {
			if col.Bools.Get(int(r)) == want {
				dst = append(dst, r)
			}
		}
		return dst
	}
	for _, r := range rows {
		if col.Bools.Get(int(r)) == want && col.Valid.Get(int(r)) {
			dst = append(dst, r)
		}
	}
	return dst
}

// columnExec is a column of the batch.
type columnExec struct {
	index int
	col   batch.Column
	typ   batch.Type
}

func (e *columnExec) eval(m *machine, _ []int32) (*batch.Column, error) {
	// The header is copied: the expression may show the column with other digits (timestamp(3)).
	e.col = m.b.Cols[e.index]
	e.col.Type = e.typ
	return &e.col, nil
}

func (e *columnExec) detach() {}

// timeExec is the event time of the rows.
type timeExec struct{ col batch.Column }

func (e *timeExec) eval(m *machine, _ []int32) (*batch.Column, error) {
	e.col.Ints = m.b.Time
	return &e.col, nil
}

func (e *timeExec) detach() {}

// constExec is a constant as a column, made once and as long as the longest batch.
type constExec struct {
	value Const
	col   batch.Column
	n     int
}

func (e *constExec) eval(m *machine, _ []int32) (*batch.Column, error) {
	if m.n > e.n || e.n == 0 {
		e.n = max(m.n, 2*e.n, 64)
		e.col = e.value.column(e.n)
	}
	return &e.col, nil
}

// A constant column is never written again.
func (e *constExec) detach() {}

// callExec runs a kernel.
type callExec struct {
	fn   *kernel
	args []exec
	at   int
	f    frame
	out  batch.Column
	// valid is the memory of out.Valid, live that of the narrowed selection, arena the free part of the
	// buffer that text results are written to.
	valid batch.Bitmap
	live  []int32
	arena []byte
}

func (e *callExec) detach() {
	e.out = batch.Column{Type: e.out.Type}
	e.valid = nil
}

func (e *callExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	for i, a := range e.args {
		col, err := a.eval(m, rows)
		if err != nil {
			return nil, err
		}
		e.f.in[i] = col
	}
	rows = e.narrow(m, rows)
	e.prepare(m)
	e.f.rows, e.f.n, e.f.dense, e.f.out = rows, m.n, m.dense(rows), &e.out
	err := e.fn.run(&e.f)
	if e.out.Type.IsView() {
		last := e.out.Bufs[len(e.out.Bufs)-1]
		e.arena = last[len(last):]
		if !m.keep {
			e.arena = last[:0]
		}
	}
	if err != nil {
		return nil, m.fail(err, e.at)
	}
	return &e.out, nil
}

// narrow sets the result's validity to the conjunction of the arguments' and leaves out the rows that are
// null already.
func (e *callExec) narrow(m *machine, rows []int32) []int32 {
	e.out.Valid = nil
	if e.fn.lenient {
		return rows
	}
	for _, col := range e.f.in {
		switch {
		case col.Valid == nil:
		case e.out.Valid == nil:
			e.valid = append(e.valid[:0], col.Valid...)
			e.out.Valid = e.valid
		default:
			for w := range min(len(e.out.Valid), len(col.Valid)) {
				e.out.Valid[w] &= col.Valid[w]
			}
		}
	}
	if e.out.Valid == nil {
		return rows
	}
	e.live = e.live[:0]
	for _, r := range rows {
		if e.out.Valid.Get(int(r)) {
			e.live = append(e.live, r)
		}
	}
	return e.live
}

// prepare makes room for m.n results.
func (e *callExec) prepare(m *machine) {
	switch {
	case e.out.Type.Kind == batch.Bool:
		e.out.Grow(m.n)
		clear(e.out.Bools)
	case e.out.Type.IsView():
		e.out.Grow(m.n)
		e.out.Bufs = nil
		if e.fn.views {
			for i, col := range e.f.in {
				e.f.base[i] = int32(len(e.out.Bufs))
				if col.Type.IsView() {
					e.out.Bufs = append(e.out.Bufs, col.Bufs...)
				}
			}
		}
		// SetBytes appends to the last buffer. What is behind its length has not been handed out.
		e.out.Bufs = append(e.out.Bufs, e.arena)
	default:
		e.out.Grow(m.n)
	}
}
