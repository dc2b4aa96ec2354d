package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
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
	s, n, err := c.store(ctx, in.Job)
	if err != nil {
		return Decision{}, classified(err)
	}
	defer beat(ctx, nil)()
	m, err := c.manifest(ctx, s, n, in)
	if err == nil {
		err = checkpoint.CheckDeadline(m.Transactions, c.now().UnixMilli(), commitMargin)
	}
	if refusal(err) {
		return c.refuse(ctx, s, n, in, err)
	}
	if err != nil {
		return Decision{}, classified(err)
	}
	stands, _, err := decide(ctx, s, n, m)
	if err != nil {
		return Decision{}, classified(err)
	}
	return decision(stands), nil
}

// manifest is a pure function of the parts and the attempt's plan, so that a retry writes the same bytes.
func (c *Control) manifest(ctx context.Context, s snapshot.Store, n snapshot.Names, in CommitInput) (checkpoint.Manifest, error) {
	dep, err := readDeployment(ctx, s, in.Job.Ref(in.Attempt))
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	prog, err := c.program(ctx, s, in.Job)
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	parts := make([]checkpoint.Part, len(in.Acks))
	for i, a := range in.Acks {
		if parts[i], err = readPart(ctx, s, n, a); err != nil {
			return checkpoint.Manifest{}, err
		}
	}
	return checkpoint.BuildManifest(checkpoint.Commit{Deployment: dep, Graph: prog.Plan.Graph, ID: in.ID, Floor: in.Floor, Parts: parts})
}

// readPart reads the share that an ack names and verifies its digest.
func readPart(ctx context.Context, s snapshot.Store, n snapshot.Names, a checkpoint.Ack) (checkpoint.Part, error) {
	key := n.Prefix() + a.Part
	b, err := s.Get(ctx, key, checkpoint.MaxPartBytes)
	if err != nil {
		return checkpoint.Part{}, fmt.Errorf("read the share of node %s: %w", a.Node, err)
	}
	if got := checkpoint.Digest(b); got != a.SHA256 {
		return checkpoint.Part{}, fmt.Errorf("%s: digest %s, node %s acknowledged %s: %w", key, got, a.Node, a.SHA256, checkpoint.ErrDamaged)
	}
	p, err := checkpoint.DecodePart(b)
	if err == nil && p.Node != a.Node {
		err = fmt.Errorf("node %s acknowledged %s: %w", a.Node, p.Name(), checkpoint.ErrInvalid)
	}
	return p, err
}

// refusal reports whether a checkpoint can never become durable, whoever tries again.
func refusal(err error) bool {
	var old *checkpoint.ExpiringError
	return errors.As(err, &old) || isDamaged(err) || isNotFound(err)
}

// isDamaged reports whether an object was read whole and found wrong.
func isDamaged(err error) bool {
	for _, e := range []error{checkpoint.ErrTruncated, checkpoint.ErrDamaged, checkpoint.ErrVersion, checkpoint.ErrInvalid, checkpoint.ErrTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// refuse writes the abort record. If a manifest stands there already, that decision holds all the same.
func (c *Control) refuse(ctx context.Context, s snapshot.Store, n snapshot.Names, in CommitInput, why error) (Decision, error) {
	m := checkpoint.NewAbort(in.Job.Ref(in.Attempt), in.ID, in.Floor, reason(why.Error()))
	stands, _, err := decide(ctx, s, n, m)
	if err != nil {
		return Decision{}, classified(err)
	}
	d := decision(stands)
	if d.Verdict == Aborted {
		d.Verdict, d.Reason = Refused, m.Reason
	}
	return d, nil
}

// AbortCheckpoint decides that a checkpoint never will be, unless it is decided already; the answer is what
// stands in the store.
func (c *Control) AbortCheckpoint(ctx context.Context, in AbortInput) (Decision, error) {
	s, n, err := c.store(ctx, in.Job)
	if err != nil {
		return Decision{}, classified(err)
	}
	defer beat(ctx, nil)()
	stands, _, err := decide(ctx, s, n, checkpoint.NewAbort(in.Job.Ref(in.Attempt), in.ID, in.Floor, reason(in.Reason)))
	if err != nil {
		return Decision{}, classified(err)
	}
	return decision(stands), nil
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
