package expr

import (
	"math"
	"math/bits"

	"github.com/weirstream/weir/dataplane/batch"
)

// addChecked returns a+b or ErrOverflow.
func addChecked(a, b int64) (int64, error) {
	s := a + b
	if (a^s)&(b^s) < 0 {
		return 0, ErrOverflow
	}
	return s, nil
}

// mulInt returns a·b and whether it fits.
func mulInt(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// Mul64 is unsigned: take back what the sign bits added.
	h := int64(hi) - a>>63&b - b>>63&a
	return int64(lo), h == int64(lo)>>63
}

var intArithmetic = map[string]*kernel{
	"+": {run: addInts}, "-": {run: subInts}, "*": {run: mulInts},
	"/": {run: divInts}, "%": {run: modInts},
}

// addInts adds without a branch a row: the sign bits of all overflows are collected, and only if there is
// one the row is looked for.
func addInts(f *frame) error {
	a, b, out := f.in[0].Ints, f.in[1].Ints, f.out.Ints
	over := int64(0)
	if f.dense {
		a, b, out = a[:f.n], b[:f.n], out[:f.n]
		for i := range out {
			x, y := a[i], b[i]
			s := x + y
			out[i] = s
			over |= (x ^ s) & (y ^ s)
		}
	} else {
		for _, r := range f.rows {
			x, y := a[r], b[r]
			s := x + y
			out[r] = s
			over |= (x ^ s) & (y ^ s)
		}
	}
	if over >= 0 {
		return nil
	}
	return f.first(ErrOverflow, func(r int32) bool { return (a[r]^out[r])&(b[r]^out[r]) < 0 })
}

func subInts(f *frame) error {
	a, b, out := f.in[0].Ints, f.in[1].Ints, f.out.Ints
	over := int64(0)
	for _, r := range f.rows {
		x, y := a[r], b[r]
		s := x - y
		out[r] = s
		over |= (x ^ y) & (x ^ s)
	}
	if over >= 0 {
		return nil
	}
	return f.first(ErrOverflow, func(r int32) bool { return (a[r]^b[r])&(a[r]^out[r]) < 0 })
}

func mulInts(f *frame) error {
	a, b, out := f.in[0].Ints, f.in[1].Ints, f.out.Ints
	ok := true
	for _, r := range f.rows {
		p, fits := mulInt(a[r], b[r])
		out[r] = p
		ok = ok && fits
	}
	if ok {
		return nil
	}
	return f.first(ErrOverflow, func(r int32) bool { _, fits := mulInt(a[r], b[r]); return !fits })
}

func divInts(f *frame) error {
	a, b, out := f.in[0].Ints, f.in[1].Ints, f.out.Ints
	for _, r := range f.rows {
		x, y := a[r], b[r]
		switch {
		case y == 0:
			return &rowFailure{r, ErrDivideByZero}
		case y == -1 && x == math.MinInt64:
			return &rowFailure{r, ErrOverflow}
		}
		out[r] = x / y
	}
	return nil
}

func modInts(f *frame) error {
	a, b, out := f.in[0].Ints, f.in[1].Ints, f.out.Ints
	for _, r := range f.rows {
		x, y := a[r], b[r]
		if (uint64(x)|uint64(y))>>32 == 0 && y != 0 {
			// A 32-bit division takes a fraction of the time of a 64-bit one.
			out[r] = int64(uint32(x) % uint32(y))
			continue
		}
		if y == 0 {
			return &rowFailure{r, ErrDivideByZero}
		}
		out[r] = x % y
	}
	return nil
}

var floatArithmetic = map[string]*kernel{
	"+": {run: floats(func(a, b, out []float64, f *frame) {
		for _, r := range f.rows {
			out[r] = a[r] + b[r]
		}
	})},
	"-": {run: floats(func(a, b, out []float64, f *frame) {
		for _, r := range f.rows {
			out[r] = a[r] - b[r]
		}
	})},
	"*": {run: floats(func(a, b, out []float64, f *frame) {
		for _, r := range f.rows {
			out[r] = a[r] * b[r]
		}
	})},
	"/": {run: nonZero(func(a, b, out []float64, f *frame) {
		for _, r := range f.rows {
			out[r] = a[r] / b[r]
		}
	})},
	"%": {run: nonZero(func(a, b, out []float64, f *frame) {
		for _, r := range f.rows {
			out[r] = math.Mod(a[r], b[r])
		}
	})},
}

func floats(loop func(a, b, out []float64, f *frame)) func(*frame) error {
	return func(f *frame) error {
		loop(f.in[0].Floats, f.in[1].Floats, f.out.Floats, f)
		return nil
	}
}

func nonZero(loop func(a, b, out []float64, f *frame)) func(*frame) error {
	return func(f *frame) error {
		b := f.in[1].Floats
		for _, r := range f.rows {
			if b[r] == 0 {
				return &rowFailure{r, ErrDivideByZero}
			}
		}
		loop(f.in[0].Floats, b, f.out.Floats, f)
		return nil
	}
}

// decimalArithmetic returns the kernel of op for operands of types x and y with a result of type t.
func decimalArithmetic(op string, x, y, t batch.Type) *kernel {
	switch op {
	case "*":
		drop := int(x.Scale) + int(y.Scale) - int(t.Scale)
		return decimals(t, func(a, b batch.Dec128) (batch.Dec128, error) {
			return checked(a.MulDrop(b, drop))
		})
	case "/":
		shift := int(t.Scale) - int(x.Scale) + int(y.Scale)
		return decimals(t, func(a, b batch.Dec128) (batch.Dec128, error) {
			if b.Sign() == 0 {
				return b, ErrDivideByZero
			}
			return checked(a.DivShift(b, shift))
		})
	}
	combine := map[string]func(a, b batch.Dec128) (batch.Dec128, error){
		"+": func(a, b batch.Dec128) (batch.Dec128, error) { return checked(a.Add(b)) },
		"-": func(a, b batch.Dec128) (batch.Dec128, error) { return checked(a.Sub(b)) },
		"%": func(a, b batch.Dec128) (batch.Dec128, error) {
			if b.Sign() == 0 {
				return b, ErrDivideByZero
			}
			return a.Rem(b), nil
		},
	}[op]
	scale := max(x.Scale, y.Scale)
	return decimals(t, func(a, b batch.Dec128) (batch.Dec128, error) {
		a, ok1 := a.Rescale(x.Scale, scale)
		b, ok2 := b.Rescale(y.Scale, scale)
		if !ok1 || !ok2 {
			return a, ErrOverflow
		}
		d, err := combine(a, b)
		if err != nil {
			return d, err
		}
		return checked(d.Rescale(scale, t.Scale))
	})
}

func checked(d batch.Dec128, ok bool) (batch.Dec128, error) {
	if !ok {
		return d, ErrOverflow
	}
	return d, nil
}

func decimals(t batch.Type, op func(a, b batch.Dec128) (batch.Dec128, error)) *kernel {
	return &kernel{run: func(f *frame) error {
		a, b, out := f.in[0].Decs, f.in[1].Decs, f.out.Decs
		for _, r := range f.rows {
			d, err := op(a[r], b[r])
			if err == nil && !d.Fits(t.Precision) {
				err = ErrOverflow
			}
			if err != nil {
				return &rowFailure{r, err}
			}
			out[r] = d
		}
		return nil
	}}
}

// negateKernel is unary minus.
func negateKernel(t batch.Type) *kernel {
	switch t.Kind {
	case batch.Float64:
		return &kernel{run: each(func(f *frame, r int32) error {
			f.out.Floats[r] = -f.in[0].Floats[r]
			return nil
		})}
	case batch.Decimal:
		return &kernel{run: each(func(f *frame, r int32) error {
			f.out.Decs[r] = f.in[0].Decs[r].Neg()
			return nil
		})}
	}
	return &kernel{run: each(func(f *frame, r int32) error {
		v := f.in[0].Ints[r]
		if v == math.MinInt64 {
			return ErrOverflow
		}
		f.out.Ints[r] = -v
		return nil
	})}
}
