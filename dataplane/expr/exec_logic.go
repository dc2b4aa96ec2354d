package expr

import (
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
)

// truth makes a boolean column of a condition that only picks.
type truth struct {
	out   batch.Column
	valid batch.Bitmap
}

func (t *truth) detach() { t.out, t.valid = batch.Column{Type: boolType}, nil }

// column evaluates p for rows. A row that is neither true nor false is null.
func (t *truth) column(m *machine, p picker, nullable bool, rows []int32) (*batch.Column, error) {
	t.out.Type = boolType
	t.out.Grow(m.n)
	clear(t.out.Bools)
	t.out.Valid = nil
	sel, err := p.pick(m, rows, true, m.borrow())
	defer func() { m.giveBack(sel) }()
	if err != nil {
		return nil, err
	}
	set(t.out.Bools, sel)
	if !nullable {
		return &t.out, nil
	}
	t.valid = append(t.valid[:0], t.out.Bools...)
	if sel, err = p.pick(m, rows, false, sel[:0]); err != nil {
		return nil, err
	}
	set(t.valid, sel)
	t.out.Valid = t.valid
	return &t.out, nil
}

func set(b batch.Bitmap, rows []int32) {
	for _, r := range rows {
		b.Set(int(r))
	}
}

// logicExec is AND or OR. Seen from the value that decides it (false for AND, true for OR) both are the
// same: decided rows are those of the left side and, among the others, those of the right.
type logicExec struct {
	truth
	decider  bool
	x, y     exec
	nullable bool
}

func (e *logicExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, e.nullable, rows)
}

func (e *logicExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	left, err := pick(m, e.x, rows, want, m.borrow())
	defer func() { m.giveBack(left) }()
	if err != nil {
		return dst, err
	}
	if want != e.decider {
		// Both sides must be so.
		return pick(m, e.y, left, want, dst)
	}
	if len(left) == len(rows) {
		return append(dst, rows...), nil
	}
	rest := without(rows, left, m.borrow())
	defer m.giveBack(rest)
	right, err := pick(m, e.y, rest, want, m.borrow())
	defer func() { m.giveBack(right) }()
	if err != nil {
		return dst, err
	}
	return merge(left, right, dst), nil
}

// without appends to dst those of rows that are not in sub, a sub-sequence.
func without(rows, sub, dst []int32) []int32 {
	k := 0
	for _, r := range rows {
		if k < len(sub) && sub[k] == r {
			k++
			continue
		}
		dst = append(dst, r)
	}
	return dst
}

// merge appends to dst the union of two ascending disjoint selections.
func merge(a, b, dst []int32) []int32 {
	if len(a) == 0 || len(b) == 0 {
		return append(append(dst, a...), b...)
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] < b[j] {
			dst = append(dst, a[i])
			i++
		} else {
			dst = append(dst, b[j])
			j++
		}
	}
	return append(append(dst, a[i:]...), b[j:]...)
}

// notExec is NOT: null stays null.
type notExec struct {
	truth
	x        exec
	nullable bool
}

func (e *notExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, e.nullable, rows)
}

func (e *notExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	return pick(m, e.x, rows, !want, dst)
}

// isNullExec is IS NULL.
type isNullExec struct {
	truth
	x exec
}

func (e *isNullExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, false, rows)
}

func (e *isNullExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	col, err := e.x.eval(m, rows)
	if err != nil {
		return dst, err
	}
	if col.Valid == nil {
		if want {
			return dst, nil
		}
		return append(dst, rows...), nil
	}
	for _, r := range rows {
		if col.Valid.Get(int(r)) != want {
			dst = append(dst, r)
		}
	}
	return dst, nil
}

// isExec is IS TRUE or IS FALSE: never null.
type isExec struct {
	truth
	x    exec
	what bool
}

func (e *isExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, false, rows)
}

func (e *isExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	if want {
		return pick(m, e.x, rows, e.what, dst)
	}
	is, err := pick(m, e.x, rows, e.what, m.borrow())
	defer func() { m.giveBack(is) }()
	if err != nil {
		return dst, err
	}
	return without(rows, is, dst), nil
}

// caseExec is CASE: each branch is evaluated for the rows that no earlier condition took.
type caseExec struct {
	conds, values []exec // one value more than conditions: ELSE
	blend         blender
}

func (e *caseExec) detach() { e.blend.detach() }

func (e *caseExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	e.blend.begin(m)
	rest, spare := append(m.borrow(), rows...), m.borrow()
	taken := m.borrow()
	defer func() { m.giveBack(rest); m.giveBack(spare); m.giveBack(taken) }()
	for i, value := range e.values {
		if len(rest) == 0 {
			break
		}
		if i == len(e.conds) {
			return e.blend.column(), e.blend.take(m, value, rest)
		}
		var err error
		if taken, err = pick(m, e.conds[i], rest, true, taken[:0]); err != nil {
			return nil, err
		}
		if err = e.blend.take(m, value, taken); err != nil {
			return nil, err
		}
		spare = without(rest, taken, spare[:0])
		rest, spare = spare, rest
	}
	return e.blend.column(), nil
}

// coalesceExec is the first argument that is not null.
type coalesceExec struct {
	args  []exec
	blend blender
}

func (e *coalesceExec) detach() { e.blend.detach() }

func (e *coalesceExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	e.blend.begin(m)
	rest := append(m.borrow(), rows...)
	defer func() { m.giveBack(rest) }()
	for _, arg := range e.args {
		if len(rest) == 0 {
			break
		}
		if err := e.blend.take(m, arg, rest); err != nil {
			return nil, err
		}
		valid := e.blend.out.Valid
		if valid == nil {
			break
		}
		rest = slices.DeleteFunc(rest, func(r int32) bool { return valid.Get(int(r)) })
	}
	return e.blend.column(), nil
}

// blender puts a column together from rows of others.
type blender struct {
	out   batch.Column
	valid batch.Bitmap
}

func (b *blender) detach() { b.out, b.valid = batch.Column{Type: b.out.Type}, nil }

func (b *blender) begin(m *machine) {
	b.out.Grow(m.n)
	b.out.Valid, b.out.Bufs = nil, nil
}

func (b *blender) column() *batch.Column { return &b.out }

// take evaluates e for rows and stores its values there. Text is shared, not copied.
func (b *blender) take(m *machine, e exec, rows []int32) error {
	if len(rows) == 0 {
		return nil
	}
	col, err := e.eval(m, rows)
	if err != nil {
		return err
	}
	out := &b.out
	switch {
	case out.Type.Kind == batch.Bool:
		for _, r := range rows {
			out.Bools.SetTo(int(r), col.Bools.Get(int(r)))
		}
	case out.Type.IsInt64():
		blend(out.Ints, col.Ints, rows)
	case out.Type.Kind == batch.Float64:
		blend(out.Floats, col.Floats, rows)
	case out.Type.Kind == batch.Decimal:
		blend(out.Decs, col.Decs, rows)
	case out.Type.IsView():
		base := int32(len(out.Bufs))
		out.Bufs = append(out.Bufs, col.Bufs...)
		for _, r := range rows {
			v := col.Views[r]
			if v.Len > inlineLen {
				v.Buf += base
			}
			out.Views[r] = v
		}
	}
	b.blendValid(m, col, rows)
	return nil
}

func (b *blender) blendValid(m *machine, col *batch.Column, rows []int32) {
	if col.Valid == nil && b.out.Valid == nil {
		return
	}
	if b.out.Valid == nil {
		b.valid = slices.Grow(b.valid[:0], (m.n+63)/64)[:(m.n+63)/64]
		fill(b.valid, ^uint64(0))
		b.out.Valid = b.valid
	}
	for _, r := range rows {
		b.out.Valid.SetTo(int(r), !col.Null(int(r)))
	}
}

func blend[T any](dst, src []T, rows []int32) {
	for _, r := range rows {
		dst[r] = src[r]
	}
}
