package batch

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// The wire form of a batch is its memory, column after column, so that decoding copies no values. All numbers
// are little-endian and every section is padded to 8 bytes, counted from the start:
//
//	header   version u8 · flags u8 · columns u16 · rows u32 · watermark i64
//	column   kind u8 · precision u8 · scale u8 · flags u8 · heap length u32
//	         validity, one bit a row (if flagged)
//	         values: bits (boolean), 8 bytes, 16 bytes (decimal) or a 16-byte view a row
//	         heap: the bytes of the views longer than 12, which have buffer 0 and their offset in the heap
//	         … as many columns as the header says
//	time     8 bytes a row (if flagged)
//	hash     8 bytes a row (if flagged)
//	change   1 byte a row (if flagged)
//
// A batch without rows has no columns. Hosts are little-endian, as everywhere in this package.
const (
	codecVersion   = 1
	headerSize     = 16
	columnHeadSize = 8

	flagTime   = 1 << 0
	flagHash   = 1 << 1
	flagChange = 1 << 2
	flagIdle   = 1 << 3
	allFlags   = flagTime | flagHash | flagChange | flagIdle

	flagValid = 1 << 0
)

// MaxRows is the largest number of rows that a batch has on the wire.
const MaxRows = 1 << 20

// EncodedSize is the number of bytes that AppendBatch appends for a batch without selection.
func EncodedSize(b *Batch) int {
	n := headerSize
	if b.Rows == 0 {
		return n
	}
	for i := range b.Cols {
		c := &b.Cols[i]
		n += columnHeadSize + valueSize(c.Type, b.Rows) + pad8(c.heapSize(b.Rows))
		if c.Valid != nil {
			n += bitmapSize(b.Rows)
		}
	}
	if b.Time != nil {
		n += 8 * b.Rows
	}
	if b.Hash != nil {
		n += 8 * b.Rows
	}
	if b.Change != nil {
		n += pad8(b.Rows)
	}
	return n
}

// AppendBatch appends the wire form of b, with its selection applied, to dst. Align dst's length to 8 where
// the receiver is to decode without a copy. A batch of more than MaxRows rows cannot be decoded.
func AppendBatch(dst []byte, b *Batch) []byte {
	b = Compact(b)
	dst = slices.Grow(dst, EncodedSize(b))
	dst = appendHeader(dst, b)
	if b.Rows == 0 {
		return dst
	}
	for i := range b.Cols {
		dst = b.Cols[i].appendWire(dst, b.Rows)
	}
	if b.Time != nil {
		dst = append(dst, memory(b.Time[:b.Rows])...)
	}
	if b.Hash != nil {
		dst = append(dst, memory(b.Hash[:b.Rows])...)
	}
	if b.Change != nil {
		dst = append(dst, memory(b.Change[:b.Rows])...)
		dst = append(dst, padding[:pad8(b.Rows)-b.Rows]...)
	}
	return dst
}

func appendHeader(dst []byte, b *Batch) []byte {
	var flags byte
	cols := len(b.Cols)
	if b.Rows == 0 {
		cols = 0
	} else {
		flags = flagIf(b.Time != nil, flagTime) | flagIf(b.Hash != nil, flagHash) | flagIf(b.Change != nil, flagChange)
	}
	flags |= flagIf(b.Idle, flagIdle)
	dst = append(dst, codecVersion, flags)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(cols))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.Rows))
	return binary.LittleEndian.AppendUint64(dst, uint64(b.Watermark))
}

func flagIf(on bool, flag byte) byte {
	if on {
		return flag
	}
	return 0
}

// appendWire appends the first rows rows of the column.
func (c *Column) appendWire(dst []byte, rows int) []byte {
	heap := c.heapSize(rows)
	dst = append(dst, byte(c.Type.Kind), c.Type.Precision, c.Type.Scale, flagIf(c.Valid != nil, flagValid))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(heap))
	words := bitmapSize(rows) / 8
	if c.Valid != nil {
		dst = append(dst, memory(c.Valid[:words])...)
	}
	switch {
	case c.Type.Kind == Bool:
		return append(dst, memory(c.Bools[:words])...)
	case c.Type.IsInt64():
		return append(dst, memory(c.Ints[:rows])...)
	case c.Type.Kind == Float64:
		return append(dst, memory(c.Floats[:rows])...)
	case c.Type.Kind == Decimal:
		return append(dst, memory(c.Decs[:rows])...)
	case c.Type.IsView():
		return c.appendViews(dst, rows, heap)
	}
	return dst
}

// appendViews appends the views, rewritten to point into the one heap that follows them. What a null row
// points at is not sent.
func (c *Column) appendViews(dst []byte, rows, heap int) []byte {
	var off int32
	for i := range rows {
		v := c.Views[i]
		switch {
		case c.Null(i):
			v = View{}
		case v.Len > maxInline:
			v.Buf, v.Off = 0, off
			off += v.Len
		}
		dst = append(dst, (*[viewSize]byte)(unsafe.Pointer(&v))[:]...)
	}
	for i := range rows {
		if v := &c.Views[i]; v.Len > maxInline && !c.Null(i) {
			dst = append(dst, c.Bufs[v.Buf][v.Off:v.Off+v.Len]...)
		}
	}
	return append(dst, padding[:pad8(heap)-heap]...)
}

const viewSize = int(unsafe.Sizeof(View{}))

// heapSize is the number of bytes that the column's views keep in buffers.
func (c *Column) heapSize(rows int) int {
	if !c.Type.IsView() {
		return 0
	}
	n := 0
	for i := range rows {
		if l := c.Views[i].Len; l > maxInline && !c.Null(i) {
			n += int(l)
		}
	}
	return n
}

// valueSize is the size of rows values without heap.
func valueSize(t Type, rows int) int {
	switch {
	case t.Kind == Bool:
		return bitmapSize(rows)
	case t.Kind == Decimal || t.IsView():
		return 16 * rows
	}
	return 8 * rows
}

func bitmapSize(rows int) int { return (rows + 63) / 64 * 8 }

func pad8(n int) int { return (n + 7) &^ 7 }

var padding [8]byte

// memory is the memory of s as bytes.
func memory[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}
