// Package node is the worker process's data plane: its slots, the attempts that run on them, their
// deployment and restore, and the node's share of every checkpoint.
//
// Who may run is decided by job.Gate, what a checkpoint needs by checkpoint.NodeBook; this package carries
// out their answers.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/exchange"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/task"
)

// Compiled is what a node makes of a deployment's spec.
type Compiled struct {
	Program *task.Program
	// NewState opens the keyed state of one operator of one subtask.
	NewState func(state.Config) (state.Backend, error)
	// Close releases what the program's connectors share; called when the attempt has ended.
	Close func()
}

// Config is what a node is made of. Every field is required unless it says otherwise.
type Config struct {
	ID    job.NodeID
	Slots int
	// DataDir is a directory of this process alone, for local state; attempts have subdirectories.
	DataDir   string
	Exchange  *exchange.Server
	Compile   func(ctx context.Context, dep job.Deployment) (Compiled, error)
	OpenStore func(ctx context.Context, url string) (snapshot.Store, error)
	// AttemptOpen asks Temporal whether the Attempt of ref is still open; an error is no answer. Optional.
	AttemptOpen func(ctx context.Context, jobName string, ref job.Ref) (bool, error)
	// CloseWithin is how long the subtasks of an attempt that has ended may take to close before it is over without
	// them. 0 means 6 s: more than they give their sinks, less than an orderly end of the process may take.
	CloseWithin time.Duration
	// FreeSlots is told the number of free slots whenever it changes. Optional.
	FreeSlots func(n int)
	Log       *slog.Logger
}

func (c *Config) closeWithin() time.Duration {
	if c.CloseWithin > 0 {
		return c.CloseWithin
	}
	return 6 * time.Second
}

// Node runs attempts. It is safe for concurrent use.
type Node struct {
	cfg Config
	mu  struct {
		sync.Mutex
		gate     *job.Gate
		attempts map[job.Ref]*attempt
		leaving  bool
	}
}

// New returns a node that runs nothing yet.
func New(cfg Config) *Node {
	n := &Node{cfg: cfg}
	n.mu.gate = job.NewGate()
	n.mu.attempts = map[job.Ref]*attempt{}
	return n
}

// ID is the node's id.
func (n *Node) ID() job.NodeID { return n.cfg.ID }

// RunTasks deploys dep once, or attaches to the deployment, and returns when the attempt has ended here or
// with ctx's cause: it watches, it does not own. It never returns nil.
func (n *Node) RunTasks(ctx context.Context, dep job.Deployment) error {
	a, err := n.admit(dep)
	if err != nil {
		return err
	}
	a.watchers.Add(1)
	defer a.unwatch()
	select {
	case <-a.done:
		return a.outcome
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// admit passes the gate and starts the attempt if this is its first RunTasks.
func (n *Node) admit(dep job.Deployment) (*attempt, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.leaving {
		return nil, job.AsFatal(job.ErrNodeLeaving)
	}
	if err := n.seeLocked(dep.Ref); err != nil {
		return nil, err
	}
	first, err := n.mu.gate.Admit(dep.Ref)
	if err != nil {
		return nil, err
	}
	a := n.mu.attempts[dep.Ref]
	if first {
		a = newAttempt(n, dep, n.lowerLocked(dep.Ref))
		n.mu.attempts[dep.Ref] = a
		n.tellFreeLocked()
		go a.run()
	}
	return a, nil
}

// seeLocked passes every order through the gate. When ref is the newest attempt of its job so far, what this
// node has of lower ones ends, whichever order brought the news.
func (n *Node) seeLocked(ref job.Ref) error {
	newer, err := n.mu.gate.See(ref)
	if !newer {
		return err
	}
	for _, a := range n.lowerLocked(ref) {
		a.end(job.AsFenced(&job.StaleError{Ref: a.dep.Ref, Highest: ref.Attempt}))
		if a.ended() {
			delete(n.mu.attempts, a.dep.Ref) // the gate refuses it from now on
		}
	}
	return nil
}

func (n *Node) lowerLocked(ref job.Ref) (lower []*attempt) {
	for r, a := range n.mu.attempts {
		if r.UID == ref.UID && r.Attempt < ref.Attempt {
			lower = append(lower, a)
		}
	}
	return lower
}

// See is told of an attempt by whoever hears of it first (a peer's handshake): lower ones end.
func (n *Node) See(ref job.Ref) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seeLocked(ref)
}

// StopTasks ends the attempt on this node and waits for it, or remembers that it must never start here.
func (n *Node) StopTasks(ctx context.Context, ref job.Ref) error {
	n.mu.Lock()
	_ = n.seeLocked(ref) // a superseded attempt has been ended, which may still be under way
	n.mu.gate.Stop(ref)
	a := n.mu.attempts[ref]
	n.mu.Unlock()
	if a == nil {
		return nil
	}
	a.end(job.AsFenced(&job.StoppedError{Ref: ref}))
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop attempt %s: %w", ref, context.Cause(ctx))
	}
}

// Snapshot takes the node's share of a checkpoint and returns when its part object is durable.
func (n *Node) Snapshot(ctx context.Context, b checkpoint.Barrier) (checkpoint.Ack, error) {
	a, err := n.running(b.Ref)
	if err != nil {
		return checkpoint.Ack{}, err
	}
	if b, err = a.whenStarted(ctx, b); err != nil {
		return checkpoint.Ack{}, err
	}
	return a.book.await(ctx, b)
}

// AwaitEnd returns when every source of the attempt on this node has reached its end.
func (n *Node) AwaitEnd(ctx context.Context, ref job.Ref) error {
	a, err := n.running(ref)
	if err != nil {
		return err
	}
	select {
	case <-a.sourcesEnded:
		return nil
	case <-a.done:
		return a.outcome
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// running returns the attempt of ref, which must have been admitted here.
func (n *Node) running(ref job.Ref) (*attempt, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.mu.attempts[ref]; a != nil {
		return a, nil
	}
	if err := n.seeLocked(ref); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("node %s does not run attempt %s", n.cfg.ID, ref)
}

// Figures are the sums over the subtasks of one attempt on this node.
type Figures struct {
	Job      string
	Ref      job.Ref
	Subtasks []SubtaskFigures
	// Checkpoint is the newest checkpoint that the node took its share of, At when, Took how long it needed.
	Checkpoint job.CheckpointID
	At         time.Time
	Took       time.Duration
}

// SubtaskFigures are the counters of one subtask.
type SubtaskFigures struct {
	ID     job.SubtaskID
	Source bool
	task.Figures
}

// Figures returns those of every attempt that runs here.
func (n *Node) Figures() []Figures {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Figures
	for _, a := range n.mu.attempts {
		if !a.ended() {
			out = append(out, a.figures())
		}
	}
	return out
}

// FiguresOf returns those of one attempt; false if it does not run here.
func (n *Node) FiguresOf(ref job.Ref) (Figures, bool) {
	n.mu.Lock()
	a := n.mu.attempts[ref]
	n.mu.Unlock()
	if a == nil {
		return Figures{}, false
	}
	return a.figures(), true
}

// Leave ends every attempt with ErrNodeLeaving, refuses new ones and waits for the end of all, or for ctx.
func (n *Node) Leave(ctx context.Context) error {
	n.mu.Lock()
	n.mu.leaving = true
	var open []*attempt
	for _, a := range n.mu.attempts {
		open = append(open, a)
	}
	n.mu.Unlock()
	for _, a := range open {
		a.end(job.AsFatal(job.ErrNodeLeaving))
	}
	for _, a := range open {
		select {
		case <-a.done:
		case <-ctx.Done():
			return fmt.Errorf("leave: attempt %s: %w", a.dep.Ref, context.Cause(ctx))
		}
	}
	return nil
}

// free is the number of slots that no running attempt uses.
func (n *Node) tellFreeLocked() {
	if n.cfg.FreeSlots == nil {
		return
	}
	free := n.cfg.Slots
	for _, a := range n.mu.attempts {
		if !a.ended() {
			free -= len(a.slots)
		}
	}
	n.cfg.FreeSlots(max(free, 0))
}

// forget gives the attempt's slots and memory back. The outcome is kept for RunTasks that ask again,
// unless a newer attempt makes the gate refuse them.
func (n *Node) forget(a *attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.gate.Highest(a.dep.UID) > a.dep.Attempt {
		delete(n.mu.attempts, a.dep.Ref)
	} else {
		n.mu.attempts[a.dep.Ref] = a.remembered()
	}
	n.tellFreeLocked()
}

// remembered is what is kept of an attempt that has ended.
func (a *attempt) remembered() *attempt {
	return &attempt{
		n: a.n, dep: job.Deployment{Ref: a.dep.Ref, JobName: a.dep.JobName}, ctx: a.ctx, cancel: a.cancel,
		started: make(chan struct{}), sourcesEnded: a.sourcesEnded, done: a.done, outcome: a.outcome,
	}
}

func (n *Node) attemptDir(ref job.Ref) string {
	return filepath.Join(n.cfg.DataDir, "attempts", job.Escape(string(ref.UID))+"-"+ref.Attempt.String())
}
