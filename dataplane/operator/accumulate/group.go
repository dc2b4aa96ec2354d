package accumulate

import (
	"bytes"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/state"
)

// Groups are rows of a batch by key. They are valid until the next call of Grouper.Group.
type Groups struct {
	// Keys are the distinct keys, in the order of their first rows.
	Keys state.KeySet
	// Rows are the grouped rows, those of group g at Rows[Ends[g-1]:Ends[g]] in the order of the batch.
	Rows []int32
	Ends []int32
	// Last is the last row of each group.
	Last []int32
}

// Len is the number of groups.
func (g *Groups) Len() int { return len(g.Ends) }

// Grouper groups rows by the canonical bytes of key columns. It belongs to one goroutine.
type Grouper struct {
	cols   []int
	keys   *batch.Keys
	hashed bool
	groups Groups
	// table is open addressing from hashes to group+1; group[i] is the group of the i-th row.
	table []int32
	group []int32
	key   []byte
}

// NewGrouper returns a grouper by the columns cols; without any all rows are one group. hashed says that
// batch.Batch.Hash, where it is set, is the hash of just these columns.
func NewGrouper(cols []int, hashed bool) *Grouper {
	return &Grouper{cols: cols, keys: batch.NewKeys(cols), hashed: hashed}
}

// Group groups the rows (physical indices, ascending) of b.
func (g *Grouper) Group(b *batch.Batch, rows []int32) *Groups {
	g.groups.Keys.Reset()
	g.groups.Ends, g.groups.Last = g.groups.Ends[:0], g.groups.Last[:0]
	if len(g.cols) == 0 {
		g.add(nil, batch.HashBytes(nil))
		g.groups.Rows = append(g.groups.Rows[:0], rows...)
		g.groups.Ends[0] = int32(len(rows))
		g.groups.Last[0] = rows[len(rows)-1]
		return &g.groups
	}
	g.assign(b, rows)
	g.order(rows)
	return &g.groups
}

// add appends a group with no rows.
func (g *Grouper) add(key []byte, hash uint64) int32 {
	k := &g.groups.Keys
	k.Bytes = append(k.Bytes, key...)
	k.Ends = append(k.Ends, int32(len(k.Bytes)))
	k.Hash = append(k.Hash, hash)
	g.groups.Ends = append(g.groups.Ends, 0)
	g.groups.Last = append(g.groups.Last, 0)
	return int32(len(k.Ends) - 1)
}

// assign finds the group of every row.
func (g *Grouper) assign(b *batch.Batch, rows []int32) {
	size := 16
	for size < 2*len(rows) {
		size *= 2
	}
	if cap(g.table) < size {
		g.table = make([]int32, size)
	}
	g.table = g.table[:size]
	clear(g.table)
	if cap(g.group) < len(rows) {
		g.group = make([]int32, len(rows))
	}
	g.group = g.group[:len(rows)]
	var hashes []uint64
	if g.hashed {
		hashes = b.Hash
	}
	if c := &b.Cols[g.cols[0]]; len(g.cols) == 1 && c.Type.IsInt64() && c.Valid == nil {
		g.assignInts(b, c.Ints, rows, hashes)
		return
	}
	for i, r := range rows {
		g.key = g.keys.Append(g.key[:0], b, int(r))
		var h uint64
		if hashes != nil {
			h = hashes[r]
		} else {
			h = batch.HashBytes(g.key)
		}
		at := h >> 32 & uint64(size-1)
		for {
			k := g.table[at] - 1
			if k < 0 {
				k = g.add(g.key, h)
				g.table[at] = k + 1
				g.group[i] = k
				break
			}
			if g.groups.Keys.Hash[k] == h && bytes.Equal(g.groups.Keys.Key(int(k)), g.key) {
				g.group[i] = k
				break
			}
			at = (at + 1) & uint64(size-1)
		}
		g.groups.Ends[g.group[i]]++
	}
}

// assignInts is assign for one integer column without nulls: keys are compared as integers, and their bytes
// and hashes are made once a group. A row with the key of the row before it is not looked up.
func (g *Grouper) assignInts(b *batch.Batch, ints []int64, rows []int32, hashes []uint64) {
	mask := uint64(len(g.table) - 1)
	ends, last := g.groups.Ends, g.groups.Last // Last holds a row of each group meanwhile
	for i, r := range rows {
		v := ints[r]
		// A multiplicative hash: it places keys in the table only.
		at := uint64(v) * 0x9e3779b97f4a7c15 >> 32 & mask
		var k int32
		for {
			if k = g.table[at] - 1; k < 0 {
				g.key = g.keys.Append(g.key[:0], b, int(r))
				var h uint64
				if hashes != nil {
					h = hashes[r]
				} else {
					h = batch.HashBytes(g.key)
				}
				k = g.add(g.key, h)
				ends, last = g.groups.Ends, g.groups.Last
				g.table[at] = k + 1
				last[k] = r
				break
			}
			if ints[last[k]] == v {
				break
			}
			at = (at + 1) & mask
		}
		g.group[i] = k
		ends[k]++
	}
}

// order sorts the rows by group (a counting sort: stable) and turns counts into ends.
func (g *Grouper) order(rows []int32) {
	ends := g.groups.Ends
	if cap(g.groups.Rows) < len(rows) {
		g.groups.Rows = make([]int32, len(rows))
	}
	g.groups.Rows = g.groups.Rows[:len(rows)]
	if len(ends) == 1 {
		copy(g.groups.Rows, rows)
		g.groups.Last[0] = rows[len(rows)-1]
		return
	}
	next := int32(0)
	for k, n := range ends {
		ends[k] = next
		next += n
	}
	for i, r := range rows {
		k := g.group[i]
		g.groups.Rows[ends[k]] = r
		ends[k]++
	}
	for k, end := range ends {
		g.groups.Last[k] = g.groups.Rows[end-1]
	}
}
