package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// handlers answers queries, takes updates and collects signals.
func (j *streamJob) handlers() error {
	queries := []struct {
		name, about string
		answer      any
	}{
		{QueryStatus, "what the job is doing", func() (Status, error) { return j.status(), nil }},
		{QueryCheckpoints, "the latest checkpoints, newest first", func() ([]CheckpointView, error) { return j.st.checkpoints(), nil }},
		{QueryGraph, "operators, parallelism, edges and state", func() (job.Graph, error) { return j.st.Planned.Graph, nil }},
		{QueryAttempts, "the latest attempts, newest first", func() ([]AttemptRecord, error) { return j.st.attempts(), nil }},
	}
	for _, q := range queries {
		if err := workflow.SetQueryHandlerWithOptions(j.root, q.name, q.answer, workflow.QueryHandlerOptions{Description: q.about}); err != nil {
			return fmt.Errorf("query %s: %w", q.name, err)
		}
	}
	err := workflow.SetUpdateHandlerWithOptions(j.root, UpdateCheckpoint, j.onCheckpoint, workflow.UpdateHandlerOptions{
		Validator: j.mayCheckpoint, Description: "take a checkpoint now and wait for its result",
	})
	if err != nil {
		return fmt.Errorf("update %s: %w", UpdateCheckpoint, err)
	}
	workflow.GoNamed(j.ctx, "attempt-ended", func(ctx workflow.Context) {
		for ch := workflow.GetSignalChannel(ctx, SignalAttemptEnded); ; {
			var e activities.AttemptEnded
			ch.Receive(ctx, &e)
			j.ended(e)
		}
	})
	workflow.GoNamed(j.ctx, "sources-ended", func(ctx workflow.Context) {
		for ch := workflow.GetSignalChannel(ctx, SignalSourcesEnded); ; {
			var e SourcesEnded
			ch.Receive(ctx, &e)
			j.sourcesEnded(e)
		}
	})
	return nil
}

// readMail takes the signals that have arrived and were not delivered yet: what is unread when a run continues
// as new is lost.
func (j *streamJob) readMail() {
	for ch := workflow.GetSignalChannel(j.ctx, SignalAttemptEnded); ; {
		var e activities.AttemptEnded
		if !ch.ReceiveAsync(&e) {
			break
		}
		j.ended(e)
	}
	for ch := workflow.GetSignalChannel(j.ctx, SignalSourcesEnded); ; {
		var e SourcesEnded
		if !ch.ReceiveAsync(&e) {
			break
		}
		j.sourcesEnded(e)
	}
}

// ended notes the end of an attempt. The first report counts; a repeated one, or one about another life of
// the job or an attempt long gone, is told by its number.
func (j *streamJob) ended(e activities.AttemptEnded) {
	if _, known := j.mail[e.Attempt]; known || e.UID != j.st.Planned.Job.UID || e.Attempt < j.st.Attempt {
		return
	}
	j.mail[e.Attempt] = e.Outcome
}

func (j *streamJob) sourcesEnded(e SourcesEnded) {
	if e.UID == j.st.Planned.Job.UID && e.Attempt == j.st.Attempt { // perhaps before its start is known
		j.st.SourcesEnded = e.Attempt
	}
}

// watchCancel notes a cancellation by the user; the main loop acts.
func (j *streamJob) watchCancel() {
	workflow.GoNamed(j.root, "cancel", func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		j.cancelled = true
	})
}

// mayCheckpoint refuses an update that could not be answered.
func (j *streamJob) mayCheckpoint(workflow.Context) error {
	switch {
	case j.draining:
		return temporal.NewApplicationError("the workflow is continuing as new: try again in a moment", TypeDraining)
	case j.cancelled || j.st.Running == nil:
		return temporal.NewApplicationError("the job runs no attempt at the moment: it is "+j.phase, TypeNotRunning)
	}
	return nil
}

// onCheckpoint only enqueues and waits; the main loop acts.
func (j *streamJob) onCheckpoint(ctx workflow.Context) (CheckpointView, error) {
	r := &request{}
	j.requests = append(j.requests, r)
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancelled job answers in its own words
	if err := workflow.Await(ctx, func() bool { return r.done }); err != nil {
		return CheckpointView{}, err
	}
	return r.record.view(), r.err
}

// dismiss answers the updates that wait for a checkpoint which will not be.
func (j *streamJob) dismiss(why string) {
	for _, r := range j.requests {
		r.done, r.err = true, temporal.NewApplicationError(why, TypeNotRunning)
	}
	j.requests = nil
}

func (j *streamJob) status() Status {
	var inFlight job.CheckpointID
	if j.flight != nil {
		inFlight = j.flight.id
	}
	return j.st.status(j.name, j.phase, j.waiting, inFlight)
}

// showDetails renders the details that the UI shows.
func (j *streamJob) showDetails() {
	workflow.SetCurrentDetails(j.ctx, render(j.status(), j.st.Checkpoints))
}

// setPhase moves the job to another state, for people.
func (j *streamJob) setPhase(phase string) {
	if phase == j.phase {
		return
	}
	j.phase = phase
	j.upsert()
}

// attributeEvery is how many checkpoints go by between two upserts: each costs an event.
const attributeEvery = 10

// upsert sets the search attributes that the namespace has; an unregistered one would fail the workflow
// task for ever.
func (j *streamJob) upsert() {
	var set []temporal.SearchAttributeUpdate
	has := func(name, kind string) bool { return j.attributes[name] == kind }
	if has(activities.AttributeState, "Keyword") {
		set = append(set, temporal.NewSearchAttributeKeyKeyword(activities.AttributeState).ValueSet(j.phase))
	}
	if has(activities.AttributeUID, "Keyword") {
		set = append(set, temporal.NewSearchAttributeKeyKeyword(activities.AttributeUID).ValueSet(string(j.st.Planned.Job.UID)))
	}
	if has(activities.AttributeCheckpoint, "Int") {
		set = append(set, temporal.NewSearchAttributeKeyInt64(activities.AttributeCheckpoint).ValueSet(int64(j.st.Durable)))
	}
	if len(j.st.Checkpoints) > 0 {
		c := j.st.Checkpoints[0]
		if has(activities.AttributeCheckpointAt, "Datetime") {
			set = append(set, temporal.NewSearchAttributeKeyTime(activities.AttributeCheckpointAt).ValueSet(c.At))
		}
		if has(activities.AttributeLag, "Int") && c.Stats.LagRecords >= 0 {
			set = append(set, temporal.NewSearchAttributeKeyInt64(activities.AttributeLag).ValueSet(c.Stats.LagRecords))
		}
	}
	if len(set) > 0 {
		_ = workflow.UpsertTypedSearchAttributes(j.ctx, set...)
	}
}
