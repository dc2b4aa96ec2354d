package expr

import (
	"errors"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

// Bind gives every node of n its type in scope and folds constants. Its errors are *Error.
func Bind(n Node, scope Scope) (*Typed, error) {
	b := &binder{scope: scope}
	t, err := b.bind(n)
	if err != nil {
		return nil, err
	}
	if t.isNullLiteral() {
		return nil, errAt(n.Offset(), "null has no type here").hint("write cast(null as …)")
	}
	if t.typ.Kind == kindInterval {
		return nil, errAt(n.Offset(), "an interval is no value of a column").hint("add it to a timestamp")
	}
	return limited(t)
}

// BindCondition is Bind for a condition: the expression must be boolean.
func BindCondition(n Node, scope Scope) (*Typed, error) {
	b := &binder{scope: scope}
	t, err := b.bind(n)
	if err != nil {
		return nil, err
	}
	if t, err = b.condition(n, t); err != nil {
		return nil, err
	}
	return limited(t)
}

// maxNodes bounds the nodes that an expression evaluates. BETWEEN, IN and CASE x evaluate their first operand
// more than once, so nesting them in it grows the work exponentially.
const maxNodes = 20_000

func limited(t *Typed) (*Typed, error) {
	sizes := map[*Typed]int{}
	var size func(t *Typed) int
	size = func(t *Typed) int {
		n, ok := sizes[t]
		if !ok {
			n = 1
			for _, a := range t.args {
				n = min(n+size(a), maxNodes+1)
			}
			sizes[t] = n
		}
		return n
	}
	if size(t) > maxNodes {
		return nil, errAt(t.at, "the expression is too large").hint("compute parts of it in an earlier step")
	}
	return t, nil
}

type binder struct{ scope Scope }

func (b *binder) bind(n Node) (*Typed, error) {
	switch n := n.(type) {
	case *Literal:
		return constant(n.Offset(), n.Value), nil
	case *Column:
		return b.column(n)
	case *Unary:
		return b.unary(n)
	case *Binary:
		return b.binary(n)
	case *Is:
		return b.is(n)
	case *Case:
		return b.caseOf(n)
	case *Cast:
		return b.castNode(n)
	case *In:
		return b.in(n)
	case *Between:
		return b.between(n)
	case *Like:
		return b.like(n)
	case *Call:
		return b.call(n)
	}
	return nil, errAt(n.Offset(), "%s cannot be bound", n)
}

func (b *binder) bindAll(nodes []Node) ([]*Typed, error) {
	out := make([]*Typed, len(nodes))
	for i, n := range nodes {
		t, err := b.bind(n)
		if err != nil {
			return nil, err
		}
		out[i] = t
	}
	return out, nil
}

func (b *binder) column(n *Column) (*Typed, error) {
	ref, err := b.scope.Lookup(n.Path)
	switch {
	case err == nil:
		return &Typed{typ: ref.Type, nullable: ref.Nullable, at: n.Offset(), op: opColumn, index: ref.Index}, nil
	case !errors.Is(err, ErrNoColumn):
		return nil, errAt(n.Offset(), "%v", err)
	}
	return nil, unknownColumn(n, b.scope.Names())
}

func unknownColumn(n *Column, names []string) error {
	path := strings.Join(n.Path, ".")
	e := errAt(n.Offset(), "no column %q", path)
	for _, name := range names {
		if strings.HasPrefix(name, path+".") {
			return errAt(n.Offset(), "%q is a struct", path).hint("name one of its fields, such as %s", name)
		}
	}
	if n.Quoted && len(n.Path) == 1 {
		return e.hint("text is written '%s'", strings.ReplaceAll(path, "'", "''"))
	}
	if s := suggest(path, names); s != "" {
		return e.hint("did you mean %s?", s)
	}
	switch {
	case len(names) == 0:
		return e.hint("there are no columns here")
	case len(names) <= 12:
		return e.hint("there are %s", strings.Join(names, ", "))
	}
	return e
}

// condition checks that t is boolean; a null literal is an unknown.
func (b *binder) condition(n Node, t *Typed) (*Typed, error) {
	if t.isNullLiteral() {
		return constant(t.at, Const{Type: boolType, Null: true}), nil
	}
	if t.typ.Kind != batch.Bool {
		return nil, errAt(n.Offset(), "a condition is needed, %s is %s", n, typeName(t.typ))
	}
	return t, nil
}

func (b *binder) bindCondition(n Node) (*Typed, error) {
	t, err := b.bind(n)
	if err != nil {
		return nil, err
	}
	return b.condition(n, t)
}

func (b *binder) unary(n *Unary) (*Typed, error) {
	if n.Op == "not" {
		x, err := b.bindCondition(n.X)
		if err != nil {
			return nil, err
		}
		return fold(negate(x, n.Offset())), nil
	}
	x, err := b.bind(n.X)
	if err != nil {
		return nil, err
	}
	switch {
	case x.isNullLiteral():
		return x, nil
	case x.op == opConst && x.typ.Kind == kindInterval:
		return constant(n.Offset(), Const{Type: intervalType, Int: -x.value.Int}), nil
	case !numeric(x.typ):
		return nil, errAt(n.Offset(), "- needs a number, %s is %s", n.X, typeName(x.typ))
	}
	return fold(&Typed{typ: x.typ, nullable: x.nullable, at: n.Offset(), op: opCall, args: []*Typed{x}, fn: negateKernel(x.typ)}), nil
}

func negate(x *Typed, at int) *Typed {
	return &Typed{typ: boolType, nullable: x.nullable, at: at, op: opNot, args: []*Typed{x}}
}

func (b *binder) binary(n *Binary) (*Typed, error) {
	if n.Op == "and" || n.Op == "or" {
		x, err := b.bindCondition(n.X)
		if err != nil {
			return nil, err
		}
		y, err := b.bindCondition(n.Y)
		if err != nil {
			return nil, err
		}
		o := opAnd
		if n.Op == "or" {
			o = opOr
		}
		return logical(o, n.Offset(), x, y), nil
	}
	args, err := b.bindAll([]Node{n.X, n.Y})
	if err != nil {
		return nil, err
	}
	switch n.Op {
	case "+", "-", "*", "/", "%":
		return b.arithmetic(n, n.Op, args[0], args[1])
	case "||":
		return b.concat(n, args)
	}
	return b.compare(n, n.Op, args[0], args[1])
}

// logical is AND or OR of two conditions; a constant side that decides or does not matter is dropped.
func logical(o op, at int, x, y *Typed) *Typed {
	absorbing := o == opOr
	if x.op == opConst && !x.value.Null {
		if x.value.Bool == absorbing {
			return x
		}
		return y
	}
	if y.op == opConst && !y.value.Null && y.value.Bool != absorbing {
		return x
	}
	return fold(&Typed{typ: boolType, nullable: x.nullable || y.nullable, at: at, op: o, args: []*Typed{x, y}})
}

// compare binds a comparison: =, <>, <, <=, >, >=.
func (b *binder) compare(n Node, op string, x, y *Typed) (*Typed, error) {
	t, ok := commonType([]*Typed{x, y})
	if !ok || t.Kind == kindInterval {
		return nil, incomparable(n, x, y)
	}
	if t.Kind == batch.Invalid {
		return constant(n.Offset(), Const{Type: boolType, Null: true}), nil
	}
	if t.Kind == batch.Decimal {
		// Decimals are compared exactly at their own scales: the common type could lose digits.
		x, y = operandFor(x, t), operandFor(y, t)
	} else {
		x, y = implicit(x, t), implicit(y, t)
	}
	return fold(&Typed{typ: boolType, nullable: x.nullable || y.nullable, at: n.Offset(), op: opCompare,
		args: []*Typed{x, y}, cmp: comparisonOf(op)}), nil
}

func incomparable(n Node, x, y *Typed) error {
	e := errAt(n.Offset(), "%s and %s do not compare", typeName(x.typ), typeName(y.typ))
	for _, p := range [][2]*Typed{{x, y}, {y, x}} {
		if p[0].op == opConst && p[0].typ.Kind == batch.String {
			switch p[1].typ.Kind {
			case batch.Timestamp:
				return e.hint("write timestamp '%s'", p[0].value.Text)
			case batch.Date:
				return e.hint("write date '%s'", p[0].value.Text)
			case batch.Int64, batch.Float64, batch.Decimal:
				return e.hint("a number is written without quotes")
			}
		}
	}
	return e.hint("cast one of them")
}

func (b *binder) is(n *Is) (*Typed, error) {
	x, err := b.bind(n.X)
	if err != nil {
		return nil, err
	}
	t := &Typed{typ: boolType, at: n.Offset(), op: opIsNull, args: []*Typed{x}}
	if n.What == "null" {
		if !x.nullable {
			return constant(n.Offset(), boolConst(n.Not)), nil
		}
	} else {
		t.op = opIsTrue
		if n.What == "false" {
			t.op = opIsFalse
		}
		if t.args[0], err = b.condition(n.X, x); err != nil {
			return nil, err
		}
	}
	if n.Not {
		t = negate(t, n.Offset())
	}
	return fold(t), nil
}

func (b *binder) between(n *Between) (*Typed, error) {
	args, err := b.bindAll([]Node{n.X, n.Low, n.High})
	if err != nil {
		return nil, err
	}
	low, err := b.compare(n, ">=", args[0], args[1])
	if err != nil {
		return nil, err
	}
	high, err := b.compare(n, "<=", args[0], args[2])
	if err != nil {
		return nil, err
	}
	t := logical(opAnd, n.Offset(), low, high)
	if n.Not {
		t = fold(negate(t, n.Offset()))
	}
	return t, nil
}

func (b *binder) in(n *In) (*Typed, error) {
	x, err := b.bind(n.X)
	if err != nil {
		return nil, err
	}
	items, err := b.bindAll(n.List)
	if err != nil {
		return nil, err
	}
	var t *Typed
	if set, ok := constants(x, items); ok {
		t = fold(&Typed{typ: boolType, nullable: x.nullable, at: n.Offset(), op: opIn, args: []*Typed{x}, set: set})
	} else {
		for i, item := range items {
			eq, err := b.compare(n.List[i], "=", x, item)
			if err != nil {
				return nil, err
			}
			if t == nil {
				t = eq
			} else {
				t = logical(opOr, n.Offset(), t, eq)
			}
		}
	}
	if n.Not {
		t = fold(negate(t, n.Offset()))
	}
	return t, nil
}

// constants returns the items if they are non-null constants of x's own type and x is an integer, a time or
// text: what a set can hold.
func constants(x *Typed, items []*Typed) ([]Const, bool) {
	if !x.typ.IsInt64() && !x.typ.IsView() {
		return nil, false
	}
	set := make([]Const, len(items))
	for i, item := range items {
		if item.op != opConst || item.value.Null || item.typ.Kind != x.typ.Kind {
			return nil, false
		}
		set[i] = item.value
	}
	return set, true
}
