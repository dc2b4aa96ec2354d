package table

import (
	"time"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// Steps of the clock's hand in one call of Evict or Spill: the bound of its time.
const (
	evictSteps = 4 << 10
	spillSteps = 64 << 10
)

// Used is the memory of the entries in use. It is less than Bytes, which counts free room too.
func (s *Set) Used() int64 { return s.used }

// Evict takes clean entries out of memory, by second chance (the clock algorithm), until no more than target
// bytes are in use or the hand has made its steps. It reports whether the target is reached.
func (s *Set) Evict(target int64) bool { return s.sweep(target, evictSteps, false) }

// Spill is Evict for dirty entries as well: it writes them into the queue. The caller must apply the queue to
// the storage below before the next batch, then call Settled. It must not be called while frozen content is
// in use that the storage below has not fixed: newer content would become part of it.
func (s *Set) Spill(target int64) bool {
	s.emitDrops()
	return s.sweep(target, spillSteps, true)
}

// Settled says that the queue is empty because everything in it is in the storage below.
func (s *Set) Settled() { s.applied.Store(s.epoch - 1) }

// HandOver puts the chunk that is being filled into the queue.
func (s *Set) HandOver() { s.chunk = s.queue.push(s.chunk, !s.copying) }

// Finish copies all that is left of the frozen content, however long it takes.
func (s *Set) Finish() {
	if s.copying {
		s.copyFor(time.Duration(1<<63 - 1))
	}
}

func (s *Set) sweep(target int64, steps int, dirty bool) bool {
	applied := s.applied.Load()
	for ; steps > 0 && s.used > target && len(s.tables) > 0; steps-- {
		if s.evictAt >= len(s.tables) {
			s.evictAt = 0
		}
		t := s.tables[s.evictAt]
		if t.hand >= t.slots {
			t.hand = 0
			s.evictAt++
			continue
		}
		t.evict(state.Slot(t.hand), applied, dirty)
		t.hand++
	}
	return s.used <= target
}

// evict takes the entry at n out of memory if it has had its second chance.
func (t *Table) evict(n state.Slot, applied uint64, dirty bool) {
	e := t.entry(n)
	m := e[1]
	switch {
	case e[0]&liveFlag == 0:
		return
	case m&dirtyBit != 0 && !dirty:
		return
	case m&dirtyBit == 0 && m>>epochShift > applied:
		return // on its way: the storage below has not heard of it yet
	case e[0]&usedFlag != 0:
		e[0] &^= usedFlag
		return
	}
	if m&dirtyBit != 0 {
		t.copyOut(e)
	}
	t.cold.add(job.KeyGroup(e[0] >> 16))
	if m&deadBit == 0 {
		t.live--
	}
	t.remove(n, e)
}

// SetCold says that the storage below may hold entries of the table and key group of a whole key that are
// not in memory. It returns the prefix of their keys.
func (s *Set) SetCold(whole []byte) (prefix []byte, err error) {
	t, _, err := s.Locate(whole)
	if err != nil {
		return nil, err
	}
	g, _, _, _ := ParseHeader(whole)
	t.cold.add(g)
	t.flushed.add(g)
	return whole[:2+len(t.suffix)], nil
}
