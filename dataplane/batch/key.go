package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"
)

// Keys computes hashes and canonical bytes of the key columns of batches. One per subtask.
type Keys struct {
	cols    []int
	scratch []byte
}

// NewKeys returns a key computer over the columns cols (indices into the schema).
func NewKeys(cols []int) *Keys { return &Keys{cols: cols} }

// Append appends the canonical bytes of row's key to dst.
func (k *Keys) Append(dst []byte, b *Batch, row int) []byte {
	for _, c := range k.cols {
		dst = b.Cols[c].AppendKey(dst, row)
	}
	return dst
}

// Hash returns a hash per physical row (only the logical rows' entries are set) of xxh3 over the canonical
// key bytes, reusing dst's memory.
func (k *Keys) Hash(dst []uint64, b *Batch) []uint64 {
	dst = grow(dst, b.Rows)[:b.Rows]
	if len(k.cols) == 1 && b.Cols[k.cols[0]].Type.IsInt64() && b.Cols[k.cols[0]].Valid == nil {
		k.hashInts(dst, b)
		return dst
	}
	for i, n := 0, b.Len(); i < n; i++ {
		r := b.Row(i)
		k.scratch = k.Append(k.scratch[:0], b, r)
		dst[r] = xxh3.Hash(k.scratch)
	}
	return dst
}

func (k *Keys) hashInts(dst []uint64, b *Batch) {
	var key [9]byte
	key[0] = 1
	ints := b.Cols[k.cols[0]].Ints
	for i, n := 0, b.Len(); i < n; i++ {
		r := b.Row(i)
		binary.BigEndian.PutUint64(key[1:], uint64(ints[r]))
		dst[r] = xxh3.Hash(key[:])
	}
}

// HashBytes is the hash of canonical key bytes.
func HashBytes(key []byte) uint64 { return xxh3.Hash(key) }

// DecodeKey reverses AppendKey for one column: it stores the value at row i of c (n rows long) and returns
// the rest of key.
func (c *Column) DecodeKey(key []byte, i, n int) ([]byte, error) {
	if len(key) == 0 {
		return nil, fmt.Errorf("decode key: %s column: no bytes left", c.Type)
	}
	present, key := key[0], key[1:]
	if present == 0 {
		c.SetNull(i, n)
		return key, nil
	}
	w := 8
	switch c.Type.Kind {
	case Bool:
		w = 1
	case Decimal:
		w = 16
	case String, Bytes:
		if len(key) < 4 {
			return nil, fmt.Errorf("decode key: %s column: length cut off", c.Type)
		}
		w = int(binary.BigEndian.Uint32(key))
		key = key[4:]
	}
	if len(key) < w {
		return nil, fmt.Errorf("decode key: %s column: %d bytes left, %d needed", c.Type, len(key), w)
	}
	v, rest := key[:w], key[w:]
	switch c.Type.Kind {
	case Bool:
		c.Bools.SetTo(i, v[0] != 0)
	case Float64:
		c.Floats[i] = math.Float64frombits(binary.BigEndian.Uint64(v))
	case Decimal:
		c.Decs[i] = Dec128{Hi: int64(binary.BigEndian.Uint64(v)), Lo: binary.BigEndian.Uint64(v[8:])}
	case String, Bytes:
		c.SetBytes(i, v)
	default:
		c.Ints[i] = int64(binary.BigEndian.Uint64(v))
	}
	return rest, nil
}
