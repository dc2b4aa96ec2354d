package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// load reads the keys at t.misses from below, in one pass in key order, and creates those that are not there.
func (t *Table) load(keys *state.KeySet, slots []state.Slot) error {
	sorted, order := t.sortMisses(keys)
	err := t.set.below.Load(sorted, func(i int, value []byte) error {
		n := int(order[i])
		_, err := t.insertBelow(keys.Hash[n], keys.Key(n), value)
		return err
	})
	if err != nil {
		return fmt.Errorf("resolve %d keys that are not in memory: %w", sorted.Len(), err)
	}
	for _, i := range t.misses {
		key, hash := keys.Key(int(i)), keys.Hash[i]
		s, ok := t.find(hash, key)
		if !ok {
			g := job.KeyGroupOf(hash, t.set.maxParallelism)
			if err := t.check(g, key); err != nil {
				return err
			}
			s = t.create(hash, g, key)
		}
		e := t.entry(s)
		t.touch(s, e)
		e[0] |= usedFlag
		slots[i] = s
	}
	return nil
}

// sortMisses returns the distinct whole keys of t.misses in ascending order and the index of each in keys.
func (t *Table) sortMisses(keys *state.KeySet) (sorted *state.KeySet, order []int32) {
	whole := func(dst []byte, i int32) []byte {
		g := job.KeyGroupOf(keys.Hash[i], t.set.maxParallelism)
		dst = binary.BigEndian.AppendUint16(dst, uint16(g))
		dst = append(dst, t.suffix...)
		return append(dst, keys.Key(int(i))...)
	}
	order = slices.Clone(t.misses)
	slices.SortFunc(order, func(a, b int32) int {
		ga := job.KeyGroupOf(keys.Hash[a], t.set.maxParallelism)
		gb := job.KeyGroupOf(keys.Hash[b], t.set.maxParallelism)
		if ga != gb {
			return int(ga) - int(gb)
		}
		return bytes.Compare(keys.Key(int(a)), keys.Key(int(b)))
	})
	order = slices.CompactFunc(order, func(a, b int32) bool {
		return bytes.Equal(keys.Key(int(a)), keys.Key(int(b)))
	})
	sorted = &state.KeySet{}
	for _, i := range order {
		sorted.Bytes = whole(sorted.Bytes, i)
		sorted.Ends = append(sorted.Ends, int32(len(sorted.Bytes)))
	}
	return sorted, order
}

// insertBelow adds a clean entry with a value from below.
func (t *Table) insertBelow(hash uint64, key, value []byte) (state.Slot, error) {
	g := job.KeyGroupOf(hash, t.set.maxParallelism)
	if err := t.check(g, key); err != nil {
		return 0, err
	}
	s := t.create(hash, g, key)
	e := t.entry(s)
	e[0] |= belowFlag
	if err := t.decodeValue(e, value); err != nil {
		return 0, fmt.Errorf("key %x: %w", key, err)
	}
	t.flushed.add(g)
	return s, nil
}

// eachBelow visits the entries that are not in memory.
func (t *Table) eachBelow(visit func(key []byte, s state.Slot) error) error {
	for g := t.set.groups.From; g < t.set.groups.To; g++ {
		if !t.cold.has(g) {
			continue
		}
		prefix := append(binary.BigEndian.AppendUint16(nil, uint16(g)), t.suffix...)
		err := t.set.below.Scan(prefix, func(whole, value []byte) error {
			key := whole[len(prefix):]
			if _, ok := t.find(batch.HashBytes(key), key); ok {
				return nil
			}
			return t.visitBelow(g, key, value, visit)
		})
		if err != nil {
			return fmt.Errorf("visit the entries of key group %d that are not in memory: %w", g, err)
		}
	}
	return nil
}

// visitBelow shows a value through a slot that no index knows.
func (t *Table) visitBelow(g job.KeyGroup, key, value []byte, visit func([]byte, state.Slot) error) error {
	s := t.takeSlot()
	e := t.entry(s)
	clear(e)
	defer func() { t.giveSlot(s, t.entry(s)) }()
	e[0] = uint64(g) << 16
	if err := t.decodeValue(e, value); err != nil {
		return fmt.Errorf("key %x: %w", key, err)
	}
	return visit(key, s)
}

// Locate returns the table that the entries of a whole key belong to (its bucket is created if need be) and
// the rest of the key.
func (s *Set) Locate(whole []byte) (t *Table, key []byte, err error) {
	_, id, key, err := ParseHeader(whole)
	if err != nil {
		return nil, nil, err
	}
	e, ok := s.states[id]
	if !ok {
		return nil, nil, fmt.Errorf("key %x: no state has id %08x", whole, id)
	}
	if e.buckets == nil {
		return e.table, key, nil
	}
	at, key, err := ParseBucket(key)
	if err != nil {
		return nil, nil, err
	}
	return e.buckets.bucket(at), key, nil
}

// Insert adds an entry while the set is being restored: to a full set as one that changed, to an incremental
// one as a copy of what is below.
func (s *Set) Insert(whole, value []byte) error {
	t, key, err := s.Locate(whole)
	if err != nil {
		return err
	}
	hash := batch.HashBytes(key)
	if _, ok := t.find(hash, key); ok {
		return fmt.Errorf("key %x of state %x occurs twice", key, t.suffix)
	}
	g, _, _, _ := ParseHeader(whole)
	if have := job.KeyGroupOf(hash, s.maxParallelism); have != g {
		return fmt.Errorf("key %x of state %x: it is stored in key group %d but belongs to %d", key, t.suffix, g, have)
	}
	n, err := t.insertBelow(hash, key, value)
	if err != nil {
		return err
	}
	if !s.incremental() {
		e := t.entry(n)
		e[0] &^= belowFlag
		e[1] = s.epoch<<epochShift | dirtyBit
		s.touched = true
	}
	return nil
}
