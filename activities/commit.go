package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// commitMargin is the least time that every prepared transaction must have left when its checkpoint becomes
// durable: enough to commit it even after a restart of the job.
const commitMargin = 15 * time.Second

// CommitCheckpoint reads and verifies the nodes' parts, proves them complete, and writes the manifest if
// nothing stands at its key: that write decides. What stands there already is obeyed. Parts that do not
// match the plan, or transactions that could expire before they are committed, are refused: an abort
// record is written and the attempt must end.
func (c *Control) CommitCheckpoint(ctx context.Context, in CommitInput) (Decision, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return Decision{}, classified(err)
	}
	defer beat(ctx, nil)()
	m, err := c.manifest(ctx, s, in)
	if err == nil {
		err = checkpoint.CheckDeadline(m.Transactions, c.now().UnixMilli(), commitMargin)
	}
	if refusal(err) {
		return c.refuse(ctx, s, in, err)
	}
	if err != nil {
		return Decision{}, classified(err)
	}
	failpoint.Hit("commit.before-manifest-put")
	stands, _, err := standing(ctx, s, m)
	if err == nil {
		failpoint.Hit("commit.after-manifest-put")
		err = failpoint.Err("commit.manifest-reply-lost")
	}
	if err != nil {
		return Decision{}, classified(err)
	}
	return decision(stands), nil
}

// partsAtOnce bounds the objects that one commit reads at the same time: there is a part for every node.
const partsAtOnce = 16

// manifest is a pure function of the parts and the attempt's plan, so that a retry writes the same bytes.
func (c *Control) manifest(ctx context.Context, s snapshot.Store, in CommitInput) (checkpoint.Manifest, error) {
	var dep job.Deployment
	parts := make([]checkpoint.Part, len(in.Acks))
	g, reads := errgroup.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	g.Go(func() (err error) {
		dep, err = readDeployment(reads, s, in.Job.Ref(in.Attempt))
		return err
	})
	for i, a := range in.Acks {
		g.Go(func() (err error) {
			parts[i], err = snapshot.ReadPart(reads, s, in.Job.Ref(in.Attempt), in.ID, a)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return checkpoint.Manifest{}, err
	}
	prog, err := c.program(ctx, s, in.Job)
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	return checkpoint.BuildManifest(checkpoint.Commit{Deployment: dep, Graph: prog.Plan.Graph, ID: in.ID, Floor: in.Floor, Parts: parts})
}

// refusal reports whether a checkpoint can never become durable, whoever tries again.
func refusal(err error) bool {
	var old *checkpoint.ExpiringError
	return errors.As(err, &old) || isDamaged(err) || isNotFound(err) || job.ClassOf(err) == job.Fatal
}

// refuse writes the abort record. If a manifest stands there already, that decision holds all the same.
func (c *Control) refuse(ctx context.Context, s snapshot.Store, in CommitInput, why error) (Decision, error) {
	m := checkpoint.NewAbort(in.Job.Ref(in.Attempt), in.ID, in.Floor, reason(why.Error()))
	failpoint.Hit("refusal.before-record-put")
	stands, _, err := standing(ctx, s, m)
	if err != nil {
		return Decision{}, classified(err)
	}
	failpoint.Hit("refusal.after-record-put")
	d := decision(stands)
	if d.Verdict == Aborted {
		d.Verdict, d.Reason = Refused, m.Reason
	}
	return d, nil
}

// AbortCheckpoint decides that a checkpoint never will be, unless it is decided already; the answer is what
// stands in the store.
func (c *Control) AbortCheckpoint(ctx context.Context, in AbortInput) (Decision, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return Decision{}, classified(err)
	}
	defer beat(ctx, nil)()
	failpoint.Hit("abort.before-record-put")
	stands, ours, err := standing(ctx, s, checkpoint.NewAbort(in.Job.Ref(in.Attempt), in.ID, in.Floor, reason(in.Reason)))
	if err != nil {
		return Decision{}, classified(err)
	}
	failpoint.Hit("abort.after-record-put")
	d := decision(stands)
	d.Foreign = !ours
	return d, nil
}

// reason makes any text fit for a record.
func reason(text string) string { return strings.ToValidUTF8(Cut(text), "?") }

// decision is a manifest in the few words that pass through Temporal.
func decision(m checkpoint.Manifest) Decision {
	if m.Kind == checkpoint.Aborted {
		return Decision{Verdict: Aborted, Reason: m.Reason}
	}
	return Decision{Verdict: Durable, Final: m.Final, Transactions: len(m.Transactions), Stats: m.Stats}
}

// checkpointName names a checkpoint in messages.
func checkpointName(j Job, id job.CheckpointID) string {
	return fmt.Sprintf("checkpoint %d of job %s", id, j.Name)
}
