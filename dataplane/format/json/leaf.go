package json

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/weirstream/weir/dataplane/batch"
)

// columns are the columns of one Decode call and what its values share.
type columns struct {
	cols []batch.Column // by leaf id
	rows int
	base int // offset of the current record's value in the record buffer
	// arena holds the values that are not found literally in the records. It is buffer 1 of every string
	// column; views hold offsets, so it may grow.
	arena   []byte
	scratch []byte
	mode    Timestamps
	minute  minuteCache
	plain   bool // tests only: no layouts are learned
}

// read reads the value at v[i] into row of l's column and returns the position behind it.
func (d *columns) read(l *leaf, v []byte, i, row int) (end int, f fault) {
	c := &d.cols[l.id]
	if at(v, i) == 'n' {
		if end = skipWord(v, i, 4); end < 0 {
			return i, faultSyntax
		}
		if !l.absent(len(l.path) - 1) {
			return i, faultNull
		}
		c.SetNull(row, d.rows)
		return end, ok
	}
	switch l.typ.Kind {
	case batch.Int64:
		if isNumber(at(v, i)) {
			c.Ints[row], end, f = readInt(v, i)
			return end, f
		}
	case batch.Float64:
		if isNumber(at(v, i)) {
			c.Floats[row], end, f = readFloat(v, i)
			return end, f
		}
	case batch.Decimal:
		if isNumber(at(v, i)) {
			c.Decs[row], end, f = readDecimal(v, i, l.typ)
			return end, f
		}
	case batch.Bool:
		if b := at(v, i); b == 't' || b == 'f' {
			c.Bools.SetTo(row, b == 't')
			if end = skipValue(v, i); end < 0 {
				return i, faultSyntax
			}
			return end, ok
		}
	case batch.Timestamp:
		c.Ints[row], end, f = d.readTimestamp(v, i)
		return end, f
	case batch.Date, batch.String, batch.Bytes:
		if at(v, i) == '"' {
			return d.readText(c, v, i, row)
		}
	}
	return i, wrongType(v, i)
}

func isNumber(c byte) bool { return c == '-' || c-'0' <= 9 }

// wrongType is the fault of a value that does not begin as its type must.
func wrongType(v []byte, i int) fault {
	switch c := at(v, i); c {
	case '"', '{', '[', 't', 'f', '-':
		return faultType
	default:
		if isNumber(c) {
			return faultType
		}
	}
	return faultSyntax
}

func (d *columns) readTimestamp(v []byte, i int) (micros int64, end int, f fault) {
	if unit := d.mode.micros(); unit != 0 {
		if !isNumber(at(v, i)) {
			return 0, i, wrongType(v, i)
		}
		n, end, f := readInt(v, i)
		if f == ok {
			n, f = scaleEpoch(n, unit)
		}
		return n, end, f
	}
	if at(v, i) != '"' {
		return 0, i, wrongType(v, i)
	}
	if micros, end = d.minute.readMillis(v, i+1, d.mode); end >= 0 {
		return micros, end, ok
	}
	s, end, f := d.text(v, i)
	if f != ok {
		return 0, i, f
	}
	micros, utc, valid := parseTimestamp(s, d.mode)
	if !valid {
		return 0, i, faultTime
	}
	if utc {
		d.minute.remember(s, micros)
	}
	return micros, end, ok
}

// text returns the string at v[i], unescaped into scratch if it has to be.
func (d *columns) text(v []byte, i int) (s []byte, end int, f fault) {
	end, escaped, f := scanString(v, i+1)
	if f != ok {
		return nil, i, f
	}
	s = v[i+1 : end]
	if escaped {
		d.scratch = appendUnescaped(d.scratch[:0], s)
		s = d.scratch
	}
	return s, end + 1, ok
}

// readText reads the string at v[i] into a string, bytes or date column.
func (d *columns) readText(c *batch.Column, v []byte, i, row int) (end int, f fault) {
	if c.Type.Kind == batch.String {
		end, escaped, f := scanString(v, i+1)
		if f != ok {
			return i, f
		}
		if !escaped {
			setView(&c.Views[row], v, i+1, end, d.base)
			return end + 1, ok
		}
		from := len(d.arena)
		d.arena = appendUnescaped(d.arena, v[i+1:end])
		c.Views[row] = batch.MakeView(d.arena[from:], 1, from)
		return end + 1, ok
	}
	s, end, f := d.text(v, i)
	if f != ok {
		return i, f
	}
	if c.Type.Kind == batch.Date {
		days, valid := parseDate(s)
		if !valid {
			return i, faultTime
		}
		c.Ints[row] = days
		return end, ok
	}
	from := len(d.arena)
	b, err := strictBase64.AppendDecode(d.arena, s)
	if err != nil || hasLineBreak(s) {
		return i, faultBase64
	}
	d.arena = b
	c.Views[row] = batch.MakeView(b[from:], 1, from)
	return end, ok
}

var strictBase64 = base64.StdEncoding.Strict()

// hasLineBreak reports whether s has a line break, which the standard library's decoder ignores.
func hasLineBreak(s []byte) bool {
	for _, c := range s {
		if c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}

// inlineMasks[n] has the bytes of an inline view of n bytes, as the words of batch.View.
var inlineMasks = func() (m [13][3]uint32) {
	var ones, b [12]byte
	for i := range ones {
		ones[i] = 0xff
	}
	for n := range m {
		b = [12]byte{}
		copy(b[:n], ones[:])
		for w := range m[n] {
			m[n][w] = binary.NativeEndian.Uint32(b[4*w:])
		}
	}
	return m
}()

// setView stores the view of v[i:end] in w, field by field: a struct on the stack would be read back before it
// has left the store buffer. base is the place of v in buffer 0. Short values are copied by words rather than
// bytes where the record reaches far enough.
func setView(w *batch.View, v []byte, i, end, base int) {
	n := end - i
	if n <= 12 && i+12 > len(v) {
		*w = batch.InlineView(v[i:end])
		return
	}
	b := v[i : i+12 : i+12]
	w.Len = int32(n)
	if n > 12 {
		w.Prefix, w.Buf, w.Off = [4]byte(b), 0, int32(base+i)
		return
	}
	m := &inlineMasks[n]
	binary.NativeEndian.PutUint32(w.Prefix[:], binary.NativeEndian.Uint32(b)&m[0])
	w.Buf = int32(binary.NativeEndian.Uint32(b[4:]) & m[1])
	w.Off = int32(binary.NativeEndian.Uint32(b[8:]) & m[2])
}
