package sim

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/transaction"
)

// outcome of a checkpoint.
type outcome string

const (
	committed        outcome = "committed"
	durable          outcome = "durable"
	aborted          outcome = "aborted"
	lostTransactions outcome = "lost"
	refused          outcome = "refused"
	undecided        outcome = "undecided"
)

type checkpointOrder struct {
	barrier checkpoint.Barrier
	nodes   []job.NodeSlot
	floor   job.CheckpointID
	graph   job.Graph
}

// checkpointRun is one Checkpoint workflow; it follows workflows/checkpoint.go.
type checkpointRun struct {
	w     *world
	order checkpointOrder
	// cancel: its attempt has ended.
	cancel bool
	done   bool
	result outcome
	final  bool
}

// decision is what stands at the manifest's key.
type decision struct {
	result outcome
	final  bool
}

func (w *world) startCheckpoint(o checkpointOrder) *checkpointRun {
	c := &checkpointRun{w: w, order: o}
	w.temporal.checkpoints[o.barrier.ID] = c
	w.tracef("StreamJob: checkpoint %d of attempt %d (durable %d, committed %d)", o.barrier.ID, o.barrier.Attempt, o.barrier.Durable, o.barrier.Committed)
	w.spawn("Checkpoint", nil, func(p *proc) {
		c.run(p)
		w.tracef("Checkpoint %d: %s", o.barrier.ID, c.result)
		w.count("checkpoints " + string(c.result))
		c.done = true
	})
	return c
}

func (c *checkpointRun) run(p *proc) {
	acks, complete := c.snapshots(p)
	var d decision
	var err error
	if complete {
		d, err = c.commit(p, acks)
	} else {
		d, err = c.abort(p)
	}
	c.result, c.final = d.result, d.final
	if err != nil {
		c.result = undecided
	}
	if c.result == aborted && c.w.broken(AbortTransactions) {
		c.abortPrepared()
	}
	if c.result == durable {
		c.commitSinks(p)
	}
}

// snapshots asks every node for its share; complete: all have acked.
func (c *checkpointRun) snapshots(p *proc) (acks []checkpoint.Ack, complete bool) {
	w, o := c.w, c.order
	var shares []*future
	for _, s := range o.nodes {
		h := w.node(s.Node)
		if h == nil {
			h = &process{w: w, id: s.Node}
		}
		shares = append(shares, w.start("Snapshot", options{on: h, long: true}, func(q *proc, x *execution) (any, error) {
			return w.snapshot(q, x, h, o.barrier)
		}))
	}
	defer func() {
		for _, f := range shares {
			f.cancel = true
		}
	}()
	failed := false
	p.await(func() bool {
		done := 0
		for _, f := range shares {
			if f.done {
				done++
				failed = failed || f.err != nil
			}
		}
		return c.cancel || failed || done == len(shares)
	})
	for _, f := range shares {
		a, err := valueOf[checkpoint.Ack](f)
		if !f.done || err != nil {
			return nil, false
		}
		acks = append(acks, a)
	}
	return acks, true
}

// commit makes the checkpoint durable; if the attempt ends meanwhile, an abort competes with it.
func (c *checkpointRun) commit(p *proc, acks []checkpoint.Ack) (decision, error) {
	w, o := c.w, c.order
	f := w.start("CommitCheckpoint", options{}, func(q *proc, _ *execution) (any, error) { return w.commitCheckpoint(q, o, acks) })
	p.await(func() bool { return f.done || c.cancel })
	if f.done {
		d, err := valueOf[decision](f)
		if err != nil {
			d, err = c.abort(p)
			if d.result == aborted {
				d.result = refused
			}
		}
		return d, err
	}
	if w.broken(NoAbortRecord) {
		return decision{result: aborted}, nil
	}
	g := c.startAbort()
	p.await(func() bool { return f.done || g.done })
	if d, err := valueOf[decision](f); f.done && err == nil {
		return d, nil
	}
	return result[decision](p, g)
}

func (c *checkpointRun) abort(p *proc) (decision, error) {
	if c.w.broken(NoAbortRecord) {
		return decision{result: aborted}, nil
	}
	return result[decision](p, c.startAbort())
}

func (c *checkpointRun) startAbort() *future {
	w, o := c.w, c.order
	return w.start("AbortCheckpoint", options{}, func(q *proc, _ *execution) (any, error) {
		return w.abortCheckpoint(q, o, "aborted")
	})
}

// commitSinks commits the transactions; if the attempt ends meanwhile it stops, and recovery finishes them.
func (c *checkpointRun) commitSinks(p *proc) {
	if c.cancel {
		return
	}
	w, n := c.w, c.order.barrier.ID
	f := w.start("CommitSinks", options{}, func(q *proc, _ *execution) (any, error) { return w.commitSinks(q, n) })
	p.await(func() bool { return f.done || c.cancel })
	if !f.done {
		f.cancel = true
		w.count("attempt ended before CommitSinks")
		return
	}
	switch all, err := valueOf[bool](f); {
	case err != nil || !all:
		c.result = lostTransactions
	default:
		c.result = committed
		w.audit.checkBlocked(w, c.order.barrier.Attempt)
	}
}

// commitCheckpoint proves the parts complete and writes the manifest, or a record of its refusal.
func (w *world) commitCheckpoint(p *proc, o checkpointOrder, acks []checkpoint.Ack) (decision, error) {
	m, err := w.buildManifest(p, o, acks)
	if err == nil && !w.broken(NoMargin) {
		err = checkpoint.CheckDeadline(m.Transactions, w.clock().UnixMilli(), commitMargin)
	}
	if _, known := w.audit.judged[o.barrier.ID]; !known && err == nil {
		w.audit.judged[o.barrier.ID] = w.now
	}
	old := (*checkpoint.ExpiringError)(nil)
	switch {
	case errors.Is(err, errNoAnswer):
		return decision{}, err
	case errors.As(err, &old) || errors.Is(err, snapshot.ErrNotFound) || job.ClassOf(err) == job.Fatal:
		w.tracef("%s: checkpoint %d refused: %v", p.name, o.barrier.ID, err)
		d, err := w.abortCheckpoint(p, o, "refused")
		if d.result == aborted {
			d.result = refused
		}
		return d, err
	case err != nil:
		w.fail("INCOMPLETE", "checkpoint %d: %v", o.barrier.ID, err)
		return decision{}, permanent{err}
	}
	if w.broken(CommitByMessage) {
		w.audit.messages[m.ID] = m
	}
	return w.standing(p, m)
}

func (w *world) buildManifest(p *proc, o checkpointOrder, acks []checkpoint.Ack) (checkpoint.Manifest, error) {
	r := o.barrier.Ref
	dep, err := readDeployment(p, r.Attempt)
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	parts := make([]checkpoint.Part, len(acks))
	for i, a := range acks {
		if parts[i], err = snapshot.ReadPart(bg, p.store(), r, o.barrier.ID, a); err != nil {
			return checkpoint.Manifest{}, err
		}
	}
	return checkpoint.BuildManifest(checkpoint.Commit{Deployment: dep, Graph: o.graph, ID: o.barrier.ID, Floor: o.floor, Parts: parts})
}

func (w *world) abortCheckpoint(p *proc, o checkpointOrder, why string) (decision, error) {
	return w.standing(p, checkpoint.NewAbort(o.barrier.Ref, o.barrier.ID, o.floor, why))
}

// standing makes m the decision unless there is one, and returns what stands.
func (w *world) standing(p *proc, m checkpoint.Manifest) (decision, error) {
	v, err := snapshot.Decide(bg, p.store(), m)
	if err != nil {
		return decision{}, fmt.Errorf("decide %d: %w", m.ID, err)
	}
	if !v.Ours {
		w.count("decided by another")
		if w.broken(NoObey) {
			v.Kind = m.Kind
		} else if m, err = snapshot.ReadManifest(bg, p.store(), uid, m.ID); err != nil {
			return decision{}, err
		}
	}
	if v.Kind == checkpoint.Durable {
		return decision{result: durable, final: m.Final}, nil
	}
	return decision{result: aborted}, nil
}

// commitSinks commits what the manifest in the store lists; true: every transaction is committed.
func (w *world) commitSinks(p *proc, n job.CheckpointID) (bool, error) {
	m, err := snapshot.ReadManifest(bg, p.store(), uid, n)
	if msg, ok := w.audit.messages[n]; ok && w.broken(CommitByMessage) {
		m, err = msg, nil
	}
	if err != nil {
		return false, err
	}
	if m.Kind != checkpoint.Durable {
		return false, permanent{fmt.Errorf("checkpoint %d is not durable: %s", n, m.Kind)}
	}
	done, err := w.complete(p, m)
	if err != nil {
		return false, err
	}
	if done.Verdict() != transaction.Complete {
		return false, nil
	}
	return true, w.abortLeftovers(p, m, m.Attempt, false)
}

// abortPrepared breaks a rule: the nodes abort the transactions that were prepared for a checkpoint that failed.
func (c *checkpointRun) abortPrepared() {
	for _, s := range c.order.nodes {
		h := c.w.node(s.Node)
		if h == nil || !h.live() || h.deployment(c.order.barrier.Ref) == nil {
			continue
		}
		for _, t := range h.deployment(c.order.barrier.Ref).tasks {
			for _, x := range onlyOf(t.sink.ledger.List(), c.order.barrier.ID) {
				c.w.kafka.end(x.ID, x.ProducerID, x.ProducerEpoch, false)
			}
		}
	}
}

// overlap breaks a rule: it makes room for the next checkpoint though the one in flight is not decided, and takes up
// an earlier one when that is.
func (j *streamJob) overlap(over bool) {
	if over || !j.w.broken(Overlap) {
		return
	}
	if f := j.flight; f != nil && !f.done {
		j.earlier, j.flight = append(j.earlier, f), nil
		j.nextAt = j.w.now + j.w.between(3, j.w.cfg.interval())
	}
	for _, f := range j.earlier {
		if f.done && j.flight == nil {
			j.flight, j.earlier = f, without(j.earlier, f)
			return
		}
	}
}
