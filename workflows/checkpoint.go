package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// CheckpointInput orders one checkpoint of one attempt.
type CheckpointInput struct {
	Job       activities.Job   `json:"job"`
	Attempt   job.Attempt      `json:"attempt"`
	ID        job.CheckpointID `json:"id"`
	Nodes     []job.NodeID     `json:"nodes"`
	Decided   job.CheckpointID `json:"decided"`
	Durable   job.CheckpointID `json:"durable"`
	Committed job.CheckpointID `json:"committed"`
	Floor     job.CheckpointID `json:"floor"`
	Aligned   bool             `json:"aligned"`
	// Hold is how long the nodes wait before the barrier, Timeout the deadline after it.
	Hold    time.Duration `json:"hold,omitempty"`
	Timeout time.Duration `json:"timeout"`
	// Transactional: the job's sinks can hold transactions.
	Transactional bool `json:"transactional,omitempty"`
}

// Checkpoint takes one checkpoint: a snapshot of every node, the decision in the store, then the commit of
// the sinks' transactions. It ends with a record; a checkpoint that is not durable in the end fails the
// workflow, with the record in the failure's details. Cancelled (its attempt has ended), it still decides,
// since no attempt is planned before that, and leaves the transactions to recovery.
func Checkpoint(ctx workflow.Context, in CheckpointInput) (CheckpointRecord, error) {
	c := &checkpointRun{in: in, root: ctx, began: workflow.Now(ctx).Add(in.Hold)}
	c.ctx, _ = workflow.NewDisconnectedContext(ctx)
	r := c.run()
	r.ID, r.Attempt, r.At = in.ID, in.Attempt, workflow.Now(ctx)
	r.TookMs = max(r.At.Sub(c.began), 0).Milliseconds()
	workflow.SetCurrentDetails(ctx, brief(r))
	if r.Result == Committed || r.Result == Durable {
		return r, nil
	}
	return r, temporal.NewApplicationErrorWithOptions(fmt.Sprintf("checkpoint %d %s: %s", in.ID, r.Result, r.Reason),
		TypeAborted, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{r}})
}

type checkpointRun struct {
	in    CheckpointInput
	root  workflow.Context // ends when the attempt has ended
	ctx   workflow.Context // goes on after that
	began time.Time
}

// ended reports whether this checkpoint was asked to end.
func (c *checkpointRun) ended() bool { return c.root.Err() != nil }

func (c *checkpointRun) run() CheckpointRecord {
	acks, why := c.snapshots()
	var d activities.Decision
	var err error
	if why == "" {
		d, err = c.commit(acks)
	} else {
		d, err = c.abort(why)
	}
	if err != nil {
		return CheckpointRecord{Result: Undecided, Reason: cause(err)}
	}
	if d.Foreign && why != "" && !c.ended() {
		return CheckpointRecord{Result: Superseded, Reason: fmt.Sprintf("it had been decided (%s) when it was ordered: %s", d.Verdict, why)}
	}
	r := CheckpointRecord{Result: d.Verdict, Reason: d.Reason, Final: d.Final, Stats: d.Stats}
	if d.Verdict == activities.Durable {
		c.commitSinks(d, &r)
	}
	return r
}

// snapshots asks every node for its share, and returns the acks of all or why there is one missing.
func (c *checkpointRun) snapshots() ([]checkpoint.Ack, string) {
	ctx, cancel := workflow.WithCancel(c.ctx)
	defer cancel()
	in := activities.SnapshotInput{Barrier: c.in.barrier(), Hold: c.in.Hold}
	shares := make([]workflow.Future, len(c.in.Nodes))
	for i, n := range c.in.Nodes {
		shares[i] = snapshot(ctx, n, in)
	}
	acks := make([]checkpoint.Ack, len(shares))
	done := make([]bool, len(shares))
	left, why := len(shares), ""
	take := func() {
		for i, f := range shares {
			if done[i] || !f.IsReady() {
				continue
			}
			done[i] = true
			left--
			if err := f.Get(ctx, &acks[i]); err != nil && why == "" {
				why = snapshotCause(c.in.Nodes[i], err)
			}
		}
	}
	_ = workflow.Await(c.ctx, func() bool { take(); return c.ended() || left == 0 || why != "" })
	if left > 0 && why == "" {
		why = fmt.Sprintf("attempt %d ended", c.in.Attempt)
	}
	return acks, why
}

func snapshotCause(n job.NodeID, err error) string {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return fmt.Sprintf("node %s did not answer in time", n)
	}
	return cause(err)
}

// commit makes the checkpoint durable. If the attempt ends meanwhile, an abort competes with it, perhaps on
// another worker: whichever writes first decides, and both report what stands.
func (c *checkpointRun) commit(acks []checkpoint.Ack) (activities.Decision, error) {
	f := commitCheckpoint(c.ctx, activities.CommitInput{
		Job: c.in.Job, Attempt: c.in.Attempt, ID: c.in.ID, Acks: acks, Floor: c.in.Floor,
	})
	_ = workflow.Await(c.ctx, func() bool { return f.IsReady() || c.ended() })
	var d activities.Decision
	if f.IsReady() {
		err := f.Get(c.ctx, &d)
		if err != nil { // nothing can be known of what a failed commit wrote
			return c.refused(cause(err))
		}
		return d, nil
	}
	g := c.startAbort(fmt.Sprintf("attempt %d ended", c.in.Attempt))
	_ = workflow.Await(c.ctx, func() bool { return f.IsReady() || g.IsReady() })
	if f.IsReady() && f.Get(c.ctx, &d) == nil {
		return d, nil
	}
	return d, g.Get(c.ctx, &d)
}

// refused aborts after a commit that can never succeed; the attempt must end with it.
func (c *checkpointRun) refused(why string) (activities.Decision, error) {
	d, err := c.abort(why)
	if err == nil && d.Verdict == activities.Aborted {
		d.Verdict = activities.Refused
	}
	return d, err
}

func (c *checkpointRun) abort(why string) (d activities.Decision, err error) {
	return d, c.startAbort(why).Get(c.ctx, &d)
}

func (c *checkpointRun) startAbort(why string) workflow.Future {
	return abortCheckpoint(c.ctx, activities.AbortInput{
		Job: c.in.Job, Attempt: c.in.Attempt, ID: c.in.ID, Floor: c.in.Floor, Reason: why,
	})
}

// commitSinks commits the durable checkpoint's transactions. If the attempt ends meanwhile it stops, and
// recovery finishes them.
func (c *checkpointRun) commitSinks(d activities.Decision, r *CheckpointRecord) {
	if d.Transactions == 0 && !c.in.Transactional {
		r.Result = Committed
		return
	}
	r.Reason = fmt.Sprintf("attempt %d ended before the sinks were committed", c.in.Attempt)
	if c.ended() {
		return
	}
	ctx, cancel := workflow.WithCancel(c.ctx)
	defer cancel()
	f := commitSinks(ctx, activities.SinksInput{Job: c.in.Job, Attempt: c.in.Attempt, ID: c.in.ID}, d.Transactions)
	_ = workflow.Await(c.ctx, func() bool { return f.IsReady() || c.ended() })
	if !f.IsReady() {
		return
	}
	r.Reason = ""
	var s activities.SinksResult
	switch err := f.Get(ctx, &s); {
	case err != nil:
		r.Result, r.Reason = Lost, cause(err)
	case s.Committed:
		r.Result = Committed
	default:
		r.Result, r.Reason = Lost, s.Stake
	}
}
