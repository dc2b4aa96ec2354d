package activities

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// Retain retires what is no longer needed: it plans, persists the plan, reads the decisions again, and
// executes. Repeated, it executes the plan that stands in the store.
func (c *Control) Retain(ctx context.Context, in RetentionInput) (Retention, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return Retention{}, classified(err)
	}
	defer beat(ctx, nil)()
	look, err := snapshot.SurveyJob(ctx, s, in.Job.UID, true)
	if err != nil {
		return Retention{}, classified(err)
	}
	plan, ok := checkpoint.PlanRetention(checkpoint.RetentionInput{
		UID: in.Job.UID, Decisions: look.Decisions, Listing: look.Listing, Keep: in.Keep, Now: c.now(),
	})
	if !ok || len(plan.Retire)+len(plan.Delete) == 0 {
		return Retention{Floor: plan.Floor}, nil
	}
	if plan, err = snapshot.PersistPlan(ctx, s, plan); err != nil {
		return Retention{}, classified(fmt.Errorf("persist retention plan after checkpoint %d: %w", plan.After, err))
	}
	if look, err = snapshot.SurveyJob(ctx, s, in.Job.UID, true); err != nil {
		return Retention{}, classified(err)
	}
	plan = plan.Revise(look.Decisions, nil)
	if err := snapshot.ExecutePlan(ctx, s, plan); err != nil {
		return Retention{}, classified(fmt.Errorf("retention after checkpoint %d: %w", plan.After, err))
	}
	return Retention{Checkpoints: len(plan.Retire), Objects: len(plan.Delete), Floor: plan.Floor}, nil
}
