package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// survey is what the store says of a job: the ground on which every plan stands, whatever the planner
// remembers.
type survey struct {
	checkpoint.Summary
	listing []checkpoint.Listed
	// attempts are the numbers of all plans, ascending.
	attempts []job.Attempt
	// newest is the newest durable checkpoint, if found.
	newest checkpoint.Manifest
	found  bool
}

// surveyJob lists the job's objects and reads the decisions from the newest down to the newest durable
// one. A damaged decision is an error: falling back behind it silently could double output.
func surveyJob(ctx context.Context, s snapshot.Store, n snapshot.Names) (survey, error) {
	listing, err := listJob(ctx, s, n)
	if err != nil {
		return survey{}, err
	}
	look := survey{Summary: checkpoint.Summarise(listing), listing: listing}
	for _, o := range listing {
		if o.Kind == checkpoint.AttemptPlan {
			look.attempts = append(look.attempts, o.Attempt)
		}
	}
	slices.Sort(look.attempts)
	for _, id := range slices.Backward(look.Decided) {
		m, err := readDecision(ctx, s, n, id)
		if err != nil {
			return survey{}, err
		}
		look.Note(m)
		if m.Kind == checkpoint.Durable {
			look.newest, look.found = m, true
			break
		}
	}
	return look, nil
}

// listJob lists everything of the job; foreign objects are left out.
func listJob(ctx context.Context, s snapshot.Store, n snapshot.Names) ([]checkpoint.Listed, error) {
	objects, err := s.List(ctx, n.Prefix())
	if err != nil {
		return nil, fmt.Errorf("list objects of job %s: %w", n.UID, err)
	}
	out := make([]checkpoint.Listed, 0, len(objects))
	for _, o := range objects {
		if p := n.Parse(o.Key); p.Kind != "" {
			out = append(out, checkpoint.Listed{
				Name: strings.TrimPrefix(o.Key, n.Prefix()), Kind: checkpoint.ObjectKind(p.Kind),
				Attempt: p.Attempt, ID: p.Checkpoint, Modified: o.Modified,
			})
		}
	}
	return out, nil
}

// durableBelow finds the newest durable checkpoint with an id below id. Decisions that are void, below the
// floor of the one above them, do not count.
func durableBelow(ctx context.Context, s snapshot.Store, n snapshot.Names, id job.CheckpointID) (checkpoint.Manifest, bool, error) {
	above, err := readDecision(ctx, s, n, id)
	if err != nil {
		return checkpoint.Manifest{}, false, err
	}
	for at := id - 1; at >= above.Floor; at-- {
		m, err := readDecision(ctx, s, n, at)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return checkpoint.Manifest{}, false, err
		}
		if m.Kind == checkpoint.Durable {
			return m, true, nil
		}
	}
	return checkpoint.Manifest{}, false, nil
}
