package activities

import (
	"context"
	"log/slog"
)

// AwaitAttempt returns when the Attempt workflow is closed: the backstop of its signal.
func (c *Control) AwaitAttempt(ctx context.Context, in TaskInput) (AttemptEnded, error) {
	defer beat(ctx, nil)()
	cause, err := c.Executions.Await(ctx, AttemptID(in.Job.Name, in.Job.Ref(in.Attempt)))
	if err != nil {
		if ctx.Err() != nil {
			return AttemptEnded{}, context.Cause(ctx)
		}
		return AttemptEnded{}, classified(err)
	}
	end := Ending{Kind: Stopped, Cause: Cut(cause)}
	if cause != "" {
		end.Kind = TypeFatal
	}
	return AttemptEnded{UID: in.Job.UID, Attempt: in.Attempt, Outcome: end}, nil
}

// SearchAttributes lists those of our search attributes that the namespace has, with their types. Without
// the right to ask, or an answer, a job does without them.
func (c *Control) SearchAttributes(ctx context.Context) (map[string]string, error) {
	have, err := c.Executions.Attributes(ctx)
	if err != nil {
		slog.DebugContext(ctx, "search attributes are not set", "error", err)
		return nil, nil
	}
	ours := map[string]string{}
	for _, name := range []string{AttributeState, AttributeUID, AttributeCheckpoint, AttributeCheckpointAt, AttributeLag} {
		if kind, ok := have[name]; ok {
			ours[name] = kind
		}
	}
	return ours, nil
}
