package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// deploy plans and starts the next attempt: claim a number, bring the sinks to the state of the newest
// checkpoint, find nodes, write the plan, start the Attempt. It returns errDone when the newest checkpoint
// is final: then nothing is deployed, and no window fires twice.
func (j *streamJob) deploy() error {
	if j.phase != "starting" {
		j.setPhase("restarting")
	}
	j.showDetails()
	for {
		claim, err := j.recovered(true)
		if err != nil {
			return err
		}
		if claim.Final {
			return errDone
		}
		placed, err := j.place(claim)
		if err != nil {
			return err
		}
		if !placed.Taken && j.start(claim, placed) {
			j.setPhase("running")
			j.showDetails()
			return nil
		}
	}
}

// recovered claims the next attempt number and runs RecoverSinks under it, until the newest checkpoint's
// transactions are settled. Where all of them are lost it falls back to the checkpoint before, loudly.
// With abandon, a cancellation ends it; terminal paths see it through.
func (j *streamJob) recovered(abandon bool) (activities.Claim, error) {
	for {
		var claim activities.Claim
		err := j.recovering("the store cannot be read", abandon, func() (err error) {
			claim, err = claimAttempt(j.ctx, activities.ClaimInput{Job: j.st.Planned.Job, Above: j.st.Attempt})
			return err
		})
		if err != nil {
			return claim, err
		}
		j.st.claimed(claim)
		var r activities.Recovery
		err = j.recovering("the sinks cannot be brought to the latest checkpoint", abandon, func() (err error) {
			r, err = recoverSinks(j.ctx, activities.RecoverInput{Job: j.st.Planned.Job, Attempt: claim.Attempt, Manifest: claim.Newest})
			return err
		})
		if err != nil {
			return claim, err
		}
		switch r.Verdict {
		case activities.Recovered:
			j.st.Durable, j.st.Committed = claim.Newest, claim.Newest
			return claim, nil
		case activities.SomeLost:
			return claim, temporal.NewNonRetryableApplicationError(fmt.Sprintf(
				"checkpoint %d cannot be completed: %d of its transactions are committed, %s; going on would lose those records, going back would double the others",
				claim.Newest, r.Committed, r.Stake), TypeRecordsLost, nil)
		case activities.AllLost:
			taken, err := j.fallBack(&claim, r, abandon)
			if err != nil {
				return claim, err
			}
			if !taken {
				return claim, nil
			}
		}
	}
}

// fallBack repeats the checkpoint before the lost one under the next id.
func (j *streamJob) fallBack(claim *activities.Claim, r activities.Recovery, abandon bool) (taken bool, err error) {
	var f activities.FellBack
	in := activities.FallBackInput{Job: j.st.Planned.Job, Attempt: claim.Attempt, Lost: claim.Newest, ID: j.st.nextID()}
	err = j.retrying("the checkpoint before cannot be repeated", abandon, func() (err error) {
		f, err = fallBack(j.ctx, in)
		return err
	})
	if err != nil || f.Taken {
		return f.Taken, err
	}
	j.st.Planned.Warnings = prepend(j.st.Planned.Warnings, fmt.Sprintf(
		"fell back from checkpoint %d to %d (now %d) before attempt %d: %s", claim.Newest, f.From, in.ID, claim.Attempt, r.Stake), 5)
	workflow.GetLogger(j.ctx).Warn("fell back to an earlier checkpoint", "from", claim.Newest, "to", f.From, "stake", r.Stake)
	claim.Newest, claim.Final = in.ID, false
	j.st.Decided, j.st.Durable, j.st.Committed = in.ID, in.ID, in.ID
	return false, nil
}

// claimed notes a claim.
func (s *State) claimed(c activities.Claim) {
	s.Attempt, s.Next, s.Decided, s.Floor = c.Attempt, c.First, c.First-1, c.Floor
}

// place finds nodes for the attempt, waiting as long as there are too few slots.
func (j *streamJob) place(c activities.Claim) (placed activities.Placed, err error) {
	in := activities.PlaceInput{
		Job: j.st.Planned.Job, Attempt: c.Attempt, Restore: c.Newest, First: j.st.Next, Slots: j.st.Planned.Slots, Avoid: j.st.Avoid,
	}
	err = j.recovering("the job cannot be placed", true, func() (err error) {
		placed, err = placeAttempt(j.ctx, in)
		return err
	})
	return placed, err
}

// start starts the Attempt; false when its id is taken, that is, when somebody else has planned it.
func (j *streamJob) start(c activities.Claim, p activities.Placed) bool {
	in := AttemptInput{Job: j.st.Planned.Job, Attempt: c.Attempt, Watchers: p.Watchers, Bounded: j.st.Planned.Bounded}
	for _, n := range p.Nodes {
		in.Nodes = append(in.Nodes, n.Node)
	}
	if startAttempt(j.ctx, in, c.Newest).GetChildWorkflowExecution().Get(j.ctx, nil) != nil {
		return false
	}
	j.st.deployed(Running{Attempt: c.Attempt, Restore: c.Newest, Nodes: p.Nodes, Since: workflow.Now(j.ctx)})
	return true
}

// terminal does what every end of a job does: a new attempt number that is never deployed, and RecoverSinks
// under it, so that no transaction of ours stays open and blocks readers. It returns end, or nil when a job
// that was thought done has lost its final checkpoint's transactions and must go on from the one before.
func (j *streamJob) terminal(phase string, end error) error {
	j.setPhase(phase)
	j.showDetails()
	claim, err := j.recovered(false)
	if err != nil {
		return err
	}
	if errors.Is(end, errDone) && !claim.Final {
		return nil
	}
	return end
}

// attempts answers the query "attempts".
func (s *State) attempts() []AttemptRecord { return slices.Clone(s.Attempts) }

// nodes are the distinct nodes of the running attempt.
func (r *Running) nodes() []job.NodeID {
	out := make([]job.NodeID, len(r.Nodes))
	for i, n := range r.Nodes {
		out[i] = n.Node
	}
	return out
}
