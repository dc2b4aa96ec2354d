package table

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// Quantum bounds the time that one EndBatch spends on copying a frozen epoch.
const Quantum = 200 * time.Microsecond

// clockEvery is the number of entries between two looks at the clock.
const clockEvery = 16

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
		t.value = t.appendValue(t.value[:0], e)
		s.chunk = appendBytes(s.chunk, t.value)
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
