package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/node"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
)

// small starts a cluster for what is about the control of attempts.
func small(t *testing.T, nodes int) *cluster {
	return newCluster(t, nodes, 1, three(nodes, "pebble"))
}

// An order may come while the node still restores: it waits, and the wait counts against its deadline.
func TestSnapshotBeforeTheDeploymentHasFinished(t *testing.T) {
	c := small(t, 1)
	restore := make(chan struct{})
	c.opening = func() { <-restore }
	r := c.deploy()
	acked := make(chan error, 1)
	go func() {
		_, err := r.snapshots(c.barrier(r, time.Minute))
		acked <- err
	}()
	c.awaitAdmitted(r)
	close(restore)
	if err := <-acked; err != nil {
		t.Errorf("snapshot: %v, want an ack once the attempt runs", err)
	}
}

// awaitAdmitted returns when every node has heard of the attempt.
func (c *cluster) awaitAdmitted(r *run) {
	c.t.Helper()
	for _, m := range r.on {
		c.await("node "+string(m.id)+" hears of the attempt", func() bool {
			_, ok := m.node.FiguresOf(r.dep.Ref)
			return ok
		})
	}
}

// await polls until ok.
func (c *cluster) await(what string, ok func() bool) {
	c.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("timed out: %s", what)
		}
	}
}

func TestLateOrderIsDeclinedByItsDeadline(t *testing.T) {
	c := small(t, 1)
	restore := make(chan struct{})
	c.opening = func() { <-restore }
	r := c.deploy()
	c.awaitAdmitted(r)
	acked := make(chan error, 1)
	const left = 300 * time.Millisecond
	b := c.barrier(r, left)
	go func() {
		_, err := r.snapshots(b)
		acked <- err
	}()
	<-time.After(2 * left)
	close(restore)
	if err := <-acked; !isDeclined(err) {
		t.Errorf("snapshot: %v, want it declined: its time was over before the attempt ran", err)
	}
	_, _ = r.abort(b.ID, errors.New("declined"))
	c.awaitCheckpoint(r)
}

func isDeclined(err error) bool {
	var d *node.DeclinedError
	return errors.As(err, &d)
}

// A newer attempt may be heard of first by an order that is not its RunTasks: the lower one ends at once, and the
// newer one does not wait for it.
func TestNewsOfANewerAttemptByAnyOrder(t *testing.T) {
	for _, how := range []string{"snapshot", "await end", "stop of another"} {
		t.Run(how, func(t *testing.T) {
			c := small(t, 1)
			old := c.deploy()
			old.mustCheckpoint()
			m := old.on[0]
			dep := c.plan()
			switch how {
			case "snapshot":
				_, _ = m.node.Snapshot(t.Context(), checkpoint.Barrier{Ref: dep.Ref, ID: dep.FirstCheckpoint, Remaining: time.Second})
			case "await end":
				_ = m.node.AwaitEnd(t.Context(), dep.Ref)
			case "stop of another":
				if err := m.node.StopTasks(t.Context(), dep.Ref); err != nil {
					t.Fatal(err)
				}
			}
			var stale *job.StaleError
			if err := old.outcome(m); !errors.As(err, &stale) || job.ClassOf(err) != job.Fenced {
				t.Errorf("the older attempt ended with %v, want it fenced", err)
			}
			if how == "stop of another" {
				dep = c.plan()
			}
			r := c.runs(dep)
			r.mustCheckpoint()
			if err := m.node.RunTasks(t.Context(), old.dep); !errors.As(err, &stale) {
				t.Errorf("RunTasks of the older attempt: %v, want it refused as superseded", err)
			}
			if _, err := m.node.Snapshot(t.Context(), c.barrier(old, time.Second)); !errors.As(err, &stale) {
				t.Errorf("Snapshot of the older attempt: %v, want it refused as superseded", err)
			}
			r.stop()
		})
	}
}

// An attempt that is superseded while it deploys ends, and the next one comes up.
func TestSupersededWhileDeploying(t *testing.T) {
	c := small(t, 1)
	restore := make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(restore) }) }
	t.Cleanup(release)
	c.opening = func() { <-restore }
	old := c.deploy()
	c.awaitAdmitted(old)
	r := c.deploy()
	release()
	var stale *job.StaleError
	if err := old.outcome(old.on[0]); !errors.As(err, &stale) {
		t.Errorf("the older attempt ended with %v, want it superseded", err)
	}
	r.mustCheckpoint()
}

func TestStopBeforeRunTasksIsRemembered(t *testing.T) {
	c := small(t, 1)
	dep := c.plan()
	m := c.nodes[0]
	if err := m.node.StopTasks(t.Context(), dep.Ref); err != nil {
		t.Fatal(err)
	}
	var stopped *job.StoppedError
	if err := m.node.RunTasks(t.Context(), dep); !errors.As(err, &stopped) || job.ClassOf(err) != job.Fenced {
		t.Errorf("RunTasks after StopTasks: %v, want it refused as stopped", err)
	}
}

// RunTasks watches, it does not own: when its context ends the tasks go on, and the next call attaches.
func TestRunTasksAttaches(t *testing.T) {
	c := small(t, 1)
	dep := c.plan()
	m := c.nodes[0]
	lost := errors.New("heartbeat not found")
	ctx, cancel := context.WithCancelCause(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- m.node.RunTasks(ctx, dep) }()
	c.await("the attempt is admitted", func() bool { _, ok := m.node.FiguresOf(dep.Ref); return ok })
	cancel(lost)
	if err := <-watched; !errors.Is(err, lost) {
		t.Errorf("the watcher returned %v, want the cause of its context's end", err)
	}
	r := c.runs(dep)
	r.mustCheckpoint()
	r.stop()
	var stopped *job.StoppedError
	for range 2 { // the outcome is remembered
		if err := m.node.RunTasks(t.Context(), dep); !errors.As(err, &stopped) {
			t.Errorf("RunTasks after the end: %v, want the outcome", err)
		}
	}
	if _, err := m.node.Snapshot(t.Context(), c.barrier(r, time.Second)); !errors.As(err, &stopped) {
		t.Errorf("Snapshot after the end: %v, want the outcome", err)
	}
	if got := m.node.Figures(); len(got) != 0 {
		t.Errorf("figures of %d attempts after the end, want none", len(got))
	}
}

func TestLeave(t *testing.T) {
	c := small(t, 2)
	r := c.deploy()
	r.mustCheckpoint()
	leaver, other := r.on[0], r.on[1]
	if err := leaver.node.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.outcome(leaver); !errors.Is(err, job.ErrNodeLeaving) {
		t.Errorf("the leaving node's attempt ended with %v", err)
	}
	var peer *job.PeerLostError
	if err := r.outcome(other); !errors.As(err, &peer) || peer.Node != leaver.id {
		t.Errorf("the other node's attempt ended with %v, want the loss of %s", err, leaver.id)
	}
	if err := leaver.node.RunTasks(t.Context(), c.plan()); !errors.Is(err, job.ErrNodeLeaving) {
		t.Errorf("RunTasks on a node that leaves: %v", err)
	}
}

// A checkpoint that cannot be stored is declined; nothing is lost and the next one is whole.
func TestDeclinedCheckpointsDoNotEndTheAttempt(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cause func(*cluster) (undo func())
		want  string
	}{
		{"upload refused", func(c *cluster) func() {
			return c.fault(snapshottest.OpUpload, "shared/", snapshottest.Fault{Refuse: true})
		}, "persist state of"},
		{"part refused", func(c *cluster) func() {
			return c.fault(snapshottest.OpCreate, "/part-", snapshottest.Fault{Refuse: true})
		}, "store part"},
		{"sink not flushed", func(c *cluster) func() {
			c.out.refuse(errors.New("broker is slow"))
			return func() {}
		}, "pre-commit of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := small(t, 2)
			r := c.deploy()
			c.tap.let(6)
			r.mustCheckpoint()
			c.tap.let(6)
			undo := tc.cause(c)
			_, err := r.checkpoint()
			if !isDeclined(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("checkpoint: %v, want it declined because of %q", err, tc.want)
			}
			undo()
			c.tap.let(6)
			c.awaitCheckpoint(r)
			c.kill(r.on[1])
			c.add("spare", c.engine.Log)
			r = c.deploy()
			r.finish()
			c.checkThree()
		})
	}
}

// A node that declines says so to its peers: they do not go on, with blocked channels and uploads under way, until a
// deadline that may be far.
func TestPeersOfANodeThatDeclinesDecline(t *testing.T) {
	c := small(t, 3)
	r := c.deploy()
	c.tap.let(6)
	r.mustCheckpoint()
	c.tap.let(6)
	undo := c.fault(snapshottest.OpUpload, "shared/", snapshottest.Fault{Wait: make(chan struct{})})
	c.out.refuse(errors.New("broker is slow"))
	b := c.barrier(r, 24*time.Hour)
	_, err := r.snapshots(b)
	if own, told := declines(err); own != 1 || told != 2 {
		t.Errorf("snapshots: %v; want one node that declines and two that were told", err)
	}
	_, _ = r.abort(b.ID, err)
	undo()
	c.tap.let(6)
	c.awaitCheckpoint(r)
	r.finish()
	c.checkThree()
}

// declines counts the declines in err of a node's own, and those that peers told of.
func declines(err error) (own, told int) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		var d *node.DeclinedError
		switch {
		case !errors.As(err, &d):
		case strings.Contains(d.Why, " declined it: "):
			told++
		default:
			own++
		}
		return own, told
	}
	for _, e := range joined.Unwrap() {
		o, s := declines(e)
		own, told = own+o, told+s
	}
	return own, told
}

// awaitCheckpoint takes checkpoints until one is not declined: what an earlier one left may still be in progress.
func (c *cluster) awaitCheckpoint(r *run) {
	c.t.Helper()
	for range 20 {
		_, err := r.checkpoint()
		if err == nil {
			return
		}
		if !isDeclined(err) {
			c.t.Fatalf("checkpoint: %v", err)
		}
	}
	c.t.Fatal("every checkpoint is declined")
}

// fault makes calls of op on keys that contain part fail until it is undone.
func (c *cluster) fault(op snapshottest.Op, part string, f snapshottest.Fault) (undo func()) {
	c.faults.Store(&fault{op, part, f})
	return func() { c.faults.Store(nil) }
}

// A deadline that passes while files are uploaded declines the checkpoint and stops the upload.
func TestDeadlineDeclines(t *testing.T) {
	c := small(t, 2)
	r := c.deploy()
	c.tap.let(6)
	never := make(chan struct{})
	undo := c.fault(snapshottest.OpUpload, "shared/", snapshottest.Fault{Wait: never})
	b := c.barrier(r, 200*time.Millisecond)
	_, err := r.snapshots(b)
	if !isDeclined(err) || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("snapshot: %v, want it declined by its deadline", err)
	}
	_, _ = r.abort(b.ID, errors.New("declined"))
	undo()
	c.awaitCheckpoint(r)
	r.finish()
	c.checkThree()
}

// A sink that fails in the background ends the attempt at once with the subtask's name, also while its state is
// being persisted.
func TestFailedSinkEndsTheAttempt(t *testing.T) {
	c := small(t, 1)
	r := c.deploy()
	c.tap.let(6)
	c.fault(snapshottest.OpUpload, "shared/", snapshottest.Fault{Wait: make(chan struct{})})
	go func() { _, _ = r.snapshots(c.barrier(r, time.Hour)) }()
	<-c.faulted
	c.out.breakDown(job.AsFatal(errors.New("topic is gone")))
	var sub *job.SubtaskError
	err := r.outcome(r.on[0])
	if !errors.As(err, &sub) || sub.Subtask.Vertex != "events" || !strings.Contains(err.Error(), "topic is gone") {
		t.Errorf("the attempt ended with %v, want the subtask and why", err)
	}
}

// A fatal pre-commit ends the attempt too, for a sink may have no other way to say so.
func TestFatalPreCommitEndsTheAttempt(t *testing.T) {
	c := small(t, 2)
	r := c.deploy()
	c.tap.let(6)
	c.out.refuse(job.AsFatal(errors.New("transaction was fenced")))
	if _, err := r.snapshots(c.barrier(r, time.Minute)); err == nil {
		t.Error("the checkpoint was taken")
	}
	var sub *job.SubtaskError
	var peer *job.PeerLostError
	named := 0
	for _, m := range r.on {
		err := r.outcome(m)
		if errors.As(err, &sub) && strings.Contains(err.Error(), "transaction was fenced") {
			named++
		} else if !errors.As(err, &peer) || !strings.Contains(err.Error(), "transaction was fenced") {
			t.Errorf("node %s ended with %v, want it to say why its peer ended", m.id, err)
		}
	}
	if named != 1 {
		t.Errorf("%d nodes name the subtask, want 1", named)
	}
}

// A state that cannot be opened ends the deployment and leaves nothing open (see leaks).
func TestStateThatDoesNotOpen(t *testing.T) {
	c := newCluster(t, 1, 2, three(2, "pebble"))
	for _, bad := range []int32{1, 2, 4} { // the first, one behind others of a vertex, the last
		var opened atomic.Int32
		c.state = func() error {
			if opened.Add(1) == bad {
				return errors.New("disk is full")
			}
			return nil
		}
		r := c.deploy()
		err := r.outcome(r.on[0])
		if err == nil || !strings.Contains(err.Error(), "open state of ") || !strings.HasSuffix(err.Error(), ": disk is full") {
			t.Errorf("state %d: the attempt ended with %v", bad, err)
		}
	}
}

// A barrier that reaches one node reaches all: the others join before their own order comes.
func TestPeersJoinACheckpoint(t *testing.T) {
	c := small(t, 3)
	r := c.deploy()
	c.tap.let(6)
	b := c.barrier(r, time.Minute)
	var acks []checkpoint.Ack
	for _, m := range r.on { // one after the other: each ack needs the barriers of all
		a, err := r.order(m, b)
		if err != nil {
			t.Fatalf("node %s: %v", m.id, err)
		}
		acks = append(acks, a)
	}
	again, err := r.order(r.on[0], b)
	if err != nil || again != acks[0] {
		t.Errorf("a repeated order got %+v, %v, want the same ack", again, err)
	}
	r.commit(b.ID, acks)
	if _, err := r.order(r.on[0], b); err != nil {
		t.Errorf("an order that is repeated before the next one got %v", err)
	}
	r.mustCheckpoint()
	if _, err := r.order(r.on[0], b); !isDeclined(err) {
		t.Errorf("an order of a decided checkpoint got %v, want it refused", err)
	}
}
