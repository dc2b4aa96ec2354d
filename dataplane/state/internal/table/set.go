package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// Quantum bounds the time that one EndBatch spends on copying a frozen epoch.
const Quantum = 200 * time.Microsecond

// clockEvery is the number of entries between two looks at the clock.
const clockEvery = 16

// Below is the storage under an incremental Set. All keys are whole keys (see AppendHeader).
type Below interface {
	// Load looks up keys, which are in ascending order, and calls found for those that exist.
	Load(keys *state.KeySet, found func(i int, value []byte) error) error
	// Scan visits the entries whose keys begin with prefix, in order.
	Scan(prefix []byte, visit func(key, value []byte) error) error
}

// Set is the tables of one backend. All methods are called by its owner, except those that say otherwise.
type Set struct {
	groups         job.KeyGroupRange
	maxParallelism int
	below          Below // nil: a full set

	states map[uint32]*stateEntry
	tables []*Table

	epoch   uint64 // starts with 1
	copying bool   // frozen content is left to copy
	touched bool   // something changed in the current epoch
	changed []*Table
	work    []*Table // tables with frozen content to copy
	drops   []*Table // dropped buckets that the storage below has not heard of
	graves  []grave  // dead entries that can go when the storage below has heard of them
	chunk   []byte
	queue   *Queue
	evictAt int   // table under the clock's hand
	used    int64 // bytes of entries in use

	open    atomic.Bool
	applied atomic.Uint64 // newest epoch whose content is wholly in the storage below
}

type stateEntry struct {
	Definition
	table   *Table
	buckets *Buckets
}

type grave struct {
	table *Table
	slot  state.Slot
	epoch uint64
}

// NewSet returns an empty set for the key groups of cfg. With below it is incremental.
func NewSet(cfg state.Config, below Below) *Set {
	return &Set{
		groups: cfg.KeyRange, maxParallelism: cfg.MaxParallelism, below: below,
		states: map[uint32]*stateEntry{}, epoch: 1, queue: newQueue(),
	}
}

func (s *Set) incremental() bool { return s.below != nil }

// StateID is the id under which a state's entries are stored.
func StateID(name string) uint32 { return uint32(xxh3.HashString(name)) }

// Table implements state.Backend.
func (s *Set) Table(name string, l state.Layout) (state.Table, error) {
	e, err := s.define(name, l, false)
	if err != nil {
		return nil, err
	}
	e.table = s.addTable(l, binary.BigEndian.AppendUint32(nil, StateID(name)))
	return e.table, nil
}

// Buckets implements state.Backend.
func (s *Set) Buckets(name string, l state.Layout) (state.Buckets, error) {
	e, err := s.define(name, l, true)
	if err != nil {
		return nil, err
	}
	e.buckets = &Buckets{set: s, id: StateID(name), layout: l, tables: map[int64]*Table{}}
	return e.buckets, nil
}

func (s *Set) define(name string, l state.Layout, bucketed bool) (*stateEntry, error) {
	if l.Words < 0 || l.Vars < 0 {
		return nil, fmt.Errorf("open state %q: impossible layout %+v", name, l)
	}
	id := StateID(name)
	if old, ok := s.states[id]; ok {
		if old.Name == name {
			return nil, fmt.Errorf("open state %q: it is open already", name)
		}
		return nil, fmt.Errorf("open state %q: its id is that of state %q: rename one", name, old.Name)
	}
	e := &stateEntry{Definition: Definition{Name: name, Layout: l, Bucketed: bucketed, MaxParallelism: s.maxParallelism}}
	s.states[id] = e
	return e, nil
}

// Definitions describes the open states, by id.
func (s *Set) Definitions() map[uint32]Definition {
	m := make(map[uint32]Definition, len(s.states))
	for id, e := range s.states {
		m[id] = e.Definition
	}
	return m
}

// Check compares the description of a stored state with the one that is open.
func (s *Set) Check(stored Definition) error {
	e, ok := s.states[StateID(stored.Name)]
	switch {
	case stored.MaxParallelism != s.maxParallelism:
		return fmt.Errorf("state %q was saved with max parallelism %d, the job has %d: it cannot change",
			stored.Name, stored.MaxParallelism, s.maxParallelism)
	case !ok || e.Name != stored.Name:
		return fmt.Errorf("state %q was saved but nothing reads it any more", stored.Name)
	case e.Definition != stored:
		return fmt.Errorf("state %q was saved as %+v, now it is %+v", stored.Name, stored, e.Definition)
	}
	return nil
}

func (s *Set) addTable(l state.Layout, suffix []byte) *Table {
	t := newTable(s, l, suffix)
	t.at = len(s.tables)
	s.tables = append(s.tables, t)
	return t
}

func (s *Set) removeTable(t *Table) {
	last := s.tables[len(s.tables)-1]
	s.tables[t.at], last.at = last, t.at
	s.tables = s.tables[:len(s.tables)-1]
	t.dropped = true
	if !s.copying || !t.hasFrozen() {
		t.discard()
	}
}

// hasFrozen reports whether frozen entries may be left to copy.
func (t *Table) hasFrozen() bool { return len(t.frozen) > 0 || t.cursor < t.bound }

// ErrFrozen is returned by Freeze while an earlier frozen content is neither persisted nor dropped.
var ErrFrozen = errors.New("an earlier checkpoint of this state is still in progress")

// Freeze fixes the content and returns its epoch. Until Release is called, what it holds is copied into the
// Queue, all of it once Pending is false. With skip (of a full set that has not changed), nothing is copied.
func (s *Set) Freeze(skip bool) (epoch uint64, err error) {
	if !s.open.CompareAndSwap(false, true) {
		return 0, ErrFrozen
	}
	epoch = s.epoch
	s.epoch++
	s.touched = false
	if s.incremental() {
		s.freezeChanges()
	} else {
		s.freezeAll(skip)
	}
	s.copying = len(s.work) > 0
	if !s.copying {
		s.chunk = s.queue.push(s.chunk, true)
	} else {
		s.queue.push(nil, false)
	}
	return epoch, nil
}

// freezeChanges adds the changes of the epoch to what an abandoned checkpoint may have left.
func (s *Set) freezeChanges() {
	work := s.work[:0]
	for _, t := range s.work {
		if t.dropped {
			t.discard()
		} else {
			work = append(work, t)
		}
	}
	s.emitDrops()
	for _, t := range s.changed {
		t.listed = false
		if t.dropped {
			continue
		}
		if len(t.frozen) == 0 {
			work = append(work, t)
		}
		t.frozen = append(t.frozen, t.changes)
		t.changes = slotList{}
	}
	clear(s.changed)
	s.work, s.changed = work, s.changed[:0]
}

func (s *Set) freezeAll(skip bool) {
	s.queue.discard()
	for _, t := range s.work {
		if t.dropped {
			t.discard()
		}
	}
	s.chunk, s.work = s.chunk[:0], s.work[:0]
	if skip {
		return
	}
	for _, t := range s.tables {
		if t.cursor, t.bound = 0, t.slots; t.bound > 0 {
			s.work = append(s.work, t)
		}
	}
}

// emitDrops writes the range deletions of dropped buckets.
func (s *Set) emitDrops() {
	for _, t := range s.drops {
		for g := s.groups.From; g < s.groups.To; g++ {
			if t.flushed.has(g) {
				from := append(binary.BigEndian.AppendUint16(nil, uint16(g)), t.suffix...)
				s.record(OpDeleteRange, from, PrefixEnd(from))
			}
		}
	}
	clear(s.drops)
	s.drops = s.drops[:0]
}

// PrefixEnd is the first key after all keys that begin with prefix (which is not all 0xff).
func PrefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func (s *Set) record(op Op, key, value []byte) {
	s.chunk = append(s.chunk, byte(op))
	s.chunk = appendBytes(s.chunk, key)
	s.chunk = appendBytes(s.chunk, value)
}

// copyOut writes the entry's present content into the chunk.
func (t *Table) copyOut(e []uint64) {
	s := t.set
	if cap(s.chunk) == 0 {
		s.chunk = make([]byte, 0, chunkBytes+chunkBytes/8)
	}
	op := OpSet
	if e[1]&deadBit != 0 {
		op = OpDelete
	}
	t.key = t.appendKey(t.key[:0], e)
	s.chunk = append(s.chunk, byte(op))
	s.chunk = appendBytes(s.chunk, t.key)
	if s.incremental() {
		// After a deletion too: until it has been applied, the old value is still there.
		e[0] |= belowFlag
		t.flushed.add(job.KeyGroup(e[0] >> 16))
	}
	if op == OpSet {
		s.chunk = binary.AppendUvarint(s.chunk, uint64(t.valueLen(e)))
		s.chunk = t.appendValue(s.chunk, e)
	} else {
		s.chunk = append(s.chunk, 0)
	}
	if len(s.chunk) >= chunkBytes {
		s.chunk = s.queue.push(s.chunk, false)
	}
}

// Pending reports whether frozen content is left to copy: an idle owner then calls EndBatch in a loop.
func (s *Set) Pending() bool { return s.copying && s.open.Load() }

// Touched reports whether anything changed since the last Freeze.
func (s *Set) Touched() bool { return s.touched }

// Queue is where the frozen content arrives; safe for concurrent use.
func (s *Set) Queue() *Queue { return s.queue }

// Applied says that all content of the frozen epoch is in the storage below; called by any goroutine.
func (s *Set) Applied(epoch uint64) { s.applied.Store(epoch) }

// Release ends a Freeze, whatever became of it; called by any goroutine.
func (s *Set) Release() { s.open.Store(false) }

// Open reports whether frozen content is in use.
func (s *Set) Open() bool { return s.open.Load() }

// EndBatch copies frozen content for at most Quantum and moves bytes of wasteful arenas.
func (s *Set) EndBatch() {
	if s.copying {
		s.copyFor(Quantum)
	}
	if len(s.graves) > 0 {
		s.reap()
	}
	s.compactArenas()
}

// copyFor copies frozen content until it is done or d has passed.
func (s *Set) copyFor(d time.Duration) {
	if !s.open.Load() {
		// Abandoned: what is left to copy waits for the next Freeze.
		s.copying = false
		return
	}
	start := time.Now()
	for len(s.work) > 0 {
		t := s.work[len(s.work)-1]
		more := true
		for range clockEvery {
			if more = t.copyNext(); !more {
				break
			}
		}
		if !more {
			s.work = s.work[:len(s.work)-1]
			if t.dropped {
				t.discard()
			}
		}
		if time.Since(start) >= d {
			return
		}
	}
	s.copying = false
	s.chunk = s.queue.push(s.chunk, true)
}

// copyNext copies the next frozen entry, if it is still to be copied. It returns false when none is left.
func (t *Table) copyNext() bool {
	if !t.set.incremental() {
		if t.cursor >= t.bound {
			return false
		}
		t.cursor++
		t.copySlot(state.Slot(t.cursor - 1))
		return true
	}
	for len(t.frozen) > 0 {
		if s, ok := t.frozen[len(t.frozen)-1].pop(); ok {
			t.copySlot(s)
			return true
		}
		t.frozen = t.frozen[:len(t.frozen)-1]
	}
	return false
}

func (t *Table) copySlot(n state.Slot) {
	e := t.entry(n)
	if e[0]&liveFlag == 0 || !t.isFrozen(e[1]) {
		return
	}
	t.copyOut(e)
	s := t.set
	if !s.incremental() {
		e[1] = s.epoch<<epochShift | dirtyBit
		return
	}
	dead := e[1] & deadBit
	e[1] = (s.epoch-1)<<epochShift | dead
	if dead != 0 {
		s.graves = append(s.graves, grave{t, n, s.epoch - 1})
	}
}

// reap frees the dead entries of which the storage below has heard.
func (s *Set) reap() {
	applied, n := s.applied.Load(), 0
	for ; n < len(s.graves) && s.graves[n].epoch <= applied; n++ {
		g := s.graves[n]
		if g.table.dropped {
			continue
		}
		e := g.table.entry(g.slot)
		if e[0]&liveFlag != 0 && e[1] == g.epoch<<epochShift|deadBit {
			g.table.remove(g.slot, e)
		}
	}
	if s.graves = s.graves[n:]; len(s.graves) == 0 {
		s.graves = nil
	}
}

// compactArenas works on one table at a time, for at most Quantum.
func (s *Set) compactArenas() {
	for _, t := range s.tables {
		if t.compact == 0 {
			if !t.arena.wasteful() {
				continue
			}
			t.arena.beginCompaction()
			t.compact = 1
		}
		t.compactFor(Quantum)
		return
	}
}

func (t *Table) compactFor(d time.Duration) {
	start := time.Now()
	for ; t.compact <= t.slots; t.compact++ {
		e := t.entry(state.Slot(t.compact - 1))
		if e[0]&liveFlag == 0 {
			continue
		}
		if e[0]>>8&0xff == arenaKey {
			e[2] = uint64(t.arena.move(ref(e[2])))
		}
		for i := header; i < header+t.layout.Vars; i++ {
			e[i] = uint64(t.arena.move(ref(e[i])))
		}
		if t.compact%clockEvery == 0 && time.Since(start) >= d {
			t.compact++
			return
		}
	}
	t.arena.endCompaction()
	t.compact = 0
}

// Bytes is the memory in use.
func (s *Set) Bytes() int64 {
	n := int64(cap(s.chunk)) + s.queue.bytes()
	for _, t := range s.tables {
		n += t.bytes()
	}
	return n
}
