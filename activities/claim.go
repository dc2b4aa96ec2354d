package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/transaction"
)

// maxCancelled bounds how many older attempts a claim asks to end.
const maxCancelled = 32

// ClaimAttempt takes the next attempt number and the checkpoint id after the highest decided one: it writes
// an abort record there that names the new attempt, so that nothing which an older attempt has in flight
// can become durable later, whatever its planner remembers. Then it asks every older attempt to end.
func (c *Control) ClaimAttempt(ctx context.Context, in ClaimInput) (Claim, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return Claim{}, classified(err)
	}
	defer beat(ctx, nil)()
	for above := in.Above; ; {
		look, err := snapshot.SurveyJob(ctx, s, in.Job.UID, false)
		if err != nil {
			return Claim{}, classified(err)
		}
		if !look.Found {
			return Claim{}, failure(TypeDamaged, fmt.Sprintf("no checkpoint of job %s is left in %s", in.Job.Name, s), FailureDetails{})
		}
		if in.OnlyIfNewest && look.MaxAttempt > in.Above {
			return Claim{Superseded: true}, nil
		}
		a, id := look.NextAttempt(above), look.ClaimID()
		failpoint.Hit("claim.before-put")
		v, err := snapshot.Decide(ctx, s, checkpoint.NewClaim(in.Job.Ref(a), id, look.Newest.Floor))
		if err != nil {
			return Claim{}, classified(err)
		}
		if !v.Ours { // somebody decided this id meanwhile: look again
			above = a
			continue
		}
		failpoint.Hit("claim.after-put")
		c.endOlder(ctx, in, look.Listing, a)
		return Claim{Attempt: a, Newest: look.Newest.ID, Final: look.Newest.Final, First: id + 1, Floor: look.Newest.Floor}, nil
	}
}

// endOlder asks the attempts below a to end, those that this job's planner does not know of as well (after
// a workflow was reset). It is best effort: fencing is the safety.
func (c *Control) endOlder(ctx context.Context, in ClaimInput, listing []checkpoint.Listed, a job.Attempt) {
	var open []job.Attempt
	for _, o := range listing {
		if o.Kind == checkpoint.AttemptPlan && o.Attempt < a && o.Attempt >= in.Above {
			open = append(open, o.Attempt)
		}
	}
	slices.Sort(open)
	for _, old := range open[max(len(open)-maxCancelled, 0):] {
		_ = c.Executions.Cancel(ctx, AttemptID(in.Job.Name, in.Job.Ref(old)))
	}
}

// FallBack repeats, under a new id, an earlier checkpoint, since the systems behind the sinks have aborted
// every transaction of the newest one: the newest earlier checkpoint whose output is all out and none of whose
// records are in a lost transaction. Without one the job cannot go on.
func (c *Control) FallBack(ctx context.Context, in FallBackInput) (FellBack, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return FellBack{}, classified(err)
	}
	defer beat(ctx, nil)()
	look, err := snapshot.SurveyJob(ctx, s, in.Job.UID, true)
	if err != nil {
		return FellBack{}, classified(err)
	}
	from, ok := transaction.FallBackTarget(look.Decisions, look.Committed, lostOf(look, in.Lost))
	if !ok {
		return FellBack{}, failure(TypeFatal, fmt.Sprintf("the transactions of checkpoint %d are lost, and no earlier checkpoint "+
			"is left to which the job can go back without doubling what is out already", in.Lost), FailureDetails{})
	}
	m, err := checkpoint.Restored(from, in.Job.Ref(in.Attempt), in.ID, max(from.Floor, look.Newest.Floor),
		fmt.Sprintf("fell back from checkpoint %d, whose transactions were lost", in.Lost))
	if err != nil {
		return FellBack{}, classified(job.AsFatal(err))
	}
	v, err := snapshot.Decide(ctx, s, m)
	if err != nil {
		return FellBack{}, classified(fmt.Errorf("repeat checkpoint %d as %d: %w", from.ID, in.ID, err))
	}
	return FellBack{From: from.ID, Taken: !v.Ours}, nil
}

// lostOf are the transactions of checkpoint id that no marker covers.
func lostOf(look snapshot.Survey, id job.CheckpointID) []checkpoint.Transaction {
	upTo, marked := look.CoveredUpTo()
	var lost []checkpoint.Transaction
	for _, m := range look.Decisions {
		if m.ID != id {
			continue
		}
		for _, t := range m.Transactions {
			if !marked || t.Checkpoint > upTo {
				lost = append(lost, t)
			}
		}
	}
	return lost
}
