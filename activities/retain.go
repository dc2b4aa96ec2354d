package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// deleteBatch is how many objects go with one request.
const deleteBatch = 500

// Retain retires what is no longer needed: it plans, persists the plan, reads the decisions again, and
// executes. Repeated, it executes the plan that stands in the store.
func (c *Control) Retain(ctx context.Context, in RetentionInput) (Retention, error) {
	s, n, err := c.store(ctx, in.Job)
	if err != nil {
		return Retention{}, classified(err)
	}
	defer beat(ctx, nil)()
	plan, ok, err := c.retentionPlan(ctx, s, n, in)
	if err != nil || !ok {
		return Retention{}, classified(err)
	}
	listing, err := listJob(ctx, s, n)
	if err != nil {
		return Retention{}, classified(err)
	}
	decisions, err := readDecisions(ctx, s, n, listing)
	if err != nil {
		return Retention{}, classified(err)
	}
	plan = plan.Revise(decisions, nil)
	if err := execute(ctx, s, n, plan); err != nil {
		return Retention{}, classified(fmt.Errorf("retention after checkpoint %d: %w", plan.After, err))
	}
	return Retention{Checkpoints: len(plan.Retire), Objects: len(plan.Delete), Floor: plan.Floor}, nil
}

// retentionPlan makes and persists the plan after the newest checkpoint, or reads the one that stands.
func (c *Control) retentionPlan(ctx context.Context, s snapshot.Store, n snapshot.Names, in RetentionInput) (checkpoint.RetentionPlan, bool, error) {
	listing, err := listJob(ctx, s, n)
	if err != nil {
		return checkpoint.RetentionPlan{}, false, err
	}
	decisions, err := readDecisions(ctx, s, n, listing)
	if err != nil {
		return checkpoint.RetentionPlan{}, false, err
	}
	plan, ok := checkpoint.PlanRetention(checkpoint.RetentionInput{
		UID: n.UID, Decisions: decisions, Listing: listing, Keep: in.Keep, Now: c.now(),
	})
	if !ok || len(plan.Retire)+len(plan.Delete) == 0 {
		return plan, false, nil
	}
	b, err := checkpoint.EncodeRetention(plan)
	if err != nil {
		return plan, false, job.AsFatal(err)
	}
	key := n.Retention(plan.After)
	if err = s.Create(ctx, key, b); err == nil {
		return plan, true, nil
	}
	if !errors.Is(err, snapshot.ErrExists) {
		return plan, false, fmt.Errorf("persist retention plan: %w", err)
	}
	if b, err = s.Get(ctx, key, checkpoint.MaxRetentionBytes); err != nil {
		return plan, false, fmt.Errorf("read retention plan: %w", err)
	}
	if plan, err = checkpoint.DecodeRetention(b); err != nil {
		return plan, false, failure(TypeDamaged, fmt.Sprintf("%s in %s: %v", key, s, err), FailureDetails{})
	}
	return plan, true, nil
}

// readDecisions reads every decision that is listed. One that has gone since is left out.
func readDecisions(ctx context.Context, s snapshot.Store, n snapshot.Names, listing []checkpoint.Listed) ([]checkpoint.Manifest, error) {
	var out []checkpoint.Manifest
	for _, o := range listing {
		if o.Kind != checkpoint.Decision {
			continue
		}
		m, err := readDecision(ctx, s, n, o.ID)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// execute puts the tombstones before it deletes, so that nobody restores what is half gone.
func execute(ctx context.Context, s snapshot.Store, n snapshot.Names, p checkpoint.RetentionPlan) error {
	for _, t := range p.Retire {
		b, err := checkpoint.EncodeManifest(t)
		if err != nil {
			return job.AsFatal(err)
		}
		if err := s.Put(ctx, n.Manifest(t.ID), b); err != nil {
			return fmt.Errorf("retire checkpoint %d: %w", t.ID, err)
		}
	}
	keys := make([]string, len(p.Delete))
	for i, name := range p.Delete {
		keys[i] = n.Prefix() + name
	}
	for len(keys) > 0 {
		k := min(len(keys), deleteBatch)
		if err := s.Delete(ctx, keys[:k]...); err != nil {
			return fmt.Errorf("delete %d objects: %w", k, err)
		}
		keys = keys[k:]
	}
	return nil
}
