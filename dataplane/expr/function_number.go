package expr

import (
	"cmp"
	"math"

	"github.com/weirstream/weir/dataplane/batch"
)

var numberFunctions = map[string]function{
	"abs":      {1, 1, bindAbs},
	"sign":     {1, 1, bindSign},
	"ceil":     {1, 2, bindCeil},
	"floor":    {1, 2, bindFloor},
	"round":    {1, 2, bindRound},
	"mod":      {2, 2, func(c *Call, args []*Typed) (*Typed, error) { return (&binder{}).arithmetic(c, "%", args[0], args[1]) }},
	"greatest": {1, -1, func(c *Call, args []*Typed) (*Typed, error) { return bindExtreme(c, args, 1) }},
	"least":    {1, -1, func(c *Call, args []*Typed) (*Typed, error) { return bindExtreme(c, args, -1) }},
	"sqrt":     simple(floatType, 1, floatFunction(math.Sqrt), floatType),
	"exp":      simple(floatType, 1, floatFunction(math.Exp), floatType),
	"ln":       simple(floatType, 1, floatFunction(math.Log), floatType),
	"log10":    simple(floatType, 1, floatFunction(math.Log10), floatType),
	"power": simple(floatType, 2, &kernel{run: each(func(f *frame, r int32) error {
		f.out.Floats[r] = math.Pow(f.in[0].Floats[r], f.in[1].Floats[r])
		return nil
	})}, floatType, floatType),
}

func floatFunction(fn func(float64) float64) *kernel {
	return &kernel{run: each(func(f *frame, r int32) error {
		f.out.Floats[r] = fn(f.in[0].Floats[r])
		return nil
	})}
}

// perKind binds a function of one number that keeps its kind: a function a kind.
func perKind(c *Call, args []*Typed, result batch.Type, ints func(int64) (int64, bool), fn func(float64) float64, decs func(batch.Dec128) batch.Dec128) (*Typed, error) {
	x := args[0]
	if x.isNullLiteral() {
		return constant(c.Offset(), Const{Null: true}), nil
	}
	if !numeric(x.typ) {
		return nil, argumentError(c, 0, x, "a number")
	}
	k := floatFunction(fn)
	switch x.typ.Kind {
	case batch.Int64:
		k = &kernel{run: each(func(f *frame, r int32) error {
			v, ok := ints(f.in[0].Ints[r])
			f.out.Ints[r] = v
			return overflowUnless(ok)
		})}
	case batch.Decimal:
		k = &kernel{run: each(func(f *frame, r int32) error {
			return putDecimal(f, r, decs(f.in[0].Decs[r]), true, result)
		})}
	}
	return apply(c, result, k, args[:1]), nil
}

func bindAbs(c *Call, args []*Typed) (*Typed, error) {
	return perKind(c, args, args[0].typ,
		func(v int64) (int64, bool) {
			if v < 0 {
				return -v, v != math.MinInt64
			}
			return v, true
		}, math.Abs,
		func(d batch.Dec128) batch.Dec128 {
			if d.Sign() < 0 {
				return d.Neg()
			}
			return d
		})
}

func bindSign(c *Call, args []*Typed) (*Typed, error) {
	result := args[0].typ
	one := batch.DecFromInt64(1)
	if result.Kind == batch.Decimal {
		// The whole digit must have room: sign(0.5) is 1.0.
		result = decimalType(max(int(result.Precision), int(result.Scale)+1), int(result.Scale))
		one, _ = one.Rescale(0, result.Scale)
	}
	return perKind(c, args, result,
		func(v int64) (int64, bool) { return int64(cmp.Compare(v, 0)), true },
		func(v float64) float64 {
			if v != v {
				return v
			}
			return float64(cmp.Compare(v, 0))
		},
		func(d batch.Dec128) batch.Dec128 {
			switch d.Sign() {
			case -1:
				return one.Neg()
			case 0:
				return d
			}
			return one
		})
}

func whole(t batch.Type) batch.Type {
	if t.Kind == batch.Decimal {
		// One digit more than before the point: 9.9 is rounded up to 10.
		return decimalType(max(1, int(t.Precision)-int(t.Scale)+boolInt(t.Scale > 0)), 0)
	}
	return t
}

func bindFloor(c *Call, args []*Typed) (*Typed, error) {
	if len(args) == 2 {
		return bindTruncTime(c, args, 1, 0)
	}
	scale := args[0].typ.Scale
	return perKind(c, args, whole(args[0].typ), func(v int64) (int64, bool) { return v, true }, math.Floor,
		func(d batch.Dec128) batch.Dec128 { return d.Floor(scale) })
}

func bindCeil(c *Call, args []*Typed) (*Typed, error) {
	if len(args) == 2 {
		return nil, errAt(c.Offset(), "ceil to a unit of time is not available").hint("write floor(… to unit) + interval '…'")
	}
	scale := args[0].typ.Scale
	return perKind(c, args, whole(args[0].typ), func(v int64) (int64, bool) { return v, true }, math.Ceil,
		func(d batch.Dec128) batch.Dec128 { return d.Neg().Floor(scale).Neg() })
}

// bindRound is round(x [, digits]), half away from zero; digits is a literal, negative ones round whole
// digits.
func bindRound(c *Call, args []*Typed) (*Typed, error) {
	digits := 0
	if len(args) == 2 {
		v, ok := args[1].Const()
		if !ok || v.Null || v.Type.Kind != batch.Int64 || v.Int < -batch.MaxPrecision || v.Int > batch.MaxPrecision {
			return nil, errAt(c.Args[1].Offset(), "argument 2 of round must be an integer literal from -38 to 38")
		}
		digits = int(v.Int)
	}
	t := args[0].typ
	result := t
	if t.Kind == batch.Decimal && digits < int(t.Scale) {
		scale := max(0, digits)
		result = decimalType(int(t.Precision)-int(t.Scale)+scale+1, scale)
	}
	return perKind(c, args, result,
		func(v int64) (int64, bool) {
			return roundDecimal(batch.DecFromInt64(v), 0, digits, 0).Int64()
		},
		func(v float64) float64 { return roundFloat(v, digits) },
		func(d batch.Dec128) batch.Dec128 { return roundDecimal(d, int(t.Scale), digits, int(result.Scale)) })
}

// roundDecimal rounds d at scale to digits and returns it at the scale of the result.
func roundDecimal(d batch.Dec128, scale, digits, result int) batch.Dec128 {
	if digits >= scale {
		return d
	}
	drop := scale - digits
	if drop > batch.MaxPrecision {
		return batch.Dec128{}
	}
	d, _ = d.Rescale(uint8(drop), 0)
	// Now at digits; negative digits are made good by zeros.
	d, ok := d.Rescale(0, uint8(result-digits))
	if !ok {
		// Out of every range: the caller's check of digits refuses it.
		return batch.Dec128{Hi: math.MaxInt64}
	}
	return d
}

func roundFloat(v float64, digits int) float64 {
	if digits == 0 {
		return math.Round(v)
	}
	p := math.Pow10(digits)
	scaled := v * p
	// Beyond 2^52 a double has no fraction, so there is nothing to round; NaN fails the comparison too.
	if !(math.Abs(scaled) < 1<<52) {
		return v
	}
	return math.Round(scaled) / p
}

// bindExtreme is greatest or least: null if an argument is null. Several arguments are folded in pairs.
func bindExtreme(c *Call, args []*Typed, sign int) (*Typed, error) {
	typ, ok := commonType(args)
	if !ok || typ.Kind == kindInterval {
		return nil, mixed(c.Offset(), "the arguments of "+c.Name, args)
	}
	if typ.Kind == batch.Invalid {
		return constant(c.Offset(), Const{Null: true}), nil
	}
	k := &kernel{run: extreme(typ, sign), views: true}
	t := implicit(args[0], typ)
	for _, a := range args[1:] {
		t = apply(c, typ, k, []*Typed{t, implicit(a, typ)})
	}
	return t, nil
}

func extreme(t batch.Type, sign int) func(*frame) error {
	switch {
	case t.IsInt64():
		return func(f *frame) error {
			for _, r := range f.rows {
				v := f.in[0].Ints[r]
				if w := f.in[1].Ints[r]; cmp.Compare(w, v) == sign {
					v = w
				}
				f.out.Ints[r] = v
			}
			return nil
		}
	case t.Kind == batch.Float64:
		return func(f *frame) error {
			for _, r := range f.rows {
				v := f.in[0].Floats[r]
				if w := f.in[1].Floats[r]; CompareFloats(w, v) == sign {
					v = w
				}
				f.out.Floats[r] = v
			}
			return nil
		}
	}
	return func(f *frame) error {
		order := orderOf(f.in[0], f.in[1])
		for _, r := range f.rows {
			i := 0
			if order(int(r)) == -sign {
				i = 1
			}
			switch src := f.in[i]; t.Kind {
			case batch.Decimal:
				f.out.Decs[r] = src.Decs[r]
			case batch.Bool:
				f.out.Bools.SetTo(int(r), src.Bools.Get(int(r)))
			default:
				f.part(r, i, 0, int(src.Views[r].Len))
			}
		}
		return nil
	}
}
