package activities

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// survey is what the store says of a job: the ground on which every plan stands, whatever the planner
// remembers.
type survey struct {
	// attempt is the highest number that any object names, decided the highest decided checkpoint (-1: none).
	attempt job.Attempt
	decided job.CheckpointID
	// attempts are the numbers of all plans, ascending.
	attempts []job.Attempt
	// newest is the newest durable checkpoint, if found.
	newest checkpoint.Manifest
	found  bool
}

// surveyJob lists the job's objects and reads the decisions from the newest down to the newest durable
// one. A damaged decision is an error: falling back behind it silently could double output.
func surveyJob(ctx context.Context, s snapshot.Store, n snapshot.Names) (survey, error) {
	objects, err := s.List(ctx, n.Prefix())
	if err != nil {
		return survey{}, fmt.Errorf("list objects of job %s: %w", n.UID, err)
	}
	look := survey{decided: -1}
	var decided []job.CheckpointID
	for _, o := range objects {
		k := n.Parse(o.Key)
		look.attempt = max(look.attempt, k.Attempt)
		switch k.Kind {
		case "manifest":
			decided = append(decided, k.Checkpoint)
		case "attempt":
			look.attempts = append(look.attempts, k.Attempt)
		}
	}
	slices.Sort(look.attempts)
	slices.Sort(decided)
	for i, id := range slices.Backward(decided) {
		m, err := readDecision(ctx, s, n, id)
		if err != nil {
			return survey{}, err
		}
		look.attempt = max(look.attempt, m.Attempt)
		if i == len(decided)-1 {
			look.decided = id
		}
		if m.Kind == checkpoint.Durable {
			look.newest, look.found = m, true
			break
		}
		if activity.IsActivity(ctx) {
			activity.RecordHeartbeat(ctx)
		}
	}
	return look, nil
}

// durableBelow finds the newest durable checkpoint with an id below id.
func durableBelow(ctx context.Context, s snapshot.Store, n snapshot.Names, id job.CheckpointID) (checkpoint.Manifest, bool, error) {
	for at := id - 1; at >= 0; at-- {
		m, err := readDecision(ctx, s, n, at)
		if err != nil {
			if isNotFound(err) {
				continue
			}
			return checkpoint.Manifest{}, false, err
		}
		if m.Kind == checkpoint.Durable {
			return m, true, nil
		}
	}
	return checkpoint.Manifest{}, false, nil
}
