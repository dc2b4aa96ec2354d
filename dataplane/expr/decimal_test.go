package expr

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"pgregory.net/rapid"
)

func pow10(n uint8) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// round is a/b rounded half away from zero.
func round(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Abs(r).Lsh(r, 1).Cmp(new(big.Int).Abs(b)) >= 0 {
		q.Add(q, big.NewInt(int64(a.Sign()*b.Sign())))
	}
	return q
}

// Decimal arithmetic is that of rationals, rounded to the scale of the result's type; a result with too many
// digits is an error.
func TestDecimalArithmeticAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawType := func(name string) batch.Type {
			p := rapid.Uint8Range(1, batch.MaxPrecision).Draw(t, name+"P")
			return batch.Type{Kind: batch.Decimal, Precision: p, Scale: rapid.Uint8Range(0, p).Draw(t, name+"S")}
		}
		drawValue := func(name string, typ batch.Type) batch.Dec128 {
			digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, name)
			d, err := batch.ParseDecimal(digits[:min(len(digits), int(typ.Precision))], typ.Precision, 0)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, name+"Sign") {
				d = d.Neg()
			}
			return d
		}
		x, y := drawType("x"), drawType("y")
		a, b := drawValue("a", x), drawValue("b", y)
		op := rapid.SampledFrom([]string{"+", "-", "*", "/", "%", "<", "="}).Draw(t, "op")
		s := &batch.Schema{Fields: []batch.Field{{Name: "a", Type: x}, {Name: "b", Type: y}}}
		data := &batch.Batch{Schema: s, Rows: 1, Cols: []batch.Column{{Type: x, Decs: []batch.Dec128{a}}, {Type: y, Decs: []batch.Dec128{b}}}}
		n, err := Parse("a " + op + " b")
		if err != nil {
			t.Fatal(err)
		}
		typed, err := Bind(n, SchemaScope(s))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(typed, nil)
		if err != nil {
			t.Fatal(err)
		}
		col, err := p.Eval(data, nil)
		// Both operands over the common denominator 10^(sx+sy).
		u, v := new(big.Int).Mul(a.Big(), pow10(y.Scale)), new(big.Int).Mul(b.Big(), pow10(x.Scale))
		switch op {
		case "<", "=":
			if got, want := err == nil && col.Bools.Get(0), op == "<" && u.Cmp(v) < 0 || op == "=" && u.Cmp(v) == 0; err != nil || got != want {
				t.Fatalf("%s %s %s = %v, %v; want %v", a.Text(x.Scale), op, b.Text(y.Scale), got, err, want)
			}
			return
		case "/", "%":
			if v.Sign() == 0 {
				if !errors.Is(err, ErrDivideByZero) {
					t.Fatalf("x %s 0: %v, want division by zero", op, err)
				}
				return
			}
		}
		num, den := new(big.Int), new(big.Int).Mul(pow10(x.Scale), pow10(y.Scale))
		switch op {
		case "+":
			num.Add(u, v)
		case "-":
			num.Sub(u, v)
		case "*":
			num.Mul(a.Big(), b.Big())
		case "/":
			num, den = u, v
		case "%":
			num.Rem(u, v)
		}
		want := round(new(big.Int).Mul(num, pow10(typed.typ.Scale)), den)
		fits := new(big.Int).Abs(want).Cmp(pow10(typed.typ.Precision)) < 0
		switch {
		case err != nil && !errors.Is(err, ErrOverflow):
			t.Fatalf("%s %s %s: %v", a.Text(x.Scale), op, b.Text(y.Scale), err)
		case err != nil && fits && op != "%" && op != "+" && op != "-":
			// Sums and remainders may also fail when an operand has no room at the common scale.
			t.Fatalf("%s %s %s (as %s): %v, want %s", a.Text(x.Scale), op, b.Text(y.Scale), typed.typ, err, want)
		case err == nil && col.Decs[0].Big().Cmp(want) != 0:
			t.Fatalf("%s %s %s = %s as %s, want unscaled %s", a.Text(x.Scale), op, b.Text(y.Scale), col.Decs[0].Text(typed.typ.Scale), typed.typ, want)
		}
	})
}

func TestCompareFloatsIsATotalOrder(t *testing.T) {
	ordered := []float64{math.Inf(-1), -1, 0, 1, math.Inf(1), math.NaN()}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := CompareFloats(a, b); got != want {
				t.Errorf("CompareFloats(%v, %v)=%d, want %d", a, b, got, want)
			}
		}
	}
	if CompareFloats(math.Copysign(0, -1), 0) != 0 {
		t.Error("-0 and 0 differ")
	}
}

func TestBindCondition(t *testing.T) {
	for src, want := range map[string]string{"i > 1": "", "null": "", "i": "a condition is needed, i is bigint"} {
		n, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := BindCondition(n, SchemaScope(testSchema)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("BindCondition(%s)=%q, want %q", src, got, want)
		}
	}
}

// Every kind of node keeps its other operands when an aggregate is taken out of it.
func TestSplitKeepsTheRest(t *testing.T) {
	for src, want := range map[string]string{
		"- sum(a)": `(-"$0")`, "not max(a)": `(not "$0")`, "sum(a) is not null": `("$0" is not null)`, "case k when 1 then sum(a) else min(b) end": `case k when 1 then "$0" else "$1" end`,
		"case when k then 1 end": "case when k then 1 end", "sum(a) in (1, max(b))": `("$0" in (1, "$1"))`, "k between min(a) and max(a)": `(k between "$0" and "$1")`,
		"max(a) like 'x%' escape '$'": `("$0" like 'x%' escape '$')`, "coalesce(sum(a), 0)": `coalesce("$0", 0)`, "try_cast(max(a) as int)": `try_cast("$0" as int)`,
	} {
		n, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, err := SplitAggregates(n, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := rest.String(); got != want {
			t.Errorf("rest of %s = %s, want %s", src, got, want)
		}
	}
}

func TestAggregateResult(t *testing.T) {
	for _, c := range []struct {
		fn   string
		arg  batch.Type
		want string
		null bool
	}{
		{"count", batch.Type{}, "bigint", false}, {"sum", intType, "bigint", true}, {"avg", intType, "bigint", true}, {"avg", floatType, "double", true},
		{"sum", dec122, "decimal(38,2)", true}, {"avg", dec122, "decimal(38,6)", true}, {"min", textType, "string", true}, {"max", timestampType, "timestamp(6)", true},
		{"sum", textType, "sum needs numbers, not string", false}, {"max", batch.Type{Kind: batch.Bytes}, "max of bytes is not defined", false},
	} {
		call := AggregateCall{Func: c.fn}
		typ, null, err := call.Result(c.arg)
		got := typ.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want || null != c.null {
			t.Errorf("%s of %s = %s (nullable %v), want %s (%v)", c.fn, c.arg, got, null, c.want, c.null)
		}
	}
}
