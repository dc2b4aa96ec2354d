package checkpoint

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/job"
)

// BookEvent is one input of a NodeBook; exactly one of the pointers and ids is meant, by Kind.
type BookEvent struct {
	Kind    BookEventKind
	Barrier Barrier
	Share   Share
	ID      job.CheckpointID
	Reason  string
}

// BookEventKind says what happened on the node.
type BookEventKind uint8

// The kinds of event.
const (
	// Heard: a Snapshot order, a peer's barrier or a peer's message brought Barrier.
	Heard BookEventKind = iota + 1
	// Snapshotted: a subtask's Share of a checkpoint is complete: files uploaded and verified, transactions
	// flushed.
	Snapshotted
	// Failed: a subtask declined checkpoint ID, or the node could not complete it, for Reason.
	Failed
	// PeerDeclined: another node of the attempt has declined the checkpoint of Barrier, for Reason. It cannot
	// succeed any more, and subtasks of that node will not forward its barrier.
	PeerDeclined
	// DeadlineOver: the time left that came with checkpoint ID is over.
	DeadlineOver
	// PartStored: the part object of checkpoint ID is durable.
	PartStored
	// Decided: it is known that every checkpoint up to and including ID is decided.
	Decided
)

// Share is what one subtask contributes to a checkpoint.
type Share struct {
	ID      job.CheckpointID
	Subtask job.SubtaskID
	// Running is set for a source subtask that had not ended before the barrier.
	Running      bool
	States       []OperatorState
	Transactions []Transaction
	Stats        Stats
}

// BookEffect is one thing that the node has to do.
type BookEffect struct {
	Kind    BookEffectKind
	ID      job.CheckpointID
	Barrier Barrier
	Part    Part
	Reason  string
}

// BookEffectKind says what to do.
type BookEffectKind uint8

// The kinds of effect.
const (
	// Inject: apply the numbers of Barrier (ReuseSet.Advance), put it into the output of every source subtask
	// of the node, start counting its deadline, and tell the peers. Once per checkpoint.
	Inject BookEffectKind = iota + 1
	// StorePart: every subtask of the node has contributed; write Part, then feed PartStored.
	StorePart
	// Ready: answer whoever waits for checkpoint ID that the node's part is durable.
	Ready
	// Decline: answer whoever waits for checkpoint ID that the node does not take part, for Reason.
	Decline
	// Tell: tell the peers that this node has declined Barrier, for Reason, so that their subtasks do not wait for
	// barriers that will not come.
	Tell
	// Refuse: answer the Snapshot order that brought ID, and only that one, with Reason.
	Refuse
	// Release: tell the subtasks that checkpoint ID is given up, so that nobody stays blocked for it.
	Release
	// Drop: forget what was frozen and kept for checkpoint ID; it is decided or declined.
	Drop
)

// bookState is how far a checkpoint is on this node.
type bookState uint8

const (
	collecting bookState = iota
	storing
	ready
	declined
)

type page struct {
	barrier Barrier
	state   bookState
	reason  string
	shares  []Share
	done    []bool // by index in NodeBook.subtasks
	missing int
}

// NodeBook is one node's book of the open checkpoints of one attempt. It is a pure state machine; the node
// serialises access.
//
//	Heard(n) ──► collecting ──all shares──► storing ──PartStored──► ready ──Decided──► closed
//	                 └─ Failed / DeadlineOver / PeerDeclined / newer n ──► declined ──Decided──► closed
//
// Invariants: newest only rises; n is injected exactly once, when it is first heard of; an n at or below
// newest that is not open is refused; the page of n stays until n is decided, so that a Snapshot order which
// is retried gets the same answer. A declined checkpoint never ends the attempt.
type NodeBook struct {
	ref      job.Ref
	node     job.NodeID
	subtasks []job.SubtaskID
	newest   job.CheckpointID
	decided  job.CheckpointID
	pages    map[job.CheckpointID]*page
	out      []BookEffect
}

// NewNodeBook returns the book of a node that runs subtasks in attempt ref; first is the lowest checkpoint id
// of the attempt.
func NewNodeBook(ref job.Ref, node job.NodeID, subtasks []job.SubtaskID, first job.CheckpointID) *NodeBook {
	s := slices.Clone(subtasks)
	slices.SortFunc(s, compareSubtasks)
	return &NodeBook{ref: ref, node: node, subtasks: s, newest: first - 1, decided: first - 1, pages: map[job.CheckpointID]*page{}}
}

// Newest is the highest checkpoint heard of.
func (b *NodeBook) Newest() job.CheckpointID { return b.newest }

// Open lists the checkpoints whose pages are open, ascending.
func (b *NodeBook) Open() []job.CheckpointID {
	var out []job.CheckpointID
	for n := range b.pages {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Step takes one event and returns what to do, in order. The slice is valid until the next call.
func (b *NodeBook) Step(e BookEvent) []BookEffect {
	b.out = b.out[:0]
	switch e.Kind {
	case Heard:
		b.hear(e.Barrier)
	case Snapshotted:
		b.collect(e.Share)
	case Failed:
		b.fail(e.ID, e.Reason)
	case DeadlineOver:
		b.fail(e.ID, "the deadline passed before the node's share was complete")
	case PeerDeclined:
		b.hear(e.Barrier)
		b.decline(e.Barrier.ID, e.Reason)
	case PartStored:
		if p := b.pages[e.ID]; p != nil && p.state == storing {
			p.state = ready
			b.emit(BookEffect{Kind: Ready, ID: e.ID})
		}
	case Decided:
		b.close(e.ID)
	default:
		panic(fmt.Sprintf("checkpoint: unknown book event kind %d", e.Kind))
	}
	return b.out
}

func (b *NodeBook) hear(bar Barrier) {
	if bar.Ref != b.ref {
		b.emit(BookEffect{Kind: Refuse, ID: bar.ID, Reason: fmt.Sprintf("barrier of attempt %s, this is %s", bar.Ref, b.ref)})
		return
	}
	// What is decided needs no page; and since ids are decided in order, nothing below a new n is open.
	b.close(min(bar.Decided, bar.ID-1))
	if bar.ID > b.newest {
		for _, n := range b.Open() {
			b.decline(n, fmt.Sprintf("checkpoint %d began", bar.ID))
		}
		b.newest = bar.ID
		b.pages[bar.ID] = &page{barrier: bar, done: make([]bool, len(b.subtasks)), missing: len(b.subtasks)}
		b.emit(BookEffect{Kind: Inject, ID: bar.ID, Barrier: bar})
		b.storeIfComplete(bar.ID)
		return
	}
	p := b.pages[bar.ID]
	switch {
	case p == nil && bar.ID <= b.decided:
		b.emit(BookEffect{Kind: Refuse, ID: bar.ID, Reason: fmt.Sprintf("every checkpoint up to %d is decided or belongs to an earlier attempt", b.decided)})
	case p == nil:
		b.emit(BookEffect{Kind: Refuse, ID: bar.ID, Reason: fmt.Sprintf("the newest checkpoint heard of is %d", b.newest)})
	case p.state == ready:
		b.emit(BookEffect{Kind: Ready, ID: bar.ID})
	case p.state == declined:
		b.emit(BookEffect{Kind: Decline, ID: bar.ID, Reason: p.reason})
	}
}

func (b *NodeBook) collect(s Share) {
	p := b.pages[s.ID]
	i, known := slices.BinarySearchFunc(b.subtasks, s.Subtask, compareSubtasks)
	if !known {
		panic(fmt.Sprintf("checkpoint: share of %s, which is not on node %s in attempt %s", s.Subtask, b.node, b.ref))
	}
	if p == nil || p.state != collecting || p.done[i] {
		return // declined or decided meanwhile, or a repetition
	}
	p.done[i] = true
	p.missing--
	p.shares = append(p.shares, s)
	b.storeIfComplete(s.ID)
}

func (b *NodeBook) storeIfComplete(n job.CheckpointID) {
	p := b.pages[n]
	if p.missing > 0 {
		return
	}
	p.state = storing
	part := Part{
		Version: FormatVersion, UID: b.ref.UID, Attempt: b.ref.Attempt, ID: n, Node: b.node, Subtasks: b.subtasks, Ended: true,
	}
	// Shares come in any order; a retried PUT of the part must find the same bytes.
	slices.SortFunc(p.shares, func(x, y Share) int { return compareSubtasks(x.Subtask, y.Subtask) })
	for _, s := range p.shares {
		part.Ended = part.Ended && !s.Running
		part.States = append(part.States, s.States...)
		part.Transactions = append(part.Transactions, s.Transactions...)
		part.Stats = part.Stats.Add(s.Stats)
	}
	sortShare(part.States, part.Transactions)
	p.shares = nil
	b.emit(BookEffect{Kind: StorePart, ID: n, Part: part})
}

// fail declines n because of what happened on this node.
func (b *NodeBook) fail(n job.CheckpointID, why string) {
	if b.decline(n, why) {
		b.emit(BookEffect{Kind: Tell, ID: n, Barrier: b.pages[n].barrier, Reason: why})
	}
}

// decline reports whether n was open, and could still be declined.
func (b *NodeBook) decline(n job.CheckpointID, why string) bool {
	p := b.pages[n]
	if p == nil || p.state == ready || p.state == declined {
		return false
	}
	p.state, p.reason, p.shares = declined, why, nil
	b.emit(BookEffect{Kind: Decline, ID: n, Reason: why})
	b.emit(BookEffect{Kind: Release, ID: n, Reason: why})
	b.emit(BookEffect{Kind: Drop, ID: n})
	return true
}

// close closes the pages of all checkpoints up to n.
func (b *NodeBook) close(n job.CheckpointID) {
	if n <= b.decided {
		return
	}
	b.decided = n
	for _, open := range b.Open() {
		if open > n {
			break
		}
		p := b.pages[open]
		if p.state != ready { // decided without us: an abort, or another node's decline
			b.decline(open, "the checkpoint was decided without this node")
		} else {
			b.emit(BookEffect{Kind: Drop, ID: open})
		}
		delete(b.pages, open)
	}
	b.newest = max(b.newest, n)
}

func (b *NodeBook) emit(e BookEffect) { b.out = append(b.out, e) }
