package table

import (
	"encoding/binary"
	"slices"

	"github.com/weirstream/weir/dataplane/state"
)

// Buckets implements state.Buckets: a Table per bucket.
type Buckets struct {
	set    *Set
	id     uint32
	layout state.Layout
	tables map[int64]*Table
	times  []int64
}

var _ state.Buckets = (*Buckets)(nil)

// Bucket implements state.Buckets.
func (b *Buckets) Bucket(t int64) (state.Table, error) { return b.bucket(t), nil }

func (b *Buckets) bucket(t int64) *Table {
	if have, ok := b.tables[t]; ok {
		return have
	}
	suffix := AppendBucket(binary.BigEndian.AppendUint32(nil, b.id), t)
	table := b.set.addTable(b.layout, suffix)
	b.tables[t] = table
	at, _ := slices.BinarySearch(b.times, t)
	b.times = slices.Insert(b.times, at, t)
	return table
}

// Times implements state.Buckets.
func (b *Buckets) Times() []int64 { return b.times }

// Drop implements state.Buckets. Frozen content of the bucket is still copied; the storage below hears of
// the drop with the next checkpoint, unless it has never heard of the bucket.
func (b *Buckets) Drop(t int64) error {
	table, ok := b.tables[t]
	if !ok {
		return nil
	}
	delete(b.tables, t)
	at, _ := slices.BinarySearch(b.times, t)
	b.times = slices.Delete(b.times, at, at+1)
	b.set.removeTable(table)
	b.set.touched = true
	if b.set.incremental() {
		b.set.drops = append(b.set.drops, table)
	}
	return nil
}
