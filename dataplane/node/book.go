package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/task"
)

// DeclinedError says that this node does not take part in a checkpoint.
type DeclinedError struct {
	ID  job.CheckpointID
	Why string
}

// Error implements error.
func (e *DeclinedError) Error() string { return fmt.Sprintf("checkpoint %d declined: %s", e.ID, e.Why) }

// book drives the node's checkpoint.NodeBook for one attempt: it carries out the effects and answers those
// who wait.
type book struct {
	a  *attempt
	mu struct {
		sync.Mutex
		pure   *checkpoint.NodeBook
		reuse  *checkpoint.ReuseSet
		pages  map[job.CheckpointID]*pageIO
		closed bool // the attempt is over
		// newest is the last checkpoint whose part was stored.
		newest job.CheckpointID
		at     time.Time
		took   time.Duration
	}
}

// pageIO is the doing behind one open checkpoint.
type pageIO struct {
	began    time.Time
	ctx      context.Context // ends when the checkpoint is declined or decided
	cancel   context.CancelFunc
	deadline *time.Timer
	ack      checkpoint.Ack
	err      error
	settled  chan struct{} // closed when ack or err is set
}

func newBook(a *attempt, restored checkpoint.Manifest, subtasks []job.SubtaskID) *book {
	b := &book{a: a}
	b.mu.pure = checkpoint.NewNodeBook(a.dep.Ref, a.n.cfg.ID, subtasks, a.dep.FirstCheckpoint)
	b.mu.reuse = checkpoint.NewReuseSet(restored)
	b.mu.pages = map[job.CheckpointID]*pageIO{}
	return b
}

// whenStarted waits for the attempt to have started: before that nobody can take a barrier. The wait counts
// against the barrier's deadline.
func (a *attempt) whenStarted(ctx context.Context, bar checkpoint.Barrier) (checkpoint.Barrier, error) {
	received := time.Now()
	select {
	case <-a.started:
		bar.Remaining -= time.Since(received)
		return bar, nil
	case <-a.done:
		return bar, a.outcome
	case <-ctx.Done():
		return bar, context.Cause(ctx)
	}
}

// await joins checkpoint bar and returns the node's ack.
func (b *book) await(ctx context.Context, bar checkpoint.Barrier) (checkpoint.Ack, error) {
	p, err := b.hear(bar)
	if err != nil {
		return checkpoint.Ack{}, err
	}
	select {
	case <-p.settled:
		return p.ack, p.err
	case <-b.a.done:
		return checkpoint.Ack{}, b.a.outcome
	case <-ctx.Done():
		return checkpoint.Ack{}, context.Cause(ctx)
	}
}

// hear is told of a barrier by an order, a peer or a subtask, and returns its page.
func (b *book) hear(bar checkpoint.Barrier) (*pageIO, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, context.Cause(b.a.ctx)
	}
	refused := b.stepLocked(checkpoint.BookEvent{Kind: checkpoint.Heard, Barrier: bar})
	if refused != "" {
		return nil, &DeclinedError{ID: bar.ID, Why: refused}
	}
	return b.mu.pages[bar.ID], nil
}

func (b *book) failed(n job.CheckpointID, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stepLocked(checkpoint.BookEvent{Kind: checkpoint.Failed, ID: n, Reason: why})
}

func (b *book) peerDeclined(bar checkpoint.Barrier, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.closed {
		b.stepLocked(checkpoint.BookEvent{Kind: checkpoint.PeerDeclined, Barrier: bar, Reason: why})
	}
}

func (b *book) event(e checkpoint.BookEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stepLocked(e)
}

// stepLocked feeds the pure book and carries out its effects, none of which blocks.
func (b *book) stepLocked(e checkpoint.BookEvent) (refused string) {
	// Effects are copied: carrying one out must not run into the next step's.
	for _, f := range append([]checkpoint.BookEffect(nil), b.mu.pure.Step(e)...) {
		switch f.Kind {
		case checkpoint.Inject:
			b.injectLocked(f.Barrier)
		case checkpoint.StorePart:
			p := b.mu.pages[f.ID]
			b.a.background.Go(func() { b.storePart(p, f.Part) })
		case checkpoint.Ready:
			b.settleLocked(f.ID, nil)
		case checkpoint.Decline:
			b.settleLocked(f.ID, &DeclinedError{ID: f.ID, Why: f.Reason})
		case checkpoint.Release:
			b.a.giveUp(f.ID)
		case checkpoint.Drop:
			b.dropLocked(f.ID)
		case checkpoint.Tell:
			b.a.mesh.Decline(f.Barrier, f.Reason)
		case checkpoint.Refuse:
			refused = f.Reason
		}
	}
	return refused
}

func (b *book) injectLocked(bar checkpoint.Barrier) {
	b.mu.reuse.Advance(bar.Durable)
	p := &pageIO{began: time.Now(), settled: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(b.a.ctx)
	b.mu.pages[bar.ID] = p
	p.deadline = time.AfterFunc(bar.Remaining, func() {
		b.event(checkpoint.BookEvent{Kind: checkpoint.DeadlineOver, ID: bar.ID})
	})
	for _, s := range b.a.subtasks {
		if s.IsSource() {
			s.CheckpointDurable(bar.Durable)
			s.Inject(bar)
		}
	}
	b.a.mesh.Announce(bar)
}

func (b *book) settleLocked(n job.CheckpointID, err error) {
	p := b.mu.pages[n]
	if p == nil {
		return
	}
	select {
	case <-p.settled: // a repeated order got the answer already
	default:
		p.err = err
		if err == nil {
			b.mu.newest, b.mu.at, b.mu.took = n, time.Now(), time.Since(p.began)
		}
		close(p.settled)
	}
}

func (b *book) dropLocked(n job.CheckpointID) {
	p := b.mu.pages[n]
	if p == nil {
		return
	}
	p.deadline.Stop()
	p.cancel()
	b.settleLocked(n, &DeclinedError{ID: n, Why: "the checkpoint is decided"})
	// The page stays for orders that are repeated; only the newest are worth keeping.
	for id := range b.mu.pages {
		if id < n-4 {
			delete(b.mu.pages, id)
		}
	}
}

// snapshotted persists what a subtask left behind, in the background.
func (b *book) snapshotted(s *task.Snapshot) {
	b.mu.Lock()
	p := b.mu.pages[s.Barrier.ID]
	b.mu.Unlock()
	if p == nil || p.ctx.Err() != nil {
		s.Drop()
		return
	}
	b.a.background.Go(func() {
		share, err := b.persist(p, s)
		if err == nil {
			b.event(checkpoint.BookEvent{Kind: checkpoint.Snapshotted, Share: share})
			return
		}
		// Of a checkpoint that was declined meanwhile an error says nothing: it was made to stop.
		if job.ClassOf(err) == job.Fatal && p.ctx.Err() == nil {
			b.a.fail(&job.SubtaskError{Node: b.a.n.cfg.ID, Subtask: s.Subtask, Err: err})
		}
		b.failed(s.Barrier.ID, fmt.Sprintf("subtask %s: %v", s.Subtask, err))
	})
}

// close stops the deadlines: the attempt is over, nothing is persisted any more.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	for _, p := range b.mu.pages {
		p.deadline.Stop()
		p.cancel()
	}
}

func (b *book) persist(p *pageIO, s *task.Snapshot) (checkpoint.Share, error) {
	up := &uploader{b: b, id: s.Barrier.ID}
	states, txns, err := s.Persist(p.ctx, up)
	if err != nil {
		return checkpoint.Share{}, err
	}
	share := checkpoint.Share{
		ID: s.Barrier.ID, Subtask: s.Subtask, Running: s.Source && !s.Ended, States: states, Transactions: txns,
		Stats: checkpoint.Stats{
			Uploaded: up.uploaded.Load(), Records: s.Records, AlignMs: s.Align.Milliseconds(),
			SyncUs: s.Sync.Microseconds(), Transactions: len(txns), LagRecords: max(s.Lag, 0),
		},
	}
	for _, st := range states {
		for _, f := range st.Files {
			share.Stats.Bytes += f.Size
			share.Stats.Files++
		}
	}
	return share, nil
}

// storePart writes the node's part object; a failure declines the checkpoint.
func (b *book) storePart(p *pageIO, part checkpoint.Part) {
	ack, err := snapshot.WritePart(p.ctx, b.a.store, part)
	if err != nil {
		b.failed(part.ID, fmt.Sprintf("store part: %v", err))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.ack = ack
	b.stepLocked(checkpoint.BookEvent{Kind: checkpoint.PartStored, ID: part.ID})
}
