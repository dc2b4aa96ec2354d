package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/exchange"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/task"
)

// attempt is one deployment on this node, from admission to its remembered outcome.
//
//	admitted ─► deploying (restore, connect) ─► started ─► ended
//
// ctx's cause is the outcome: whoever cancels first decides it.
type attempt struct {
	n      *Node
	dep    job.Deployment
	slots  []int
	dir    string
	lower  []*attempt // of the same job, to be over before this one starts; nil afterwards
	ctx    context.Context
	cancel context.CancelCauseFunc

	store    snapshot.Store
	compiled Compiled
	manifest checkpoint.Manifest
	mesh     *exchange.Mesh
	book     *book
	subtasks []*task.Subtask

	transfers    chan struct{}
	background   sync.WaitGroup // snapshots being persisted, parts being stored
	running      sync.WaitGroup // subtasks
	started      chan struct{}  // closed when records flow
	sourcesEnded chan struct{}
	sourcesOpen  atomic.Int32
	watchers     atomic.Int32
	alone        atomic.Int64 // unix nanoseconds since when nobody watches
	done         chan struct{}
	outcome      error // valid after done
}

func newAttempt(n *Node, dep job.Deployment, lower []*attempt) *attempt {
	a := &attempt{
		n: n, dep: dep, lower: lower,
		slots: dep.Placement.SlotsOf(n.cfg.ID), dir: n.attemptDir(dep.Ref),
		transfers: make(chan struct{}, maxUploads), started: make(chan struct{}),
		sourcesEnded: make(chan struct{}), done: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

// end stops the attempt with err as its outcome, unless it has one.
func (a *attempt) end(err error) { a.cancel(err) }

// fail ends the attempt because of err. A lost peer and a newer attempt are told as such, whoever noticed them.
func (a *attempt) fail(err error) {
	var lost *job.PeerLostError
	var stale *job.StaleError
	switch {
	case errors.As(err, &stale):
		err = job.AsFenced(stale)
	case errors.As(err, &lost):
		err = lost
	}
	a.cancel(err)
}

func (a *attempt) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *attempt) unwatch() {
	if a.watchers.Add(-1) == 0 {
		a.alone.Store(time.Now().UnixNano())
	}
}

// run is the life of the attempt.
func (a *attempt) run() {
	log := a.n.cfg.Log.With("job", a.dep.JobName, "attempt", a.dep.Ref.String())
	log.Info("deploying", "slots", len(a.slots), "restore", int64(a.dep.Restore))
	closed := false
	defer func() {
		close(a.done) // first: an ended attempt uses no slots
		if closed {
			a.removeDir()
		}
		a.n.forget(a)
	}()
	for _, l := range a.lower {
		<-l.done
	}
	a.lower = nil
	if err := a.deploy(); err != nil {
		a.fail(err)
	} else {
		log.Info("running", "subtasks", len(a.subtasks))
	}
	go a.askWhileAlone()
	<-a.ctx.Done()
	a.outcome = context.Cause(a.ctx)
	if closed = a.finish(); !closed {
		log.Error("attempt ended, but not all that it used could be closed", "within", a.n.cfg.closeWithin(), "cause", a.outcome)
		return
	}
	log.Info("attempt ended", "cause", a.outcome)
}

// finish closes everything. It waits for subtasks only so long, false if that was not enough: a connector that hangs
// must not keep the next attempt, or the end of the process, waiting. What it still does is a zombie's, which
// fencing renders harmless; whatever it shares with the rest is closed once it lets go.
func (a *attempt) finish() bool {
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		a.running.Wait()
		a.background.Wait()
	}()
	patience := time.NewTimer(a.n.cfg.closeWithin())
	defer patience.Stop()
	var closed bool
	select {
	case <-quiet:
		closed = true
	case <-patience.C:
	}
	if a.book != nil {
		a.book.close()
	}
	if a.mesh != nil {
		a.mesh.Close(a.outcome)
	}
	if closed {
		a.release()
		return true
	}
	go func() {
		<-quiet
		a.release()
		a.removeDir()
	}()
	return false
}

// release closes what the subtasks shared.
func (a *attempt) release() {
	if a.compiled.Close != nil {
		a.compiled.Close()
	}
}

func (a *attempt) removeDir() {
	if err := os.RemoveAll(a.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.n.cfg.Log.Warn("remove local state", "dir", a.dir, "err", err)
	}
}

// deploy restores and starts every subtask of this node.
func (a *attempt) deploy() (err error) {
	if err := a.prepare(); err != nil {
		return fmt.Errorf("deploy attempt %s: %w", a.dep.Ref, err)
	}
	if err := a.wire(); err != nil {
		for _, s := range a.subtasks { // made, but never to run
			s.Close(a.ctx)
		}
		return fmt.Errorf("deploy attempt %s: %w", a.dep.Ref, err)
	}
	go func() {
		select {
		case <-a.mesh.Done():
			a.fail(a.mesh.Err())
		case <-a.ctx.Done():
		}
	}()
	start := make(chan struct{})
	var ready sync.WaitGroup
	for _, s := range a.subtasks {
		ready.Add(1)
		a.running.Add(1)
		go a.runSubtask(s, sync.OnceFunc(ready.Done), start)
	}
	if err := a.mesh.Start(a.ctx); err != nil {
		return fmt.Errorf("connect attempt %s: %w", a.dep.Ref, err)
	}
	if err := a.awaitReady(&ready); err != nil {
		return err
	}
	close(a.started)
	close(start)
	return nil
}

// awaitReady waits until every subtask is restored or has failed, or the attempt has ended.
func (a *attempt) awaitReady(ready *sync.WaitGroup) error {
	all := make(chan struct{})
	go func() {
		defer close(all)
		ready.Wait()
	}()
	select {
	case <-all:
	case <-a.ctx.Done():
	}
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	return nil
}

func (a *attempt) runSubtask(s *task.Subtask, ready func(), start <-chan struct{}) {
	defer a.running.Done()
	defer ready() // if it fails before it is ready
	err := s.Run(a.ctx, ready, start)
	// The attempt ends before the subtask closes: Close waits for what is being persisted, and that waits for
	// the subtask until its context ends.
	if a.ctx.Err() == nil {
		a.fail(&job.SubtaskError{Node: a.n.cfg.ID, Subtask: s.ID(), Err: err})
	}
	s.Close(a.ctx)
}

// prepare opens the store, reads and verifies the manifest, and compiles the program.
func (a *attempt) prepare() (err error) {
	if len(a.slots) == 0 {
		return job.AsFatal(errors.New("the placement has no slot on this node"))
	}
	if a.store, err = a.n.cfg.OpenStore(a.ctx, a.dep.Storage); err != nil {
		return err
	}
	if a.manifest, err = snapshot.ReadManifest(a.ctx, a.store, a.dep.UID, a.dep.Restore); err != nil {
		return fmt.Errorf("read checkpoint %d: %w", a.dep.Restore, err)
	}
	if a.manifest.Kind != checkpoint.Durable {
		return job.AsFatal(fmt.Errorf("checkpoint %d cannot be restored: there is a record of kind %q", a.dep.Restore, a.manifest.Kind))
	}
	if a.compiled, err = a.n.cfg.Compile(a.ctx, a.dep); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if got := a.compiled.Program.Graph.Digest(); got != a.dep.GraphDigest {
		return job.AsFatal(fmt.Errorf("this node compiles another graph (%.12s) than the plan's (%.12s): do all nodes run the same version?", got, a.dep.GraphDigest))
	}
	if err := os.RemoveAll(a.dir); err != nil {
		return err
	}
	return os.MkdirAll(a.dir, 0o700)
}

const (
	askEvery = 5 * time.Second
	// aloneAfter is how long nobody may watch before the node asks: a retried RunTasks comes sooner.
	aloneAfter = 10 * time.Second
)

// askWhileAlone ends the attempt when nobody watches it and Temporal says that it is closed. While Temporal
// cannot be reached the tasks go on.
func (a *attempt) askWhileAlone() {
	if a.n.cfg.AttemptOpen == nil {
		return
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-tick.C:
		}
		if a.watchers.Load() > 0 || time.Since(time.Unix(0, a.alone.Load())) < aloneAfter {
			continue
		}
		open, err := a.n.cfg.AttemptOpen(a.ctx, a.dep.JobName, a.dep.Ref)
		if err == nil && !open && a.watchers.Load() == 0 {
			a.end(job.AsFenced(fmt.Errorf("attempt %s is closed and nobody watches it", a.dep.Ref)))
			return
		}
	}
}

func (a *attempt) figures() Figures {
	f := Figures{Job: a.dep.JobName, Ref: a.dep.Ref}
	select {
	case <-a.started:
	default:
		return f // the subtasks are still being made
	}
	for _, s := range a.subtasks {
		f.Subtasks = append(f.Subtasks, SubtaskFigures{ID: s.ID(), Source: s.IsSource(), Figures: s.Figures()})
	}
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	f.Checkpoint, f.At, f.Took = a.book.mu.newest, a.book.mu.at, a.book.mu.took
	return f
}

// giveUp tells every subtask that checkpoint n is declined.
func (a *attempt) giveUp(n job.CheckpointID) {
	for _, s := range a.subtasks {
		if !s.IsSource() {
			s.GiveUp(n)
		}
	}
}

// The attempt is its subtasks' listener.
var _ task.Listener = (*attempt)(nil)

// Heard implements task.Listener.
func (a *attempt) Heard(b checkpoint.Barrier) {
	if _, err := a.book.hear(b); err != nil {
		a.n.cfg.Log.Debug("barrier refused", "attempt", a.dep.Ref.String(), "err", err)
	}
}

// Snapshotted implements task.Listener.
func (a *attempt) Snapshotted(s *task.Snapshot) { a.book.snapshotted(s) }

// Declined implements task.Listener.
func (a *attempt) Declined(n job.CheckpointID, id job.SubtaskID, why string) {
	a.book.failed(n, fmt.Sprintf("subtask %s: %s", id, why))
}

// SourceEnded implements task.Listener.
func (a *attempt) SourceEnded(job.SubtaskID) {
	if a.sourcesOpen.Add(-1) == 0 {
		close(a.sourcesEnded)
	}
}
