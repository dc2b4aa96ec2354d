package table

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

const (
	header    = 4 // words before an entry's references and value
	arenaKey  = 255
	inlineKey = 16

	pageShift   = 7
	pageEntries = 1 << pageShift

	// Flags in word 0. A free entry has none; word 2 of it is the next free slot + 1.
	liveFlag  = 1 << 0 // in use (dead entries included)
	belowFlag = 1 << 1 // the storage below has, or is about to get, a value under this key
	usedFlag  = 1 << 2 // touched since the clock's hand came by

	// Bits in word 1, below the epoch.
	dirtyBit   = 1 << 0
	deadBit    = 1 << 1
	epochShift = 2

	maxSlots = 1<<32 - 2
)

// Table implements state.Table.
type Table struct {
	set    *Set
	layout state.Layout
	suffix []byte // state id and bucket: what stands between key group and key
	stride int

	index index
	pages [][]uint64
	slots uint32 // slots that were ever used
	free  uint32 // first free slot + 1
	arena arena
	live  int // entries that are not dead
	inUse int // slots that are not free

	changes slotList // slots that became dirty in the current epoch
	frozen  []slotList
	cursor  uint32 // full: next slot to copy of [0, bound)
	bound   uint32
	listed  bool // in set.changed
	dropped bool
	at      int // in set.tables

	cold    groups // key groups of which the storage below may know more than this table
	flushed groups // key groups of which the storage below may know anything

	hand    uint32 // clock of the eviction
	compact uint32 // next slot to move + 1; 0 when no compaction runs

	misses []int32
	key    []byte // scratch, as is value
	value  []byte
}

var _ state.Table = (*Table)(nil)

func newTable(set *Set, l state.Layout, suffix []byte) *Table {
	return &Table{
		set: set, layout: l, suffix: suffix, stride: header + l.Vars + l.Words,
		index: newIndex(), arena: newArena(&set.used),
		cold: newGroups(set.maxParallelism), flushed: newGroups(set.maxParallelism),
	}
}

func (t *Table) entry(s state.Slot) []uint64 {
	p := t.pages[s>>pageShift]
	o := int(s&(pageEntries-1)) * t.stride
	return p[o : o+t.stride : o+t.stride]
}

// Words implements state.Table.
func (t *Table) Words(s state.Slot) []uint64 {
	p := t.pages[s>>pageShift]
	o := int(s&(pageEntries-1))*t.stride + t.stride
	return p[o-t.layout.Words : o : o]
}

// Var implements state.Table.
func (t *Table) Var(s state.Slot, i int) []byte { return t.arena.bytes(ref(t.entry(s)[header+i])) }

// SetVar implements state.Table.
func (t *Table) SetVar(s state.Slot, i int, v []byte) {
	r := &t.entry(s)[header+i]
	*r = uint64(t.arena.replace(ref(*r), v))
}

// Len is the number of entries in memory.
func (t *Table) Len() int { return t.live }

// Resolve implements state.Table.
func (t *Table) Resolve(keys *state.KeySet, slots []state.Slot) error {
	mark := t.set.epoch<<epochShift | dirtyBit
	// Whoever resolves keys may write. The marks would not tell: copying a full set moves entries into the current
	// epoch.
	t.set.touched = t.set.touched || len(keys.Ends) > 0
	t.misses = t.misses[:0]
	from := int32(0)
	for i, to := range keys.Ends {
		key, hash := keys.Bytes[from:to:to], keys.Hash[i]
		from = to
		s, ok := t.find(hash, key)
		if !ok {
			g := job.KeyGroupOf(hash, t.set.maxParallelism)
			if t.cold.has(g) {
				t.misses = append(t.misses, int32(i))
				continue
			}
			if err := t.check(g, key); err != nil {
				return err
			}
			s = t.create(hash, g, key)
		}
		e := t.entry(s)
		if e[1] != mark {
			t.touch(s, e)
		}
		e[0] |= usedFlag
		slots[i] = s
	}
	if len(t.misses) > 0 {
		return t.load(keys, slots)
	}
	return nil
}

func (t *Table) check(g job.KeyGroup, key []byte) error {
	switch {
	case !t.set.groups.Contains(g):
		return job.AsFatal(fmt.Errorf("resolve a key: its key group %d is not in %s: records were sent to the wrong subtask", g, t.set.groups))
	case len(key) > maxLength:
		return job.AsFatal(fmt.Errorf("resolve a key: it has %d bytes, at most %d are possible", len(key), maxLength))
	case t.slots >= maxSlots:
		return job.AsFatal(fmt.Errorf("resolve a key: the table has %d entries, more are not possible", t.slots))
	}
	return nil
}

// find returns the slot of key, dead entries included.
func (t *Table) find(hash uint64, key []byte) (state.Slot, bool) {
	tag := uint32(hash >> 32)
	cells := t.index.segment(tag)
	mask := uint32(len(cells) - 1)
	n := uint64(len(key))
	var k0, k1 uint64
	if n <= inlineKey {
		k0, k1 = packKey(key)
	}
	for i := tag & mask; ; i = (i + 1) & mask {
		c := cells[i&mask]
		if c == 0 {
			return 0, false
		}
		if uint32(c>>32) != tag {
			continue
		}
		s := state.Slot(uint32(c) - 1)
		e := t.entry(s)
		if n <= inlineKey {
			if e[2] == k0 && e[3] == k1 && e[0]>>8&0xff == n {
				return s, true
			}
		} else if e[0]>>8&0xff == arenaKey && string(t.arena.bytes(ref(e[2]))) == string(key) {
			return s, true
		}
	}
}

// packKey puts at most 16 bytes into two words, little endian, padded with zeros.
func packKey(key []byte) (a, b uint64) {
	n := len(key)
	if n >= 8 {
		a = binary.LittleEndian.Uint64(key)
		if n > 8 {
			b = binary.LittleEndian.Uint64(key[n-8:]) >> (8 * (16 - n))
		}
		return a, b
	}
	for i := n - 1; i >= 0; i-- {
		a = a<<8 | uint64(key[i])
	}
	return a, 0
}

// create adds a clean entry of zeros under a key that find has not found.
func (t *Table) create(hash uint64, g job.KeyGroup, key []byte) state.Slot {
	s := t.takeSlot()
	tag := uint32(hash >> 32)
	e := t.entry(s)
	clear(e)
	e[0] = uint64(tag)<<32 | uint64(g)<<16 | liveFlag
	if len(key) <= inlineKey {
		e[0] |= uint64(len(key)) << 8
		e[2], e[3] = packKey(key)
	} else {
		e[0] |= arenaKey << 8
		e[2] = uint64(t.arena.store(key))
	}
	t.index.insert(tag, s)
	t.live++
	return s
}

func (t *Table) takeSlot() state.Slot {
	if t.free != 0 {
		s := state.Slot(t.free - 1)
		t.free = uint32(t.entry(s)[2])
		t.inUse++
		t.set.used += t.entryBytes()
		return s
	}
	if t.slots&(pageEntries-1) == 0 {
		t.pages = append(t.pages, make([]uint64, pageEntries*t.stride))
	}
	t.slots++
	t.inUse++
	t.set.used += t.entryBytes()
	return state.Slot(t.slots - 1)
}

// touch marks an entry as changed in the current epoch and copies it first if it is frozen.
func (t *Table) touch(s state.Slot, e []uint64) {
	m, epoch := e[1], t.set.epoch
	if t.set.copying && t.isFrozen(m) {
		t.copyOut(e)
	}
	if m&deadBit != 0 {
		t.live++
	}
	if m>>epochShift != epoch || m&dirtyBit == 0 {
		t.noteChange(s)
	}
	e[1] = epoch<<epochShift | dirtyBit
}

// isFrozen tells from word 1 whether the entry is part of the frozen content and not copied yet. In a full
// set every entry is dirty, and copying moves it into the current epoch.
func (t *Table) isFrozen(m uint64) bool {
	return m&dirtyBit != 0 && m>>epochShift < t.set.epoch
}

func (t *Table) noteChange(s state.Slot) {
	if !t.set.incremental() {
		return
	}
	t.changes.push(s)
	if !t.listed {
		t.listed = true
		t.set.changed = append(t.set.changed, t)
	}
}

// Delete implements state.Table.
func (t *Table) Delete(s state.Slot) {
	e := t.entry(s)
	if t.set.copying && t.isFrozen(e[1]) {
		t.copyOut(e)
	}
	t.live--
	if e[0]&belowFlag == 0 {
		t.set.touched = true
		t.remove(s, e)
		return
	}
	m := e[1]
	if m>>epochShift != t.set.epoch || m&dirtyBit == 0 {
		t.noteChange(s)
	}
	t.clearValue(e)
	e[1] = t.set.epoch<<epochShift | deadBit | dirtyBit
}

func (t *Table) clearValue(e []uint64) {
	for i := range t.layout.Vars {
		t.arena.release(ref(e[header+i]))
	}
	clear(e[header:])
}

// remove gives the slot back. The caller accounts for live.
func (t *Table) remove(s state.Slot, e []uint64) {
	t.index.remove(uint32(e[0]>>32), s)
	t.giveSlot(s, e)
}

func (t *Table) giveSlot(s state.Slot, e []uint64) {
	if e[0]>>8&0xff == arenaKey {
		t.arena.release(ref(e[2]))
	}
	t.clearValue(e)
	e[0], e[1], e[2], e[3] = 0, 0, uint64(t.free), 0
	t.free = uint32(s) + 1
	t.inUse--
	t.set.used -= t.entryBytes()
}

// entryBytes is what an entry takes outside of the arena: its words and its share of the index.
func (t *Table) entryBytes() int64 { return int64(t.stride)*8 + 12 }

// discard gives the memory of a dropped table back.
func (t *Table) discard() {
	t.set.used -= int64(t.inUse)*t.entryBytes() + t.arena.live
	t.inUse, t.live, t.slots, t.free, t.pages, t.changes, t.frozen = 0, 0, 0, 0, nil, slotList{}, nil
	t.index, t.arena = newIndex(), newArena(&t.set.used)
}

// Each implements state.Table.
func (t *Table) Each(visit func(key []byte, s state.Slot) error) error {
	for n := state.Slot(0); n < state.Slot(t.slots); n++ {
		e := t.entry(n)
		if e[0]&liveFlag == 0 || e[1]&deadBit != 0 {
			continue
		}
		t.key = t.appendUserKey(t.key[:0], e)
		if err := visit(t.key, n); err != nil {
			return err
		}
	}
	return t.eachBelow(visit)
}

// bytes is the memory of the table.
func (t *Table) bytes() int64 {
	return int64(len(t.pages))*pageEntries*int64(t.stride)*8 + t.arena.size + int64(t.index.cells)*8
}

// slotList is a list in pages, so that appending never copies much.
type slotList struct{ pages [][]state.Slot }

const slotPage = 4096

func (l *slotList) push(s state.Slot) {
	n := len(l.pages)
	if n == 0 || len(l.pages[n-1]) == slotPage {
		l.pages = append(l.pages, nil)
		n++
	}
	l.pages[n-1] = append(l.pages[n-1], s)
}

// pop takes some element out.
func (l *slotList) pop() (state.Slot, bool) {
	n := len(l.pages)
	if n == 0 {
		return 0, false
	}
	p := l.pages[n-1]
	s := p[len(p)-1]
	if l.pages[n-1] = p[:len(p)-1]; len(p) == 1 {
		l.pages = l.pages[:n-1]
	}
	return s, true
}

// groups is a set of key groups.
type groups []uint64

func newGroups(n int) groups             { return make(groups, (n+63)/64) }
func (g groups) has(k job.KeyGroup) bool { return g[k>>6]>>(k&63)&1 != 0 }
func (g groups) add(k job.KeyGroup)      { g[k>>6] |= 1 << (k & 63) }
