package transaction

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/job"
)

type slotState uint8

const (
	free slotState = iota
	inUse
	prepared
	abandoned
)

type slot struct {
	state slotState
	// by is the checkpoint whose barrier ended the transaction in a prepared slot.
	by job.CheckpointID
}

// SlotPool hands out the slots of one sink subtask in one attempt; a slot names one transactional id. It belongs
// to the subtask's goroutine.
//
//	free ──Acquire──► in use ──Prepare(n)──► prepared ──Covered(≥n)──► free
//	                    ├──Release──► free        (nothing was written: no transaction exists)
//	                    └──Abandon──► abandoned   (for the rest of the attempt)
type SlotPool struct {
	base  ID
	slots []slot
}

// NewSlotPool returns a pool whose ids are base with the slot filled in.
func NewSlotPool(base ID) *SlotPool { return &SlotPool{base: base} }

// Acquire takes the lowest free slot and returns its id. The caller initialises a new producer for it, always.
func (p *SlotPool) Acquire() ID {
	i := 0
	for i < len(p.slots) && p.slots[i].state != free {
		i++
	}
	if i == len(p.slots) {
		p.slots = append(p.slots, slot{})
	}
	p.slots[i].state = inUse
	id := p.base
	id.Slot = i
	return id
}

// Prepare says that barrier n ended the transaction in an acquired slot.
func (p *SlotPool) Prepare(i int, n job.CheckpointID) {
	p.expect(i, "prepare")
	p.slots[i] = slot{state: prepared, by: n}
}

// Release gives an acquired slot back in which nothing was written.
func (p *SlotPool) Release(i int) {
	p.expect(i, "release")
	p.slots[i].state = free
}

// Abandon gives an acquired slot up: an InitProducerID got no answer and may still take effect.
func (p *SlotPool) Abandon(i int) {
	p.expect(i, "abandon")
	p.slots[i].state = abandoned
}

func (p *SlotPool) expect(i int, op string) {
	if i < 0 || i >= len(p.slots) || p.slots[i].state != inUse {
		panic(fmt.Sprintf("transaction: %s slot %d of %s, which is not in use", op, i, p.base))
	}
}

// Covered frees the slots of every transaction that a barrier up to committed ended. committed is the number
// that a barrier carries, applied when that barrier reaches the sink.
func (p *SlotPool) Covered(committed job.CheckpointID) {
	for i, s := range p.slots {
		if s.state == prepared && s.by <= committed {
			p.slots[i] = slot{}
		}
	}
}

// Len is how many slots were ever used, abandoned ones included.
func (p *SlotPool) Len() int { return len(p.slots) }
