package expr

import (
	"math"

	"github.com/weirstream/weir/dataplane/batch"
)

// minScale is the number of fractional digits that are kept when a result has more than 38 digits, and the
// least scale of a quotient. Source: Flink's LogicalTypeMerging.
const minScale = 6

func numeric(t batch.Type) bool {
	return t.Kind == batch.Int64 || t.Kind == batch.Float64 || t.Kind == batch.Decimal
}

// decimalType fits precision and scale into 38 digits: whole digits win, but for six of the fraction.
func decimalType(precision, scale int) batch.Type {
	if precision > batch.MaxPrecision {
		whole := precision - scale
		scale = max(batch.MaxPrecision-whole, min(scale, minScale))
		precision = batch.MaxPrecision
	}
	return batch.Type{Kind: batch.Decimal, Precision: uint8(precision), Scale: uint8(scale)}
}

// asDecimal is the type of t as an operand of decimal arithmetic: bigint has 19 digits, an int literal 10.
func asDecimal(t *Typed) batch.Type {
	switch {
	case t.typ.Kind == batch.Decimal:
		return t.typ
	case t.op == opConst && t.value.Int >= math.MinInt32 && t.value.Int <= math.MaxInt32:
		return batch.Type{Kind: batch.Decimal, Precision: 10}
	}
	return batch.Type{Kind: batch.Decimal, Precision: 19}
}

// arithmeticType is the type of a decimal operation.
func arithmeticType(op string, a, b batch.Type) batch.Type {
	p1, s1, p2, s2 := int(a.Precision), int(a.Scale), int(b.Precision), int(b.Scale)
	switch op {
	case "*":
		return decimalType(p1+p2+1, s1+s2)
	case "/":
		scale := max(minScale, s1+p2+1)
		return decimalType(p1-s1+s2+scale, scale)
	case "%":
		scale := max(s1, s2)
		return decimalType(max(1, min(p1-s1, p2-s2)+scale), scale)
	}
	scale := max(s1, s2)
	return decimalType(max(p1-s1, p2-s2)+scale+1, scale)
}

// commonType is the type that all args convert to implicitly; ok is false if there is none. Null literals
// fit every type.
func commonType(args []*Typed) (t batch.Type, ok bool) {
	for _, a := range args {
		switch {
		case a.isNullLiteral():
		case t.Kind == batch.Invalid:
			t = a.typ
		default:
			if t, ok = widen(t, a); !ok {
				return t, false
			}
		}
	}
	return t, true
}

func widen(t batch.Type, a *Typed) (batch.Type, bool) {
	switch {
	case t == a.typ:
		return t, true
	case t.Kind == batch.Timestamp && a.typ.Kind == batch.Timestamp:
		return batch.Type{Kind: batch.Timestamp, Precision: max(t.Precision, a.typ.Precision)}, true
	case !numeric(t) || !numeric(a.typ):
		return t, false
	case t.Kind == batch.Float64 || a.typ.Kind == batch.Float64:
		return floatType, true
	}
	x, y := t, asDecimal(a)
	if t.Kind == batch.Int64 {
		x = batch.Type{Kind: batch.Decimal, Precision: 19}
	}
	scale := max(int(x.Scale), int(y.Scale))
	return decimalType(max(int(x.Precision)-int(x.Scale), int(y.Precision)-int(y.Scale))+scale, scale), true
}
