package batch

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// drawDec draws decimals of every length, so that each of the paths (64, 128 bits, big) is taken.
func drawDec(t *rapid.T, name string) Dec128 {
	digits := rapid.IntRange(0, MaxPrecision).Draw(t, name+"Digits")
	d := Dec128{Lo: rapid.Uint64().Draw(t, name+"Lo"), Hi: int64(rapid.Uint64().Draw(t, name+"Hi") >> 1)}
	if digits < MaxPrecision {
		_, d = divMod(d, pow10[digits])
	}
	if !d.Fits(MaxPrecision) {
		_, d = divMod(d, pow10[MaxPrecision])
	}
	return d.withSign(rapid.Bool().Draw(t, name+"Sign"))
}

// roundDiv is the oracle: a/b rounded half away from zero.
func roundDiv(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if new(big.Int).Lsh(new(big.Int).Abs(r), 1).Cmp(new(big.Int).Abs(b)) >= 0 {
		q.Add(q, big.NewInt(int64(a.Sign()*b.Sign())))
	}
	return q
}

func checkDec(t *rapid.T, what string, got Dec128, ok bool, want *big.Int) {
	t.Helper()
	if fits := want.BitLen() <= 127; ok != fits {
		// −2^127 fits in two's complement but is no decimal.
		if new(big.Int).Neg(want).Cmp(new(big.Int).Lsh(big.NewInt(1), 127)) != 0 {
			t.Fatalf("%s ok=%v, want %v (%s)", what, ok, fits, want)
		}
		return
	}
	if ok && got.Big().Cmp(want) != 0 {
		t.Fatalf("%s=%s, want %s", what, got.Big(), want)
	}
}

func TestDecimalAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawDec(t, "a"), drawDec(t, "b")
		x, y := a.Big(), b.Big()
		sum, ok := a.Add(b)
		checkDec(t, "a+b", sum, ok, new(big.Int).Add(x, y))
		diff, ok := a.Sub(b)
		checkDec(t, "a-b", diff, ok, new(big.Int).Sub(x, y))
		drop := rapid.IntRange(0, 40).Draw(t, "drop")
		prod, ok := a.MulDrop(b, drop)
		checkDec(t, "a*b", prod, ok, roundDiv(new(big.Int).Mul(x, y), bigPow10(drop)))
		if got, want := a.Cmp(b), x.Cmp(y); got != want {
			t.Fatalf("Cmp=%d, want %d", got, want)
		}
		if b.Sign() == 0 {
			return
		}
		shift := rapid.IntRange(0, 60).Draw(t, "shift")
		quot, ok := a.DivShift(b, shift)
		checkDec(t, "a/b", quot, ok, roundDiv(new(big.Int).Mul(x, bigPow10(shift)), y))
		checkDec(t, "a%b", a.Rem(b), true, new(big.Int).Rem(x, y))
	})
}

func TestDecimalScalesAgreeWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawDec(t, "a")
		from, to := rapid.Uint8Range(0, 38).Draw(t, "from"), rapid.Uint8Range(0, 38).Draw(t, "to")
		got, ok := a.Rescale(from, to)
		if to >= from {
			checkDec(t, "rescale", got, ok, new(big.Int).Mul(a.Big(), bigPow10(int(to-from))))
		} else {
			checkDec(t, "rescale", got, ok, roundDiv(a.Big(), bigPow10(int(from-to))))
		}
		checkDec(t, "truncate", a.Truncate(from), true, new(big.Int).Quo(a.Big(), bigPow10(int(from))))
		// big.Int's Div is Euclidean: with a positive divisor it is the floor.
		checkDec(t, "floor", a.Floor(from), true, new(big.Int).Div(a.Big(), bigPow10(int(from))))
		back, err := ParseDecimal(a.Text(from), MaxPrecision, from)
		if err != nil || back != a {
			t.Fatalf("ParseDecimal(%q)=%v, %v; want %v", a.Text(from), back, err, a)
		}
		want, _ := new(big.Rat).SetFrac(a.Big(), bigPow10(int(from))).Float64()
		if got := a.Float64(from); got != want {
			t.Fatalf("Float64(%s)=%v, want %v", a.Text(from), got, want)
		}
	})
}

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		in   string
		p, s uint8
		want string // "" is an error
	}{
		{"1.5", 12, 2, "1.50"}, {"-1.005", 12, 2, "-1.01"}, {"+0.004", 12, 2, "0.00"}, {"1e3", 12, 2, "1000.00"},
		{"12e-1", 12, 2, "1.20"}, {".5", 3, 1, "0.5"}, {"5.", 3, 1, "5.0"}, {"0", 1, 0, "0"},
		{"99999999999999999999999999999999999999", 38, 0, "99999999999999999999999999999999999999"},
		{"100000000000000000000000000000000000000", 38, 0, ""}, {"1e400", 38, 0, ""}, {"1e-400", 38, 2, "0.00"},
		{"0.00000000000000000000000000000000000000000000001e40", 20, 8, "0.00000010"},
		{"1000", 5, 2, ""}, {"999.994", 5, 2, "999.99"}, {"999.995", 5, 2, ""},
		{"", 5, 2, ""}, {"-", 5, 2, ""}, {".", 5, 2, ""}, {"1x", 5, 2, ""}, {"1e", 5, 2, ""}, {"1.2.3", 5, 2, ""}, {" 1", 5, 2, ""},
		{"NaN", 5, 2, ""},
	} {
		d, err := ParseDecimal(c.in, c.p, c.s)
		got := ""
		if err == nil {
			got = d.Text(c.s)
		}
		if got != c.want {
			t.Errorf("ParseDecimal(%q, %d, %d)=%q (%v), want %q", c.in, c.p, c.s, got, err, c.want)
		}
	}
}

func TestDecFromFloat64(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{1.5, "1.50"}, {-0.125, "-0.13"}, {1e9, "1000000000.00"}, {0.1, "0.10"}, {math.Copysign(0, -1), "0.00"},
		{math.NaN(), ""}, {math.Inf(1), ""}, {1e10, ""}, {1e300, ""},
	} {
		d, ok := DecFromFloat64(c.in, 12, 2)
		got := ""
		if ok {
			got = d.Text(2)
		}
		if got != c.want {
			t.Errorf("DecFromFloat64(%v)=%q, want %q", c.in, got, c.want)
		}
	}
}
