package expr

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
)

var dec122 = batch.Type{Kind: batch.Decimal, Precision: 12, Scale: 2}

// testSchema has a column of every type, and nullable ones called as theirs with an "n" in front.
var testSchema = &batch.Schema{HasTime: true, Fields: []batch.Field{
	{Name: "i", Type: intType}, {Name: "j", Type: intType}, {Name: "f", Type: floatType},
	{Name: "d", Type: dec122}, {Name: "s", Type: textType}, {Name: "b", Type: boolType},
	{Name: "ts", Type: timestampType}, {Name: "day", Type: dateType}, {Name: "raw", Type: batch.Type{Kind: batch.Bytes}},
	{Name: "ni", Type: intType, Nullable: true}, {Name: "nb", Type: boolType, Nullable: true},
	{Name: "ns", Type: textType, Nullable: true}, {Name: "nf", Type: floatType, Nullable: true},
	{Name: "nd", Type: dec122, Nullable: true},
	{Name: "bid.price", Type: intType}, {Name: "bid.user-id", Type: intType}, {Name: "amount", Type: intType},
}}

// testBatch has three rows; the nullable columns are null in row 2.
func testBatch() *batch.Batch {
	b := &batch.Batch{Schema: testSchema, Rows: 3, Time: []int64{0, 1_500_000, -1}}
	for _, f := range testSchema.Fields {
		c := batch.NewColumn(f.Type, 3)
		switch {
		case f.Type.Kind == batch.Bool:
			c.Bools.Set(0)
		case f.Type.IsInt64():
			copy(c.Ints, []int64{7, -3, 0})
		case f.Type.Kind == batch.Float64:
			copy(c.Floats, []float64{1.5, -2, math.NaN()})
		case f.Type.Kind == batch.Decimal:
			for i, v := range []int64{1250, -5, 0} {
				c.Decs[i] = batch.DecFromInt64(v)
			}
		default:
			for i, v := range []string{"Hello", "grüße, ein längerer Text", ""} {
				c.SetBytes(i, []byte(v))
			}
		}
		if f.Nullable {
			c.SetNull(2, 3)
		}
		b.Cols = append(b.Cols, c)
	}
	b.Cols[6].Ints = []int64{1_785_542_399_123_456, -1, 0} // 2026-07-31 23:59:59.123456
	b.Cols[7].Ints = []int64{20665, -1, 0}
	return b
}

func mustBind(t testing.TB, src string) *Typed {
	t.Helper()
	n, err := Parse(src)
	if err != nil {
		t.Fatalf("Parse(%q): %v", src, err)
	}
	typed, err := Bind(n, SchemaScope(testSchema))
	if err != nil {
		t.Fatalf("Bind(%q): %v", src, err)
	}
	return typed
}

func mustCompile(t testing.TB, typed *Typed) *Program {
	t.Helper()
	p, err := Compile(typed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// show is row i of a column as text.
func show(c *batch.Column, i int) string {
	v := constAt(c, i)
	if v.Null {
		return "null"
	}
	switch v.Type.Kind {
	case batch.Float64:
		return string(appendFloat(nil, v.Float))
	case batch.Timestamp:
		return string(appendTimestamp(nil, v.Int, v.Type.Precision))
	case batch.Date:
		return string(appendDate(nil, v.Int))
	case batch.String, batch.Bytes:
		return v.Text
	}
	return v.String()
}

// evalRow evaluates src on one row of testBatch: the value as text, or "error: …".
func evalRow(t testing.TB, src string, row int) string {
	t.Helper()
	p := mustCompile(t, mustBind(t, src))
	c, err := p.Eval(testBatch(), []int32{int32(row)})
	var re *batch.RowError
	switch {
	case errors.As(err, &re):
		if re.Row != row {
			t.Errorf("%s: error names row %d, want %d", src, re.Row, row)
		}
		return "error: " + re.Err.Error()
	case err != nil:
		t.Fatalf("%s: %v", src, err)
	}
	return show(&c, row)
}

type evalCase struct {
	src  string
	row  int
	want string
}

func runEval(t *testing.T, cases []evalCase) {
	t.Helper()
	for _, c := range cases {
		if got := evalRow(t, c.src, c.row); got != c.want {
			t.Errorf("%s in row %d = %s, want %s", c.src, c.row, got, c.want)
		}
	}
}

// bindError is the message of Parse or Bind with the offset in front: "12: …".
func bindError(src string) string {
	n, err := Parse(src)
	if err == nil {
		_, err = Bind(n, SchemaScope(testSchema))
	}
	var e *Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%d: %v", e.Offset, e)
	}
	return fmt.Sprint(err)
}
