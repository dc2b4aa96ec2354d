package json

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// Why a row cannot be encoded, besides invalid UTF-8.
var (
	errNotFinite = errors.New("JSON has no NaN and no infinity")
	errText      = errors.New("string is not valid UTF-8")
	errYear      = errors.New("year is not in 0000 to 9999")
)

// Encoder encodes rows as JSON objects, one member a column under the column's name. It implements
// format.Encoder and is owned by one goroutine.
//
// Integers and decimals are written exactly, decimals with all digits of their scale; doubles with the fewest
// digits that read back as the same number; bytes as base64. A timestamp has as many digits of its second as
// its type says, further ones are cut off; epoch notations cut off what is below their unit. NaN, infinities,
// invalid UTF-8 and years that need more than four digits are a *batch.RowError.
type Encoder struct {
	mode   Timestamps
	schema *batch.Schema
	names  [][]byte // per column, `"name":`
	minute minuteText
}

// NewEncoder returns an encoder for batches of the given schema. It refuses fields without a type and names that
// are not valid UTF-8.
func NewEncoder(opts Options, schema *batch.Schema) (*Encoder, error) {
	e := &Encoder{mode: opts.Timestamps}
	if err := e.prepare(schema); err != nil {
		return nil, err
	}
	return e, nil
}

// prepare quotes the names of the columns.
func (e *Encoder) prepare(schema *batch.Schema) error {
	names := make([][]byte, len(schema.Fields))
	for i, f := range schema.Fields {
		if f.Type.Kind == batch.Invalid || f.Type.Kind > batch.Bytes {
			return fmt.Errorf("json: column %q has no type", f.Name)
		}
		name, valid := appendString(nil, []byte(f.Name))
		if !valid {
			return fmt.Errorf("json: column name %q is not valid UTF-8", f.Name)
		}
		names[i] = append(name, ':')
	}
	e.schema, e.names = schema, names
	return nil
}

// Encode implements format.Encoder. A batch of another schema than that of the batch before is allowed.
func (e *Encoder) Encode(dst *format.Encoded, b *batch.Batch, cols []int) error {
	if b.Schema != e.schema {
		if err := e.prepare(b.Schema); err != nil {
			return err
		}
	}
	dst.Ends = slices.Grow(dst.Ends, b.Len())
	for i := range b.Len() {
		row := b.Row(i)
		from := len(dst.Buf)
		buf, col, err := e.appendRow(dst.Buf, b, cols, row)
		if err != nil {
			dst.Buf = buf[:from]
			return &batch.RowError{Row: row, Place: fmt.Sprintf("json: column %q", b.Schema.Fields[col].Name), Err: err}
		}
		if len(buf) > math.MaxInt32 {
			dst.Buf = buf[:from]
			return fmt.Errorf("json: encode: more than %d bytes at row %d", math.MaxInt32, row)
		}
		dst.Buf = buf
		dst.Ends = append(dst.Ends, int32(len(buf)))
	}
	return nil
}

// appendRow appends one physical row of b. On an error, which is not yet a RowError, col is the
// column concerned.
func (e *Encoder) appendRow(buf []byte, b *batch.Batch, cols []int, row int) (_ []byte, col int, err error) {
	sep := byte('{')
	for _, col := range cols {
		buf = append(append(buf, sep), e.names[col]...)
		sep = ','
		if buf, err = e.appendValue(buf, &b.Cols[col], row); err != nil {
			return buf, col, err
		}
	}
	if sep == '{' {
		buf = append(buf, '{')
	}
	return append(buf, '}'), 0, nil
}

func (e *Encoder) appendValue(buf []byte, c *batch.Column, row int) ([]byte, error) {
	if c.Null(row) {
		return append(buf, "null"...), nil
	}
	switch c.Type.Kind {
	case batch.Bool:
		return strconv.AppendBool(buf, c.Bools.Get(row)), nil
	case batch.Float64:
		return appendFloat(buf, c.Floats[row])
	case batch.Decimal:
		return appendDecimal(buf, c.Decs[row], int(c.Type.Scale)), nil
	case batch.Timestamp:
		return e.appendTimestamp(buf, c.Ints[row], int(c.Type.Precision))
	case batch.Date:
		return appendDay(buf, c.Ints[row])
	case batch.String:
		buf, valid := appendString(buf, c.Bytes(row))
		if !valid {
			return buf, errText
		}
		return buf, nil
	case batch.Bytes:
		buf = strictBase64.AppendEncode(append(buf, '"'), c.Bytes(row))
		return append(buf, '"'), nil
	}
	return strconv.AppendInt(buf, c.Ints[row], 10), nil
}

func (e *Encoder) appendTimestamp(buf []byte, micros int64, precision int) ([]byte, error) {
	if unit := e.mode.micros(); unit != 0 {
		return strconv.AppendInt(buf, (micros-mod(micros, unit))/unit, 10), nil
	}
	buf, valid := e.minute.append(append(buf, '"'), micros, precision, e.mode)
	if !valid {
		return buf, errYear
	}
	return append(buf, '"'), nil
}

func appendDay(buf []byte, days int64) ([]byte, error) {
	if days < firstDay || days > lastDay {
		return buf, errYear
	}
	buf = appendDate(append(buf, '"'), days)
	return append(buf, '"'), nil
}
