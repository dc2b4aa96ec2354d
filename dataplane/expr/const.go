package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

// Const is a constant value: the field that belongs to Type.Kind holds it. A Null with an Invalid type is
// the literal NULL, which takes the type that its place asks for.
type Const struct {
	Type  batch.Type
	Null  bool
	Bool  bool
	Int   int64 // Int64; Timestamp in µs, Date in days; intervals in µs
	Float float64
	Dec   batch.Dec128
	Text  string // String, Bytes
}

// kindInterval is the kind of INTERVAL literals, which exist at Bind time only.
const kindInterval batch.Kind = 255

var (
	boolType      = batch.Type{Kind: batch.Bool}
	intType       = batch.Type{Kind: batch.Int64}
	floatType     = batch.Type{Kind: batch.Float64}
	textType      = batch.Type{Kind: batch.String}
	dateType      = batch.Type{Kind: batch.Date}
	timestampType = batch.Type{Kind: batch.Timestamp, Precision: 6}
	intervalType  = batch.Type{Kind: kindInterval}
)

func boolConst(v bool) Const     { return Const{Type: boolType, Bool: v} }
func intConst(v int64) Const     { return Const{Type: intType, Int: v} }
func floatConst(v float64) Const { return Const{Type: floatType, Float: v} }
func textConst(v string) Const   { return Const{Type: textType, Text: v} }

// decimalLiteral reads an exact literal; its type has just the digits that are written.
func decimalLiteral(text string) (Const, bool) {
	whole, frac, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	digits := len(strings.TrimLeft(whole, "0")) + len(frac)
	if digits > batch.MaxPrecision {
		return Const{}, false
	}
	t := batch.Type{Kind: batch.Decimal, Precision: uint8(max(digits, 1)), Scale: uint8(len(frac))}
	d, err := batch.ParseDecimal(text, t.Precision, t.Scale)
	return Const{Type: t, Dec: d}, err == nil
}

// typeName is the type as messages show it.
func typeName(t batch.Type) string {
	switch t.Kind {
	case kindInterval:
		return "interval"
	case batch.Invalid:
		return "null"
	}
	return t.String()
}

// String is the constant as SQL.
func (c Const) String() string {
	if c.Null {
		if c.Type.Kind == batch.Invalid {
			return "null"
		}
		return "cast(null as " + typeName(c.Type) + ")"
	}
	switch c.Type.Kind {
	case batch.Bool:
		return strconv.FormatBool(c.Bool)
	case batch.Int64:
		return strconv.FormatInt(c.Int, 10)
	case batch.Float64:
		return strings.Replace(strconv.FormatFloat(c.Float, 'e', -1, 64), "e+", "e", 1)
	case batch.Decimal:
		return c.Dec.Text(c.Type.Scale)
	case batch.Timestamp:
		return "timestamp '" + string(appendTimestamp(nil, c.Int, c.Type.Precision)) + "'"
	case batch.Date:
		return "date '" + string(appendDate(nil, c.Int)) + "'"
	case kindInterval:
		return "interval '" + strconv.FormatInt(c.Int, 10) + "us'"
	}
	return "'" + strings.ReplaceAll(c.Text, "'", "''") + "'"
}

// column returns a column of n rows of the constant.
func (c Const) column(n int) batch.Column {
	col := batch.NewColumn(c.Type, n)
	if c.Null {
		col.Valid = batch.NewBitmap(n)
		return col
	}
	switch {
	case c.Type.Kind == batch.Bool && c.Bool:
		col.Bools = batch.Ones(n)
	case c.Type.IsInt64():
		fill(col.Ints, c.Int)
	case c.Type.Kind == batch.Float64:
		fill(col.Floats, c.Float)
	case c.Type.Kind == batch.Decimal:
		fill(col.Decs, c.Dec)
	case c.Type.IsView():
		data := []byte(c.Text)
		col.Bufs = [][]byte{data}
		fill(col.Views, batch.MakeView(data, 0, 0))
	}
	return col
}

// constAt reads row i of a column.
func constAt(col *batch.Column, i int) Const {
	c := Const{Type: col.Type, Null: col.Null(i)}
	switch {
	case c.Null:
	case c.Type.Kind == batch.Bool:
		c.Bool = col.Bools.Get(i)
	case c.Type.IsInt64():
		c.Int = col.Ints[i]
	case c.Type.Kind == batch.Float64:
		c.Float = col.Floats[i]
	case c.Type.Kind == batch.Decimal:
		c.Dec = col.Decs[i]
	case c.Type.IsView():
		c.Text = string(col.Bytes(i))
	}
	return c
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
