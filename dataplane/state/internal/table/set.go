package table

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

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
