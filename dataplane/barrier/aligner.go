package barrier

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	// Arrived: Barrier was read from Channel.
	Arrived EventKind = iota + 1
	// Ended: Channel will deliver no more records.
	Ended
	// DeadlinePassed: the time left that came with the barrier of checkpoint ID is over.
	DeadlinePassed
	// GivenUp: the node has declined checkpoint ID for another reason.
	GivenUp
)

// Event is one input of the aligner; make it with Arrive, End, Expire or GiveUp.
type Event struct {
	Kind    EventKind
	Channel int
	Barrier checkpoint.Barrier
	ID      job.CheckpointID
}

// Arrive is the event of a barrier read from channel ch.
func Arrive(ch int, b checkpoint.Barrier) Event {
	return Event{Kind: Arrived, Channel: ch, Barrier: b, ID: b.ID}
}

// End is the event of the end of channel ch.
func End(ch int) Event { return Event{Kind: Ended, Channel: ch} }

// Expire is the event that the deadline of checkpoint n has passed.
func Expire(n job.CheckpointID) Event { return Event{Kind: DeadlinePassed, ID: n} }

// GiveUp is the event that the node has declined checkpoint n.
func GiveUp(n job.CheckpointID) Event { return Event{Kind: GivenUp, ID: n} }

// EffectKind says what the task has to do.
type EffectKind uint8

// The kinds of effect, in the order in which one step may return them.
const (
	// Decline: tell the node that this subtask does not take part in checkpoint ID, for Reason.
	Decline EffectKind = iota + 1
	// Unblock: read every channel again. Directly after a Snapshot it takes effect once the freeze is done.
	Unblock
	// Announce: this subtask hears of checkpoint ID for the first time; the node injects Barrier into its
	// own sources unless it has done so, and counts the deadline from now.
	Announce
	// Block: read nothing more from Channel until Unblock.
	Block
	// EndOfInput: every channel has ended; returned once. A Snapshot after it holds what the subtask did then.
	EndOfInput
	// Snapshot: freeze the state for checkpoint ID and forward Barrier to all outputs before anything else.
	Snapshot
)

// Reason is why a checkpoint was declined.
type Reason uint8

// The reasons.
const (
	// Superseded: a newer barrier came before the alignment was complete.
	Superseded Reason = iota + 1
	// Late: the deadline passed before the alignment was complete.
	Late
	// Abandoned: the node had given the checkpoint up.
	Abandoned
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case Superseded:
		return "a newer barrier came before the alignment was complete"
	case Late:
		return "the deadline passed before the alignment was complete"
	case Abandoned:
		return "the node gave the checkpoint up"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Effect is one thing to do. Which fields are set depends on Kind.
type Effect struct {
	Kind    EffectKind
	Channel int
	ID      job.CheckpointID
	Barrier checkpoint.Barrier
	Reason  Reason
}

// Aligner is the alignment of one subtask. It belongs to the subtask's goroutine. Step allocates nothing.
//
// Invariants: newest only rises; aligning implies pending.ID == newest (and so nothing else is aligned); a channel is blocked only while
// aligning, only if it delivered pending and has not ended; missing is the number of channels that have
// neither delivered pending nor ended.
type Aligner struct {
	ref job.Ref
	// newest is the highest checkpoint heard of: being aligned, taken or declined.
	newest   job.CheckpointID
	aligning bool
	pending  checkpoint.Barrier
	arrived  []bool // delivered pending
	ended    []bool
	missing  int
	blocked  int // channels that the task does not read
	live     int // channels that have not ended
	out      []Effect
}

// New returns the aligner of a subtask with the given number of input channels (at least 1) in attempt ref.
// Checkpoints up to and including last are ignored: the one that the attempt was restored from.
func New(ref job.Ref, channels int, last job.CheckpointID) *Aligner {
	if channels < 1 {
		panic(fmt.Sprintf("barrier: aligner of %s with %d channels", ref, channels))
	}
	return &Aligner{
		ref: ref, newest: last, live: channels,
		arrived: make([]bool, channels), ended: make([]bool, channels), out: make([]Effect, 0, 6),
	}
}

// Pending returns the checkpoint that is being aligned, if any.
func (a *Aligner) Pending() (n job.CheckpointID, ok bool) { return a.pending.ID, a.aligning }

// Blocked reports whether channel ch must not be read now.
func (a *Aligner) Blocked(ch int) bool {
	return a.aligning && a.pending.Aligned && a.arrived[ch] && !a.ended[ch]
}

// Step takes one event and returns what to do, in order. The slice is valid until the next call. A barrier of
// another attempt is ignored: its sender is fenced, or soon will be.
func (a *Aligner) Step(e Event) []Effect {
	a.out = a.out[:0]
	switch e.Kind {
	case Arrived:
		if e.Barrier.Ref == a.ref {
			a.arrive(e.Channel, e.Barrier)
		}
	case Ended:
		a.end(e.Channel)
	case DeadlinePassed:
		a.release(e.ID, Late)
	case GivenUp:
		a.giveUp(e.ID)
	default:
		panic(fmt.Sprintf("barrier: unknown event kind %d", e.Kind))
	}
	return a.out
}

func (a *Aligner) arrive(ch int, b checkpoint.Barrier) {
	switch {
	case b.ID > a.newest:
		if a.aligning {
			a.release(a.pending.ID, Superseded)
		}
		a.start(b)
	case !a.aligning || b.ID < a.newest || a.arrived[ch]:
		return // taken or declined long ago, or a repetition
	}
	if !a.arrived[ch] {
		a.arrived[ch] = true
		if !a.ended[ch] {
			a.missing--
			if a.pending.Aligned && a.missing > 0 {
				a.blocked++
				a.emit(Effect{Kind: Block, Channel: ch, ID: b.ID})
			}
		}
	}
	a.finishIfComplete()
}

func (a *Aligner) start(b checkpoint.Barrier) {
	a.newest, a.pending, a.aligning = b.ID, b, true
	a.missing = a.live
	clear(a.arrived)
	a.emit(Effect{Kind: Announce, ID: b.ID, Barrier: b})
}

func (a *Aligner) end(ch int) {
	if a.ended[ch] {
		return
	}
	a.ended[ch] = true
	a.live--
	if a.live == 0 {
		// Ahead of the snapshot that this end may complete: every channel has ended before its barrier, so what
		// the subtask emits at its end belongs before it too. The checkpoint may be the final one, and nothing
		// that comes after that is ever committed.
		a.emit(Effect{Kind: EndOfInput})
	}
	if a.aligning {
		// A blocked channel is not read, so its end can only come ahead of its barrier, unless nothing blocks.
		if !a.arrived[ch] {
			a.missing--
		}
		a.finishIfComplete()
	}
}

func (a *Aligner) finishIfComplete() {
	if a.missing > 0 {
		return
	}
	a.aligning = false
	a.emit(Effect{Kind: Snapshot, ID: a.pending.ID, Barrier: a.pending})
	a.unblock()
}

func (a *Aligner) release(n job.CheckpointID, why Reason) {
	if !a.aligning || a.pending.ID != n {
		return
	}
	a.aligning = false
	a.emit(Effect{Kind: Decline, ID: n, Reason: why})
	a.unblock()
}

// giveUp releases n, or makes sure that a barrier of n which is still on its way blocks nothing. Ids are
// contiguous and decided in order, so news of a higher n also settles the one being aligned.
func (a *Aligner) giveUp(n job.CheckpointID) {
	if n > a.newest {
		a.release(a.pending.ID, Superseded)
		a.newest = n
		return
	}
	a.release(n, Abandoned)
}

func (a *Aligner) unblock() {
	if a.blocked > 0 {
		a.blocked = 0
		a.emit(Effect{Kind: Unblock})
	}
}

func (a *Aligner) emit(e Effect) { a.out = append(a.out, e) }
