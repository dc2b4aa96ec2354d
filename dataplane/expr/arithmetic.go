package expr

import (
	"github.com/weirstream/weir/dataplane/batch"
)

// arithmetic binds + - * / % of numbers, and timestamp ± interval.
func (b *binder) arithmetic(n Node, op string, x, y *Typed) (*Typed, error) {
	if t, err := b.temporal(n, op, x, y); t != nil || err != nil {
		return t, err
	}
	for _, a := range []*Typed{x, y} {
		if !a.isNullLiteral() && !numeric(a.typ) {
			e := errAt(n.Offset(), "%s needs numbers, not %s and %s", op, typeName(x.typ), typeName(y.typ))
			if op == "+" && a.typ.Kind == batch.String {
				e = e.hint("text is joined with ||")
			}
			return nil, e
		}
	}
	common, _ := commonType([]*Typed{x, y})
	t := &Typed{at: n.Offset(), op: opCall, nullable: x.nullable || y.nullable}
	switch common.Kind {
	case batch.Invalid:
		return constant(n.Offset(), Const{Null: true}), nil
	case batch.Int64:
		t.typ, t.fn = intType, intArithmetic[op]
	case batch.Float64:
		t.typ, t.fn = floatType, floatArithmetic[op]
	default:
		x, y = operandFor(x, common), operandFor(y, common)
		t.typ = arithmeticType(op, x.typ, y.typ)
		t.fn = decimalArithmetic(op, x.typ, y.typ, t.typ)
		t.args = []*Typed{x, y}
		return fold(t), nil
	}
	t.args = []*Typed{implicit(x, common), implicit(y, common)}
	return fold(t), nil
}

// temporal binds timestamp ± interval; nil, nil if no operand is a time.
func (b *binder) temporal(n Node, op string, x, y *Typed) (*Typed, error) {
	if op == "+" && x.typ.Kind == kindInterval {
		x, y = y, x
	}
	isTime := func(t *Typed) bool { return t.typ.Kind == batch.Timestamp || t.typ.Kind == batch.Date }
	switch {
	case !isTime(x) && !isTime(y) && x.typ.Kind != kindInterval && y.typ.Kind != kindInterval:
		return nil, nil
	case isTime(x) && isTime(y):
		return nil, errAt(n.Offset(), "times are not added or subtracted").hint("write unix_ms(a) - unix_ms(b)")
	case x.typ.Kind == kindInterval && y.typ.Kind == kindInterval && (op == "+" || op == "-"):
		v := y.value.Int
		if op == "-" {
			v = -v
		}
		sum, err := addChecked(x.value.Int, v)
		if err != nil {
			return nil, errAt(n.Offset(), "the interval is too long")
		}
		return constant(n.Offset(), Const{Type: intervalType, Int: sum}), nil
	case x.typ.Kind == batch.Date && y.typ.Kind == kindInterval:
		return nil, errAt(n.Offset(), "an interval is added to timestamps").hint("write cast(… as timestamp)")
	case x.typ.Kind != batch.Timestamp || y.typ.Kind != kindInterval || op != "+" && op != "-":
		return nil, errAt(n.Offset(), "%s of %s and %s is not defined", op, typeName(x.typ), typeName(y.typ))
	}
	delta := constant(y.at, intConst(y.value.Int))
	return fold(&Typed{typ: x.typ, nullable: x.nullable, at: n.Offset(), op: opCall, args: []*Typed{x, delta}, fn: intArithmetic[op]}), nil
}

// operand is t as an operand of decimal arithmetic or comparison: integers become decimals without a
// fraction.
func operand(t *Typed) *Typed {
	if t.typ.Kind == batch.Int64 {
		return implicit(t, asDecimal(t))
	}
	return t
}

// operandFor is operand, with a null literal taking the type of the other side.
func operandFor(t *Typed, common batch.Type) *Typed {
	if t.isNullLiteral() {
		return implicit(t, common)
	}
	return operand(t)
}

// implicit converts t to typ, to which commonType has led.
func implicit(t *Typed, typ batch.Type) *Typed {
	switch {
	case t.typ == typ:
		return t
	case t.isNullLiteral():
		return constant(t.at, Const{Type: typ, Null: true})
	}
	return convert(t, typ, 0, false, t.at)
}
