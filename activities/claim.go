package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// maxCancelled bounds how many older attempts a claim asks to end.
const maxCancelled = 32

// ClaimAttempt takes the next attempt number and the checkpoint id after the highest decided one: it writes
// an abort record there that names the new attempt, so that nothing which an older attempt has in flight
// can become durable later, whatever its planner remembers. Then it asks every older attempt to end.
func (c *Control) ClaimAttempt(ctx context.Context, in ClaimInput) (Claim, error) {
	s, n, err := c.store(ctx, in.Job)
	if err != nil {
		return Claim{}, classified(err)
	}
	defer beat(ctx, nil)()
	for above := in.Above; ; {
		look, err := surveyJob(ctx, s, n)
		if err != nil {
			return Claim{}, classified(err)
		}
		if !look.found {
			return Claim{}, failure(TypeDamaged, fmt.Sprintf("no checkpoint of job %s is left in %s", in.Job.Name, s), FailureDetails{})
		}
		if in.OnlyIfNewest && look.MaxAttempt > in.Above {
			return Claim{Superseded: true}, nil
		}
		a, id := look.NextAttempt(above), look.ClaimID()
		_, ours, err := decide(ctx, s, n, checkpoint.NewClaim(in.Job.Ref(a), id, look.newest.Floor))
		if err != nil {
			return Claim{}, classified(err)
		}
		if !ours { // somebody decided this id meanwhile: look again
			above = a
			continue
		}
		c.endOlder(ctx, in, look.attempts, a)
		return Claim{Attempt: a, Newest: look.newest.ID, Final: look.newest.Final, First: id + 1, Floor: look.newest.Floor}, nil
	}
}

// endOlder asks the attempts below a to end, those that this job's planner does not know of as well (after
// a workflow was reset). It is best effort: fencing is the safety.
func (c *Control) endOlder(ctx context.Context, in ClaimInput, known []job.Attempt, a job.Attempt) {
	asked := 0
	for i := len(known) - 1; i >= 0 && asked < maxCancelled; i-- {
		old := known[i]
		if old >= a || old < in.Above {
			continue
		}
		asked++
		_ = c.Executions.Cancel(ctx, AttemptID(in.Job.Name, in.Job.Ref(old)))
	}
}

// FallBack repeats, under a new id, the newest durable checkpoint below one whose transactions were all
// aborted by the systems behind the sinks.
func (c *Control) FallBack(ctx context.Context, in FallBackInput) (FellBack, error) {
	s, n, err := c.store(ctx, in.Job)
	if err != nil {
		return FellBack{}, classified(err)
	}
	from, found, err := durableBelow(ctx, s, n, in.Lost)
	if err != nil {
		return FellBack{}, classified(err)
	}
	if !found {
		return FellBack{}, failure(TypeFatal, fmt.Sprintf("the transactions of checkpoint %d are lost and no earlier checkpoint is left", in.Lost), FailureDetails{})
	}
	m, err := checkpoint.Restored(from, in.Job.Ref(in.Attempt), in.ID, from.Floor,
		fmt.Sprintf("fell back from checkpoint %d, whose transactions were lost", in.Lost))
	if err != nil {
		return FellBack{}, classified(job.AsFatal(err))
	}
	_, ours, err := decide(ctx, s, n, m)
	if err != nil {
		return FellBack{}, classified(fmt.Errorf("repeat checkpoint %d as %d: %w", from.ID, in.ID, err))
	}
	return FellBack{From: from.ID, Taken: !ours}, nil
}

func isNotFound(err error) bool { return errors.Is(err, snapshot.ErrNotFound) }
