package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Survey is what the store says about a job.
type Survey struct {
	checkpoint.Summary
	// Newest is the newest durable checkpoint; Found is false when the job has none.
	Newest checkpoint.Manifest
	Found  bool
	// Decisions are those that were read, newest first: all down to Newest, or all there are.
	Decisions []checkpoint.Manifest
	Listing   []checkpoint.Listed
}

// SurveyJob lists what the job has and reads its decisions, newest first, down to the newest durable checkpoint; with
// all set it reads every one. A decision that cannot be read or trusted is an error: a damaged newest checkpoint
// stops the job, it never falls back silently.
func SurveyJob(ctx context.Context, s Store, uid job.UID, all bool) (Survey, error) {
	names := Names{UID: uid}
	objects, err := s.List(ctx, names.Prefix())
	if err != nil {
		return Survey{}, err
	}
	v := Survey{Listing: names.Listed(objects)}
	v.Summary = checkpoint.Summarise(v.Listing)
	for i := len(v.Decided) - 1; i >= 0 && (all || !v.Found); i-- {
		m, err := ReadManifest(ctx, s, uid, v.Decided[i])
		if errors.Is(err, ErrNotFound) && v.Found {
			continue // a decision below the floor, deleted since the listing
		}
		if err != nil {
			return Survey{}, fmt.Errorf("survey of %s: %w", uid, err)
		}
		v.Note(m)
		v.Decisions = append(v.Decisions, m)
		if m.Kind == checkpoint.Durable && !v.Found {
			v.Newest, v.Found = m, true
		}
	}
	return v, nil
}
