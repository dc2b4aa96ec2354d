package batch

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// DecodeBatch reads what AppendBatch wrote, exactly all of src. The batch aliases src, which must not change
// any more; only what src holds misaligned to 8 bytes is copied. Input is not trusted: every length is
// checked against src before it is used, and a decoded batch is well-formed whatever src is (views lie
// within their heap and agree with it, changes are known ones).
func DecodeBatch(src []byte, schema *Schema) (*Batch, error) {
	b, err := decodeBatch(src, schema)
	if err != nil {
		return nil, fmt.Errorf("decode batch: %w", err)
	}
	return b, nil
}

func decodeBatch(src []byte, schema *Schema) (*Batch, error) {
	if len(src) < headerSize {
		return nil, fmt.Errorf("%d bytes, the header has %d", len(src), headerSize)
	}
	if src[0] != codecVersion {
		return nil, fmt.Errorf("version %d, want %d", src[0], codecVersion)
	}
	flags, cols := src[1], int(binary.LittleEndian.Uint16(src[2:]))
	rows := binary.LittleEndian.Uint32(src[4:])
	if flags&^allFlags != 0 {
		return nil, fmt.Errorf("unknown flags %#x", flags)
	}
	if rows > MaxRows {
		return nil, fmt.Errorf("%d rows, at most %d are allowed", rows, MaxRows)
	}
	b := &Batch{Schema: schema, Rows: int(rows), Idle: flags&flagIdle != 0, Watermark: int64(binary.LittleEndian.Uint64(src[8:]))}
	d := decoder{rest: src[headerSize:], rows: int(rows)}
	if rows == 0 {
		if cols != 0 || flags&^flagIdle != 0 || len(d.rest) != 0 {
			return nil, fmt.Errorf("no rows but %d columns, flags %#x and %d more bytes", cols, flags, len(d.rest))
		}
		b.Cols = emptyColumns(schema)
		return b, nil
	}
	if cols != len(schema.Fields) {
		return nil, fmt.Errorf("%d columns, the schema has %d", cols, len(schema.Fields))
	}
	if err := d.columns(b); err != nil {
		return nil, err
	}
	if err := d.tail(b, flags); err != nil {
		return nil, err
	}
	if len(d.rest) != 0 {
		return nil, fmt.Errorf("%d bytes too many", len(d.rest))
	}
	return b, nil
}

// decoder consumes the sections of one batch.
type decoder struct {
	rest []byte
	rows int
}

// take consumes n bytes.
func (d *decoder) take(n int, what string) ([]byte, error) {
	if n > len(d.rest) {
		return nil, fmt.Errorf("%s cut off: %d bytes, want %d", what, len(d.rest), n)
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b, nil
}

func (d *decoder) columns(b *Batch) error {
	// A column needs at least its head, so that a short src cannot ask for much.
	if len(b.Schema.Fields)*columnHeadSize > len(d.rest) {
		return fmt.Errorf("%d columns in %d bytes", len(b.Schema.Fields), len(d.rest))
	}
	b.Cols = make([]Column, len(b.Schema.Fields))
	heaps := make([][]byte, len(b.Cols)) // the buffers of all columns, in one allocation
	for i := range b.Cols {
		f := &b.Schema.Fields[i]
		b.Cols[i].Type = f.Type
		if err := d.column(&b.Cols[i], heaps[i:i+1:i+1]); err != nil {
			return fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	return nil
}

// column decodes into c, whose Type is set; a heap goes into bufs[0].
func (d *decoder) column(c *Column, bufs [][]byte) error {
	head, err := d.take(columnHeadSize, "head")
	if err != nil {
		return err
	}
	got := Type{Kind: Kind(head[0]), Precision: head[1], Scale: head[2]}
	if got != c.Type {
		return fmt.Errorf("type %s, the schema has %s", got, c.Type)
	}
	flags, heap := head[3], binary.LittleEndian.Uint32(head[4:])
	if flags&^flagValid != 0 || heap != 0 && !c.Type.IsView() {
		return fmt.Errorf("flags %#x, heap of %d bytes", flags, heap)
	}
	if flags&flagValid != 0 {
		bits, err := d.take(bitmapSize(d.rows), "validity")
		if err != nil {
			return err
		}
		c.Valid = overlay[uint64](bits)
	}
	values, err := d.take(valueSize(c.Type, d.rows), "values")
	if err != nil {
		return err
	}
	switch {
	case c.Type.Kind == Bool:
		c.Bools = overlay[uint64](values)
	case c.Type.IsInt64():
		c.Ints = overlay[int64](values)
	case c.Type.Kind == Float64:
		c.Floats = overlay[float64](values)
	case c.Type.Kind == Decimal:
		c.Decs = overlay[Dec128](values)
	case c.Type.IsView():
		return d.views(c, values, int(heap), bufs)
	}
	return nil
}

func (d *decoder) views(c *Column, values []byte, heap int, bufs [][]byte) error {
	c.Views = overlay[View](values)
	if heap > len(d.rest) {
		return fmt.Errorf("heap cut off: %d bytes, want %d", len(d.rest), heap)
	}
	padded, err := d.take(pad8(heap), "heap")
	if err != nil {
		return err
	}
	if heap > 0 {
		bufs[0] = padded[:heap:heap]
		c.Bufs = bufs
	}
	for i := range c.Views {
		if !c.Views[i].within(padded[:heap]) {
			return fmt.Errorf("row %d: view does not fit its heap of %d bytes", i, heap)
		}
	}
	return nil
}

// within reports whether v is a well-formed view of heap: inline and zero behind its length, or the true
// prefix of a value that lies in the heap.
func (v *View) within(heap []byte) bool {
	if v.Len > maxInline {
		if v.Buf != 0 || v.Off < 0 || int64(v.Off)+int64(v.Len) > int64(len(heap)) {
			return false
		}
		return v.Prefix == [4]byte(heap[v.Off:])
	}
	if v.Len < 0 {
		return false
	}
	inline := (*[maxInline]byte)(unsafe.Add(unsafe.Pointer(v), 4))
	for _, b := range inline[v.Len:] {
		if b != 0 {
			return false
		}
	}
	return true
}

// tail decodes what follows the columns.
func (d *decoder) tail(b *Batch, flags byte) error {
	if flags&flagTime != 0 {
		t, err := d.take(8*d.rows, "time")
		if err != nil {
			return err
		}
		b.Time = overlay[int64](t)
	}
	if flags&flagHash != 0 {
		h, err := d.take(8*d.rows, "hash")
		if err != nil {
			return err
		}
		b.Hash = overlay[uint64](h)
	}
	if flags&flagChange != 0 {
		c, err := d.take(pad8(d.rows), "change")
		if err != nil {
			return err
		}
		b.Change = overlay[Change](c[:d.rows])
		for i, v := range b.Change {
			if v > Delete {
				return fmt.Errorf("row %d: change %d", i, v)
			}
		}
	}
	return nil
}

// overlay is b, not empty, as values of T without a copy, or as a copy where b is not aligned for T.
func overlay[T any](b []byte) []T {
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if uintptr(unsafe.Pointer(&b[0]))%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
	}
	s := make([]T, n)
	copy(memory(s), b)
	return s
}
