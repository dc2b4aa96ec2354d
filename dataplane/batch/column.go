package batch

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Bitmap is a bit per row, least significant bit of word 0 first. A nil validity bitmap means "no nulls".
type Bitmap []uint64

// NewBitmap returns a bitmap of n zero bits.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Get returns bit i.
func (b Bitmap) Get(i int) bool { return b[i>>6]&(1<<(uint(i)&63)) != 0 }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[i>>6] |= 1 << (uint(i) & 63) }

// Clear clears bit i.
func (b Bitmap) Clear(i int) { b[i>>6] &^= 1 << (uint(i) & 63) }

// SetTo sets bit i to v.
func (b Bitmap) SetTo(i int, v bool) {
	if v {
		b.Set(i)
	} else {
		b.Clear(i)
	}
}

// Ones returns a bitmap of n one bits.
func Ones(n int) Bitmap {
	b := NewBitmap(n)
	for i := range b {
		b[i] = math.MaxUint64
	}
	return b
}

// Dec128 is a 128-bit two's complement integer: the unscaled value of a decimal.
type Dec128 struct {
	Lo uint64
	Hi int64
}

// View is Arrow's 16-byte view of a string or bytes value. Up to 12 bytes are stored inline behind Len;
// longer ones keep their first 4 bytes there, then the index of a buffer and the offset in it.
type View struct {
	Len    int32
	Prefix [4]byte
	Buf    int32
	Off    int32
}

// maxInline is the longest value that a view holds itself.
const maxInline = 12

// InlineView returns the view of a value of at most 12 bytes.
func InlineView(v []byte) View {
	var w View
	w.Len = int32(len(v))
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&w), 4)), maxInline), v)
	return w
}

// MakeView returns the view of bufs[buf][off:off+n], inline if it is short. data is that slice.
func MakeView(data []byte, buf, off int) View {
	if len(data) <= maxInline {
		return InlineView(data)
	}
	return View{Len: int32(len(data)), Prefix: [4]byte(data), Buf: int32(buf), Off: int32(off)}
}

// Column is one column of a batch; exactly one of the value slices is used, by Type.Kind. Values at null
// rows are unspecified but present.
type Column struct {
	Type   Type
	Valid  Bitmap    // nil: no nulls
	Bools  Bitmap    // Bool
	Ints   []int64   // Int64, Timestamp (µs), Date (days)
	Floats []float64 // Float64
	Decs   []Dec128  // Decimal, unscaled at Type.Scale
	Views  []View    // String, Bytes
	Bufs   [][]byte  // what Views point into
}

// Null reports whether row i is null.
func (c *Column) Null(i int) bool { return c.Valid != nil && !c.Valid.Get(i) }

// Bytes returns the string or bytes value of row i. It aliases the column's memory and must not be changed.
func (c *Column) Bytes(i int) []byte {
	v := &c.Views[i]
	if v.Len <= maxInline {
		return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(v), 4)), v.Len)
	}
	return c.Bufs[v.Buf][v.Off : v.Off+v.Len]
}

// Text is Bytes as a string that aliases the column's memory.
func (c *Column) Text(i int) string {
	b := c.Bytes(i)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// NewColumn returns a column of n zero values without nulls.
func NewColumn(t Type, n int) Column {
	c := Column{Type: t}
	c.Grow(n)
	return c
}

// Grow makes the value slice n rows long (zero values), keeping what is there.
func (c *Column) Grow(n int) {
	switch {
	case c.Type.Kind == Bool:
		for len(c.Bools)*64 < n {
			c.Bools = append(c.Bools, 0)
		}
	case c.Type.IsInt64():
		c.Ints = grow(c.Ints, n)
	case c.Type.Kind == Float64:
		c.Floats = grow(c.Floats, n)
	case c.Type.Kind == Decimal:
		c.Decs = grow(c.Decs, n)
	case c.Type.IsView():
		c.Views = grow(c.Views, n)
	}
}

func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		t := s[:n]
		clear(t[len(s):])
		return t
	}
	t := make([]T, n, max(n, 2*cap(s)))
	copy(t, s)
	return t
}

// SetNull marks row i of n as null, creating the validity bitmap at the first null.
func (c *Column) SetNull(i, n int) {
	if c.Valid == nil {
		c.Valid = Ones(n)
	}
	c.Valid.Clear(i)
}

// SetBytes stores a copy of v at row i, in the column's last buffer (its arena). The column must own that
// buffer: use it only on columns built by SetBytes.
func (c *Column) SetBytes(i int, v []byte) {
	if len(v) <= maxInline {
		c.Views[i] = InlineView(v)
		return
	}
	last := len(c.Bufs) - 1
	if last < 0 || cap(c.Bufs[last])-len(c.Bufs[last]) < len(v) {
		c.Bufs = append(c.Bufs, make([]byte, 0, max(4096, 2*len(v), 2*c.arena())))
		last++
	}
	off := len(c.Bufs[last])
	c.Bufs[last] = append(c.Bufs[last], v...)
	c.Views[i] = MakeView(v, last, off)
}

func (c *Column) arena() int {
	if len(c.Bufs) == 0 {
		return 0
	}
	return min(cap(c.Bufs[len(c.Bufs)-1]), 1<<20)
}

// AppendKey appends the canonical bytes of row i: 0 for null, else 1 and the value, fixed-width big-endian
// or a 4-byte big-endian length and the bytes. All NaNs are one, −0 is 0. The bytes outlive versions of
// the program: they are the keys of stored state and decide the key group.
func (c *Column) AppendKey(dst []byte, i int) []byte {
	if c.Null(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch c.Type.Kind {
	case Bool:
		if c.Bools.Get(i) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case Float64:
		return binary.BigEndian.AppendUint64(dst, canonicalFloat(c.Floats[i]))
	case Decimal:
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Decs[i].Hi))
		return binary.BigEndian.AppendUint64(dst, c.Decs[i].Lo)
	case String, Bytes:
		v := c.Bytes(i)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
		return append(dst, v...)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(c.Ints[i]))
}

func canonicalFloat(f float64) uint64 {
	if f == 0 {
		return 0
	}
	if f != f {
		return 0x7ff8000000000000
	}
	return math.Float64bits(f)
}
