package expr

import (
	"fmt"
	"math"

	"github.com/weirstream/weir/dataplane/batch"
)

// Program is a compiled expression. It keeps memory between batches and belongs to one goroutine.
type Program struct {
	root  exec
	typed *Typed
	m     machine
}

// Compile makes a program of t. place names the position of an offset in the expression for error messages
// ("steps.hot.where, column 7"); with nil it is the bare offset. It is called only when a row fails.
func Compile(t *Typed, place func(offset int) string) (*Program, error) {
	if place == nil {
		place = func(offset int) string { return fmt.Sprintf("offset %d", offset) }
	}
	root, err := compile(t)
	if err != nil {
		return nil, err
	}
	p := &Program{root: root, typed: t}
	p.m.place, p.m.keep = place, t.typ.IsView()
	return p, nil
}

// Type is the type of the values.
func (p *Program) Type() batch.Type { return p.typed.typ }

// Nullable says whether a value can be null.
func (p *Program) Nullable() bool { return p.typed.nullable }

// Typed is the expression that the program was compiled from.
func (p *Program) Typed() *Typed { return p.typed }

// Eval computes the rows sel of b (nil: all physical rows) and returns a column of b.Rows rows that belongs
// to the caller: it is never written again, and may share memory with b. Rows that are not in sel are
// unspecified. An error of a row is a *batch.RowError.
func (p *Program) Eval(b *batch.Batch, sel []int32) (batch.Column, error) {
	col, err := p.Borrow(b, sel)
	if err != nil {
		return batch.Column{}, err
	}
	out := *col
	p.root.detach()
	return out, nil
}

// Borrow is Eval for a result that is read at once: the column is valid until the next call of a method of
// p and costs no new memory.
func (p *Program) Borrow(b *batch.Batch, sel []int32) (*batch.Column, error) {
	p.m.begin(b)
	if sel == nil {
		sel = p.m.every()
	}
	return p.root.eval(&p.m, sel)
}

// Predicate is a program whose value is a condition. It implements batch.Predicate.
type Predicate struct{ p *Program }

var _ batch.Predicate = (*Predicate)(nil)

// NewPredicate returns the predicate of a boolean program, which it takes over.
func NewPredicate(p *Program) (*Predicate, error) {
	if p.Type().Kind != batch.Bool {
		return nil, fmt.Errorf("new predicate: the expression is %s, not boolean", typeName(p.Type()))
	}
	return &Predicate{p}, nil
}

// Typed is the condition.
func (q *Predicate) Typed() *Typed { return q.p.typed }

// Select implements batch.Predicate. The result is never nil, so that "none" is not taken for "all".
func (q *Predicate) Select(b *batch.Batch, sel, dst []int32) ([]int32, error) {
	m := &q.p.m
	m.begin(b)
	if sel == nil {
		sel = m.every()
	}
	if dst == nil {
		dst = make([]int32, 0, max(1, len(sel)))
	}
	return pick(m, q.p.root, sel, true, dst)
}

func compile(t *Typed) (exec, error) {
	args := make([]exec, len(t.args))
	for i, a := range t.args {
		x, err := compile(a)
		if err != nil {
			return nil, err
		}
		args[i] = x
	}
	switch t.op {
	case opConst:
		return &constExec{value: t.value}, nil
	case opColumn:
		return &columnExec{index: t.index, typ: t.typ}, nil
	case opTime:
		return &timeExec{col: batch.Column{Type: t.typ}}, nil
	case opAnd, opOr:
		return &logicExec{decider: t.op == opOr, x: args[0], y: args[1], nullable: t.nullable}, nil
	case opNot:
		return &notExec{x: args[0], nullable: t.nullable}, nil
	case opIsNull:
		return &isNullExec{x: args[0]}, nil
	case opIsTrue, opIsFalse:
		return &isExec{x: args[0], what: t.op == opIsTrue}, nil
	case opCompare:
		return compileCompare(t, args), nil
	case opIn:
		return compileSet(t, args[0]), nil
	case opCase:
		e := &caseExec{blend: blender{out: batch.Column{Type: t.typ}}}
		for i := 0; i+1 < len(args); i += 2 {
			e.conds, e.values = append(e.conds, args[i]), append(e.values, args[i+1])
		}
		e.values = append(e.values, args[len(args)-1])
		return e, nil
	case opCoalesce:
		return &coalesceExec{args: args, blend: blender{out: batch.Column{Type: t.typ}}}, nil
	case opCall:
		e := &callExec{fn: t.fn, args: args, at: t.at, out: batch.Column{Type: t.typ}}
		e.f.in, e.f.base = make([]*batch.Column, len(args)), make([]int32, len(args))
		return e, nil
	}
	return nil, fmt.Errorf("compile: unknown operation %d", t.op)
}

// compileCompare takes the fast path of a comparison with a constant where there is one.
func compileCompare(t *Typed, args []exec) exec {
	general := &compareExec{x: args[0], y: args[1], cmp: t.cmp, nullable: t.nullable}
	x, c, cmp, v := args[0], t.args[1], t.cmp, t.args[0]
	if v.op == opConst {
		x, c, v = args[1], t.args[0], t.args[1]
		cmp.swap = !cmp.swap && !cmp.equal
	}
	if c.op != opConst || c.value.Null || v.op == opConst {
		return general
	}
	switch {
	case v.typ.IsInt64():
		if low, high, negate, ok := rangeOf(cmp, c.value.Int); ok {
			return &rangeExec{x: x, low: low, high: high, negate: negate, nullable: t.nullable}
		}
	case v.typ.IsView() && cmp.equal:
		return &textExec{x: x, value: newTextConstant(c.value.Text), negate: cmp.negate, nullable: t.nullable}
	}
	return general
}

func compileSet(t *Typed, x exec) exec {
	e := &setExec{x: x, nullable: t.nullable}
	few := len(t.set) <= shortSet
	if t.args[0].typ.IsView() {
		e.texts = make(map[string]struct{}, len(t.set))
		for _, c := range t.set {
			e.texts[c.Text] = struct{}{}
			if few {
				e.fewTexts = append(e.fewTexts, newTextConstant(c.Text))
			}
		}
		return e
	}
	e.ints = make(map[int64]struct{}, len(t.set))
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, c := range t.set {
		e.ints[c.Int] = struct{}{}
		low, high = min(low, c.Int), max(high, c.Int)
		if few {
			e.fewInts = append(e.fewInts, c.Int)
		}
	}
	if uint64(high)-uint64(low)+1 == uint64(len(e.ints)) {
		// Neighbours: a range.
		return &rangeExec{x: x, low: low, high: high, nullable: t.nullable}
	}
	return e
}
