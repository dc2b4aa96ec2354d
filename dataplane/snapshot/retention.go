package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// PersistPlan creates the retention plan and returns the one that stands: ours, or the one that an earlier run
// made after the same checkpoint, which is to be executed instead.
func PersistPlan(ctx context.Context, s Store, p checkpoint.RetentionPlan) (checkpoint.RetentionPlan, error) {
	b, err := checkpoint.EncodeRetention(p)
	if err != nil {
		return checkpoint.RetentionPlan{}, job.AsFatal(err)
	}
	key := Names{UID: p.UID}.Retention(p.After)
	err = s.Create(ctx, key, b)
	switch {
	case err == nil:
		return p, nil
	case !errors.Is(err, ErrExists):
		return checkpoint.RetentionPlan{}, err
	}
	if b, err = s.Get(ctx, key, checkpoint.MaxRetentionBytes); err != nil {
		return checkpoint.RetentionPlan{}, err
	}
	standing, err := checkpoint.DecodeRetention(b)
	if err == nil && (standing.UID != p.UID || standing.After != p.After) {
		err = fmt.Errorf("it is plan %d of %s: %w", standing.After, standing.UID, checkpoint.ErrInvalid)
	}
	if err != nil {
		return checkpoint.RetentionPlan{}, fmt.Errorf("read %s/%s: %w", s, key, err)
	}
	return standing, nil
}

// ExecutePlan executes a plan that was persisted and revised: first the tombstones, so that nobody can restore
// from what is about to lose its files, then the deletions. It may be repeated and may be cut off anywhere.
func ExecutePlan(ctx context.Context, s Store, p checkpoint.RetentionPlan) error {
	if err := p.Validate(); err != nil {
		return job.AsFatal(fmt.Errorf("execute retention plan: %w", err))
	}
	names := Names{UID: p.UID}
	for _, t := range p.Retire {
		b, err := checkpoint.EncodeManifest(t)
		if err != nil {
			return job.AsFatal(err)
		}
		if err := s.Put(ctx, names.Manifest(t.ID), b); err != nil {
			return err
		}
	}
	keys := make([]string, len(p.Delete))
	for i, name := range p.Delete {
		keys[i] = names.Key(name)
	}
	return s.Delete(ctx, keys...)
}
