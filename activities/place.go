package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

const (
	defaultSettle = 3 * time.Second
	lookEvery     = 50 * time.Millisecond
	maxWatchers   = 4
)

// PlaceAttempt spreads the job's slots over the nodes and writes the plan of the attempt, attempt-<n>,
// before anything of it starts. Too few slots are an error of type TypeTooFewSlots. A number that somebody
// has used already, be it our own lost reply, is not used again: the caller plans anew.
func (c *Control) PlaceAttempt(ctx context.Context, in PlaceInput) (Placed, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return Placed{}, classified(err)
	}
	prog, err := c.program(ctx, s, in.Job)
	if err != nil {
		return Placed{}, classified(err)
	}
	defer beat(ctx, nil)()
	placement, all, err := c.place(ctx, in)
	if err != nil {
		return Placed{}, err
	}
	dep := job.Deployment{
		Ref: in.Job.Ref(in.Attempt), JobName: in.Job.Name, Spec: prog.Spec, GraphDigest: prog.Plan.Graph.Digest(),
		Restore: in.Restore, FirstCheckpoint: in.First, Placement: placement, Storage: in.Job.Storage,
	}
	taken, err := createJSON(ctx, s, snapshot.Names{UID: in.Job.UID}.Attempt(in.Attempt), dep)
	if err != nil {
		return Placed{}, classified(fmt.Errorf("write plan of attempt %s: %w", dep.Ref, err))
	}
	return Placed{Nodes: placement.Nodes(), Watchers: watchers(placement, all), Taken: taken}, nil
}

// place waits a little for enough slots: those of the attempt before become free, and nodes that died are
// struck off, within the settling time. Nodes to avoid are used when the others do not suffice.
func (c *Control) place(ctx context.Context, in PlaceInput) (job.Placement, []job.NodeSlots, error) {
	settle := c.Settle
	if settle == 0 {
		settle = defaultSettle
	}
	for deadline := time.Now().Add(settle); ; {
		all := c.Members.Nodes()
		good := slices.DeleteFunc(slices.Clone(all), func(n job.NodeSlots) bool { return slices.Contains(in.Avoid, n.ID) })
		p, err := job.Place(in.Slots, good)
		if err == nil {
			return p, good, nil
		}
		if time.Now().After(deadline) {
			if p, err = job.Place(in.Slots, all); err == nil {
				return p, all, nil
			}
			return job.Placement{}, nil, placeFailure(err)
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return job.Placement{}, nil, err
		}
	}
}

func placeFailure(err error) error {
	var few *job.TooFewSlotsError
	if errors.As(err, &few) {
		return temporal.NewApplicationErrorWithOptions(err.Error(), TypeTooFewSlots, temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	return classified(err)
}

// watchers orders the nodes that can watch a placement: those outside it first.
func watchers(p job.Placement, all []job.NodeSlots) []job.NodeID {
	var inside, out []job.NodeID
	for _, n := range p.Nodes() {
		inside = append(inside, n.Node)
	}
	for _, n := range all {
		if !slices.Contains(inside, n.ID) {
			out = append(out, n.ID)
		}
	}
	slices.Sort(out)
	out = append(out, inside...)
	return out[:min(len(out), maxWatchers)]
}
