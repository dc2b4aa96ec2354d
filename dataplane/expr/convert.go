package expr

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

// castNode binds CAST and TRY_CAST.
func (b *binder) castNode(n *Cast) (*Typed, error) {
	x, err := b.bind(n.X)
	if err != nil {
		return nil, err
	}
	if x.isNullLiteral() {
		return constant(n.Offset(), Const{Type: n.Type, Null: true}), nil
	}
	if x.typ == n.Type && n.Narrow == 0 {
		return x, nil
	}
	t := convert(x, n.Type, n.Narrow, n.Try, n.Offset())
	if t == nil {
		e := errAt(n.Offset(), "%s cannot be cast to %s", typeName(x.typ), typeName(n.Type))
		if x.typ.Kind == batch.Int64 && n.Type.Kind == batch.Timestamp {
			e = e.hint("write to_timestamp_ms(…)")
		}
		if x.typ.Kind == batch.Timestamp && n.Type.Kind == batch.Int64 {
			e = e.hint("write unix_ms(…)")
		}
		return nil, e
	}
	if n.Try && t.op == opCall {
		t.nullable = true
	}
	return fold(t), nil
}

// convert returns t as typ, nil if there is no such conversion.
func convert(t *Typed, typ batch.Type, narrow int, try bool, at int) *Typed {
	if retag(t.typ, typ) && narrow == 0 {
		// The same values, shown with other digits.
		c := *t
		c.typ = typ
		c.value.Type = typ
		return &c
	}
	run := bulkConversion(t.typ, typ)
	if run == nil || narrow != 0 {
		row := conversion(t.typ, typ, narrow)
		if row == nil {
			return nil
		}
		run = each(row)
		if try {
			run = eachOrNull(row)
		}
	}
	k := &kernel{run: run, nulls: try, views: t.typ.IsView() && typ.IsView()}
	return fold(&Typed{typ: typ, nullable: t.nullable || try, at: at, op: opCall, args: []*Typed{t}, fn: k})
}

// retag reports whether every value of from is one of to, unchanged.
func retag(from, to batch.Type) bool {
	switch {
	case from.Kind != to.Kind:
		return false
	case from.Kind == batch.Timestamp:
		return from.Precision <= to.Precision
	case from.Kind == batch.Decimal:
		return from.Scale == to.Scale && from.Precision <= to.Precision
	}
	return true
}

// bulkConversion are the loops of conversions that cannot fail and are frequent: the implicit ones.
func bulkConversion(from, to batch.Type) func(*frame) error {
	switch {
	case from.Kind == batch.Int64 && to.Kind == batch.Float64:
		return func(f *frame) error {
			for _, r := range f.rows {
				f.out.Floats[r] = float64(f.in[0].Ints[r])
			}
			return nil
		}
	case from.Kind == batch.Decimal && to.Kind == batch.Float64:
		return func(f *frame) error {
			for _, r := range f.rows {
				f.out.Floats[r] = f.in[0].Decs[r].Float64(from.Scale)
			}
			return nil
		}
	case from.Kind == batch.Int64 && to.Kind == batch.Decimal && to.Scale == 0 && to.Precision >= 19:
		return func(f *frame) error {
			for _, r := range f.rows {
				f.out.Decs[r] = batch.DecFromInt64(f.in[0].Ints[r])
			}
			return nil
		}
	}
	return nil
}

type rowFunc = func(f *frame, r int32) error

// conversion returns the conversion of one value; nil if there is none.
func conversion(from, to batch.Type, narrow int) rowFunc {
	switch from.Kind {
	case batch.Bool:
		return fromBool(to)
	case batch.Int64:
		return fromInt(to, narrow)
	case batch.Float64:
		return fromFloat(to, narrow)
	case batch.Decimal:
		return fromDecimal(from, to, narrow)
	case batch.Timestamp, batch.Date:
		return fromTime(from, to)
	case batch.String:
		return fromText(to, narrow)
	case batch.Bytes:
		if to.Kind == batch.String {
			return func(f *frame, r int32) error {
				if v := f.in[0].Bytes(int(r)); !validUTF8(v) {
					return errors.New("the bytes are no UTF-8 text")
				}
				f.part(r, 0, 0, int(f.in[0].Views[r].Len))
				return nil
			}
		}
	}
	return nil
}

// putText appends the text that write makes.
func putText(write func(dst []byte, f *frame, r int32) []byte) rowFunc {
	return func(f *frame, r int32) error {
		f.buf = write(f.buf[:0], f, r)
		f.out.SetBytes(int(r), f.buf)
		return nil
	}
}

func fromBool(to batch.Type) rowFunc {
	switch to.Kind {
	case batch.Int64:
		return func(f *frame, r int32) error {
			f.out.Ints[r] = int64(boolInt(f.in[0].Bools.Get(int(r))))
			return nil
		}
	case batch.String:
		return putText(func(dst []byte, f *frame, r int32) []byte {
			return append(dst, strings.ToUpper(strconv.FormatBool(f.in[0].Bools.Get(int(r))))...)
		})
	}
	return nil
}

// putInt stores v, checked against the width of int.
func putInt(f *frame, r int32, v int64, narrow int) error {
	if narrow == 32 && v != int64(int32(v)) {
		return fmt.Errorf("%d as int: %w", v, ErrOverflow)
	}
	f.out.Ints[r] = v
	return nil
}

func putDecimal(f *frame, r int32, d batch.Dec128, ok bool, to batch.Type) error {
	if !ok || !d.Fits(to.Precision) {
		return fmt.Errorf("as %s: %w", to, ErrOverflow)
	}
	f.out.Decs[r] = d
	return nil
}

func fromInt(to batch.Type, narrow int) rowFunc {
	switch to.Kind {
	case batch.Int64:
		return func(f *frame, r int32) error { return putInt(f, r, f.in[0].Ints[r], narrow) }
	case batch.Decimal:
		return func(f *frame, r int32) error {
			d, ok := batch.DecFromInt64(f.in[0].Ints[r]).Rescale(0, to.Scale)
			return putDecimal(f, r, d, ok, to)
		}
	case batch.Bool:
		return func(f *frame, r int32) error {
			f.out.Bools.SetTo(int(r), f.in[0].Ints[r] != 0)
			return nil
		}
	case batch.String:
		return putText(func(dst []byte, f *frame, r int32) []byte { return strconv.AppendInt(dst, f.in[0].Ints[r], 10) })
	}
	return nil
}

func fromFloat(to batch.Type, narrow int) rowFunc {
	switch to.Kind {
	case batch.Int64:
		return func(f *frame, r int32) error {
			v := f.in[0].Floats[r]
			// 2^63 is a double, 2^63−1 is not.
			if !(v > -(1<<63)-1025 && v < 1<<63) {
				return fmt.Errorf("%v as bigint: %w", v, ErrOverflow)
			}
			return putInt(f, r, int64(v), narrow)
		}
	case batch.Decimal:
		return func(f *frame, r int32) error {
			d, ok := batch.DecFromFloat64(f.in[0].Floats[r], to.Precision, to.Scale)
			return putDecimal(f, r, d, ok, to)
		}
	case batch.String:
		return putText(func(dst []byte, f *frame, r int32) []byte { return appendFloat(dst, f.in[0].Floats[r]) })
	}
	return nil
}

// appendFloat writes the shortest text that reads back as v, with a point or an exponent.
func appendFloat(dst []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 0):
		return append(dst, map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]...)
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e7) {
		format = 'E'
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, v, format, -1, 64)
	if format == 'f' && !strings.Contains(string(dst[n:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func fromDecimal(from, to batch.Type, narrow int) rowFunc {
	switch to.Kind {
	case batch.Int64:
		return func(f *frame, r int32) error {
			v, ok := f.in[0].Decs[r].Truncate(from.Scale).Int64()
			if !ok {
				return fmt.Errorf("%s as bigint: %w", f.in[0].Decs[r].Text(from.Scale), ErrOverflow)
			}
			return putInt(f, r, v, narrow)
		}
	case batch.Decimal:
		return func(f *frame, r int32) error {
			d, ok := f.in[0].Decs[r].Rescale(from.Scale, to.Scale)
			return putDecimal(f, r, d, ok, to)
		}
	case batch.String:
		return putText(func(dst []byte, f *frame, r int32) []byte { return f.in[0].Decs[r].AppendText(dst, from.Scale) })
	}
	return nil
}

func fromTime(from, to batch.Type) rowFunc {
	date := from.Kind == batch.Date
	switch {
	case to.Kind == batch.String && date:
		return putText(func(dst []byte, f *frame, r int32) []byte { return appendDate(dst, f.in[0].Ints[r]) })
	case to.Kind == batch.String:
		return putText(func(dst []byte, f *frame, r int32) []byte {
			return appendTimestamp(dst, f.in[0].Ints[r], from.Precision)
		})
	case to.Kind == batch.Date:
		return func(f *frame, r int32) error {
			f.out.Ints[r] = floorDiv(f.in[0].Ints[r], usDay)
			return nil
		}
	case to.Kind == batch.Timestamp && date:
		return func(f *frame, r int32) error {
			us, ok := mulInt(f.in[0].Ints[r], usDay)
			f.out.Ints[r] = us
			return overflowUnless(ok)
		}
	case to.Kind == batch.Timestamp:
		unit := int64(math.Pow10(6 - int(to.Precision)))
		return func(f *frame, r int32) error {
			f.out.Ints[r] = floorDiv(f.in[0].Ints[r], unit) * unit
			return nil
		}
	}
	return nil
}

func overflowUnless(ok bool) error {
	if !ok {
		return ErrOverflow
	}
	return nil
}

// fromText reads a value from text, spaces around it ignored.
func fromText(to batch.Type, narrow int) rowFunc {
	read := func(f *frame, r int32) string { return strings.TrimSpace(f.in[0].Text(int(r))) }
	switch to.Kind {
	case batch.Bool:
		return func(f *frame, r int32) error {
			v, err := parseBool(read(f, r))
			f.out.Bools.SetTo(int(r), v)
			return err
		}
	case batch.Int64:
		return func(f *frame, r int32) error {
			v, err := parseInt(read(f, r))
			if err != nil {
				return err
			}
			return putInt(f, r, v, narrow)
		}
	case batch.Float64:
		return func(f *frame, r int32) error {
			v, err := strconv.ParseFloat(read(f, r), 64)
			f.out.Floats[r] = v
			return notA(err, read(f, r), to)
		}
	case batch.Decimal:
		return func(f *frame, r int32) error {
			d, err := batch.ParseDecimal(read(f, r), to.Precision, to.Scale)
			f.out.Decs[r] = d
			return err
		}
	case batch.Timestamp:
		unit := int64(math.Pow10(6 - int(to.Precision)))
		return func(f *frame, r int32) error {
			us, err := parseTimestamp(read(f, r))
			f.out.Ints[r] = floorDiv(us, unit) * unit
			return notA(err, read(f, r), to)
		}
	case batch.Date:
		return func(f *frame, r int32) error {
			days, err := parseDate(read(f, r))
			f.out.Ints[r] = days
			return notA(err, read(f, r), to)
		}
	case batch.Bytes:
		return func(f *frame, r int32) error {
			f.part(r, 0, 0, int(f.in[0].Views[r].Len))
			return nil
		}
	}
	return nil
}

// notA says that text is no value of type to.
func notA(err error, text string, to batch.Type) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, strconv.ErrRange) || errors.Is(err, errRange) {
		return fmt.Errorf("%q as %s: %w", text, to, ErrOverflow)
	}
	return fmt.Errorf("%q is no %s", text, to)
}

func parseInt(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, notA(err, s, intType)
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "1":
		return true, nil
	case "false", "f", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is no boolean", s)
}
