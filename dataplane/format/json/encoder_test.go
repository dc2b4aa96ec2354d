package json

import (
	stdjson "encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// rowOf is a batch of one row and one column called x.
func rowOf(t batch.Type, set func(c *batch.Column)) *batch.Batch {
	c := batch.NewColumn(t, 1)
	set(&c)
	return &batch.Batch{Schema: &batch.Schema{Fields: []batch.Field{{Name: "x", Type: t}}}, Rows: 1, Cols: []batch.Column{c}}
}

func ints(n int64) func(*batch.Column)   { return func(c *batch.Column) { c.Ints[0] = n } }
func chars(s string) func(*batch.Column) { return func(c *batch.Column) { c.SetBytes(0, []byte(s)) } }
func float(x float64) func(*batch.Column) {
	return func(c *batch.Column) { c.Floats[0] = x }
}
func dec(hi int64, lo uint64) func(*batch.Column) {
	return func(c *batch.Column) { c.Decs[0] = batch.Dec128{Hi: hi, Lo: lo} }
}

func encode(t testing.TB, o Options, b *batch.Batch) (string, error) {
	t.Helper()
	e, err := NewEncoder(o, b.Schema)
	if err != nil {
		t.Fatal(err)
	}
	cols := make([]int, len(b.Cols))
	for i := range cols {
		cols[i] = i
	}
	var dst format.Encoded
	if err := e.Encode(&dst, b, cols); err != nil {
		return "", err
	}
	return string(dst.At(0)), nil
}

func TestEncodeValues(t *testing.T) {
	stamp := func(precision uint8) batch.Type { return batch.Type{Kind: batch.Timestamp, Precision: precision} }
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC).UnixMicro()
	scale0 := batch.Type{Kind: batch.Decimal, Precision: 38}
	scale10 := batch.Type{Kind: batch.Decimal, Precision: 38, Scale: 10}
	for _, tt := range []struct {
		typ  batch.Type
		mode Timestamps
		set  func(*batch.Column)
		want string // or "!" and the error
	}{
		{typ: bigint, set: ints(math.MinInt64), want: `-9223372036854775808`},
		{typ: bigint, set: ints(1234567890123456789), want: `1234567890123456789`},
		{typ: bigint, set: func(c *batch.Column) { c.SetNull(0, 1) }, want: `null`},
		{typ: boolean, set: func(c *batch.Column) { c.Bools.Set(0) }, want: `true`},
		{typ: boolean, set: func(*batch.Column) {}, want: `false`},
		{typ: double, set: float(0.1), want: `0.1`},
		{typ: double, set: float(1e21), want: `1e+21`},
		{typ: double, set: float(1e-7), want: `1e-7`},
		{typ: double, set: float(5e-324), want: `5e-324`},
		{typ: double, set: float(math.Copysign(0, -1)), want: `-0`},
		{typ: double, set: float(math.NaN()), want: `!json: column "x": JSON has no NaN and no infinity`},
		{typ: double, set: float(math.Inf(-1)), want: `!json: column "x": JSON has no NaN and no infinity`},
		{typ: money, set: dec(0, 0), want: `0.00`},
		{typ: money, set: dec(0, 5), want: `0.05`},
		{typ: money, set: dec(-1, math.MaxUint64-1233), want: `-12.34`},
		{typ: money, set: dec(0, 999999999999), want: `9999999999.99`},
		{typ: scale0, set: dec(math.MinInt64, 0), want: `-170141183460469231731687303715884105728`},
		{typ: scale10, set: dec(5421010862427522170, 687399551400673279), want: `9999999999999999999999999999.9999999999`},
		{typ: text, set: chars(""), want: `""`},
		{typ: text, set: chars("plain <html> & more text"), want: `"plain <html> & more text"`},
		{typ: text, set: chars("é😀\"\\/\n\r\t\x00\x1f\x7f"), want: "\"é😀\\\"\\\\/\\n\\r\\t\\u0000\\u001f\x7f\""},
		{typ: text, set: chars("valid until \xff"), want: `!json: column "x": string is not valid UTF-8`},
		{typ: binary3, set: chars("\xff\x00\xfe"), want: `"/wD+"`},
		{typ: day, set: ints(-1), want: `"1969-12-31"`},
		{typ: day, set: ints(2932897), want: `!json: column "x": year is not in 0000 to 9999`},
		{typ: stamp(0), set: ints(at), want: `"2026-01-02T03:04:05Z"`},
		{typ: stamp(3), set: ints(at), want: `"2026-01-02T03:04:05.678Z"`},
		{typ: stamp(6), set: ints(at), want: `"2026-01-02T03:04:05.678901Z"`},
		{typ: stamp(3), set: ints(-1), want: `"1969-12-31T23:59:59.999Z"`},
		{typ: stamp(3), set: ints(math.MaxInt64), want: `!json: column "x": year is not in 0000 to 9999`},
		{typ: stamp(3), mode: SQL, set: ints(at), want: `"2026-01-02 03:04:05.678"`},
		{typ: stamp(3), mode: EpochSeconds, set: ints(-1), want: `-1`},
		{typ: stamp(3), mode: EpochMillis, set: ints(at), want: `1767323045678`},
		{typ: stamp(3), mode: EpochMicros, set: ints(at), want: `1767323045678901`},
	} {
		got, err := encode(t, Options{Timestamps: tt.mode}, rowOf(tt.typ, tt.set))
		if err != nil {
			var re *batch.RowError
			if !errors.As(err, &re) || re.Row != 0 {
				t.Errorf("%s: error %v is no RowError of row 0", tt.typ, err)
			}
			got = "!" + err.Error()
		}
		want := tt.want
		if want[0] != '!' {
			want = `{"x":` + want + `}`
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", tt.typ, got, want)
		}
		if err == nil && !stdjson.Valid([]byte(got)) {
			t.Errorf("%s: %s is not valid JSON", tt.typ, got)
		}
	}
}

// Ensure the selection and the order of columns are kept, and a bad row leaves what was encoded before.
func TestEncodeRows(t *testing.T) {
	s := &batch.Schema{Fields: []batch.Field{{Name: "a\"b", Type: bigint}, {Name: "bid.price", Type: double}}}
	b := &batch.Batch{Schema: s, Rows: 4, Sel: []int32{0, 2, 3}, Cols: []batch.Column{batch.NewColumn(bigint, 4), batch.NewColumn(double, 4)}}
	for i := range 4 {
		b.Cols[0].Ints[i], b.Cols[1].Floats[i] = int64(i), float64(i)/2
	}
	b.Cols[1].Floats[3] = math.NaN()
	e, err := NewEncoder(Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	var dst format.Encoded
	err = e.Encode(&dst, b, []int{1, 0})
	var re *batch.RowError
	if !errors.As(err, &re) || re.Row != 3 {
		t.Fatalf("err=%v, want a RowError of row 3", err)
	}
	if got, want := string(dst.Buf), `{"bid.price":0,"a\"b":0}{"bid.price":1,"a\"b":2}`; got != want || len(dst.Ends) != 2 {
		t.Errorf("got %s in %d rows, want %s in 2", got, len(dst.Ends), want)
	}
	dst.Reset()
	if err := e.Encode(&dst, b, nil); err != nil || string(dst.Buf) != "{}{}{}" {
		t.Errorf("no columns: got %s, %v, want {}{}{}", dst.Buf, err)
	}
	if _, err := NewEncoder(Options{}, &batch.Schema{Fields: []batch.Field{{Name: "x"}}}); err == nil {
		t.Error("a column without a type was accepted")
	}
}

// Ensure what is written is read back as it was, for every type and notation.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	wide := batch.Type{Kind: batch.Decimal, Precision: 38, Scale: 7}
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)
	for _, mode := range []Timestamps{ISO, SQL, EpochMicros} {
		types := []batch.Type{bigint, double, wide, boolean, text, binary3, day, {Kind: batch.Timestamp, Precision: 6}}
		var cols []format.Column
		for i, typ := range types {
			cols = append(cols, optional(col(string(rune('a'+i)), typ), 0))
		}
		br := branchOf(cols...)
		const n = 500
		b := &batch.Batch{Schema: br.Schema, Rows: n}
		for _, typ := range types {
			c := batch.NewColumn(typ, n)
			for i := range n {
				randomValue(r, &c, i, limit)
				if r.IntN(8) == 0 {
					c.SetNull(i, n)
				}
			}
			b.Cols = append(b.Cols, c)
		}
		e, err := NewEncoder(Options{Timestamps: mode}, b.Schema)
		if err != nil {
			t.Fatal(err)
		}
		var dst format.Encoded
		if err := e.Encode(&dst, b, []int{0, 1, 2, 3, 4, 5, 6, 7}); err != nil {
			t.Fatal(err)
		}
		values := make([]string, n)
		for i := range values {
			if values[i] = string(dst.At(i)); !stdjson.Valid(dst.At(i)) {
				t.Fatalf("not valid: %s", values[i])
			}
		}
		out, bad := mustDecode(t, mustDecoder(t, Options{Timestamps: mode}, br), recordsOf(values...))
		if len(bad) > 0 {
			t.Fatalf("%s: %v", values[bad[0].Record], bad[0].Err)
		}
		for c := range types {
			for i := range n {
				if got, want := show(&out[0].Cols[c], i), show(&b.Cols[c], i); got != want {
					t.Fatalf("%s: column %d: got %s, want %s", values[i], c, got, want)
				}
			}
		}
	}
}

func randomValue(r *rand.Rand, c *batch.Column, i int, limit *big.Int) {
	switch c.Type.Kind {
	case batch.Bool:
		c.Bools.SetTo(i, r.IntN(2) == 0)
	case batch.Int64:
		c.Ints[i] = int64(r.Uint64() >> r.IntN(64))
	case batch.Float64:
		for {
			if c.Floats[i] = math.Float64frombits(r.Uint64()); c.Floats[i]-c.Floats[i] == 0 {
				return
			}
		}
	case batch.Decimal:
		x := new(big.Int).SetUint64(r.Uint64())
		x.Lsh(x, 64).Add(x, new(big.Int).SetUint64(r.Uint64())).Rsh(x, uint(r.IntN(128))).Mod(x, limit)
		lo := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		c.Decs[i] = batch.Dec128{Hi: new(big.Int).Rsh(x, 64).Int64(), Lo: lo}
	case batch.Timestamp:
		c.Ints[i] = r.Int64N(4e15) - 2e15
	case batch.Date:
		c.Ints[i] = r.Int64N(lastDay-firstDay+1) + firstDay
	case batch.String:
		var s strings.Builder
		for range r.IntN(30) {
			s.WriteRune([]rune("abc \"\\\n\x00é😀")[r.IntN(10)])
		}
		c.SetBytes(i, []byte(s.String()))
	case batch.Bytes:
		b := make([]byte, r.IntN(30))
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		c.SetBytes(i, b)
	}
}

func BenchmarkEncodeBid(b *testing.B) {
	rs := auctionRecords(benchBatch)
	d := mustDecoder(b, Options{Timestamps: SQL}, bidsOnly(bidColumns()...))
	out, _ := mustDecode(b, d, rs)
	e, err := NewEncoder(Options{}, out[0].Schema)
	if err != nil {
		b.Fatal(err)
	}
	cols := []int{1, 2, 3, 4, 5, 6, 7}
	var dst format.Encoded
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += out[0].Len() {
		dst.Reset()
		if err := e.Encode(&dst, out[0], cols); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst.Buf) / len(dst.Ends)))
}
