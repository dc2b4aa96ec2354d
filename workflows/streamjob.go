package workflows

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// Result is what a StreamJob that is done returns.
type Result struct {
	UID         job.UID          `json:"uid"`
	Attempts    job.Attempt      `json:"attempts"`
	Checkpoints int              `json:"checkpoints"`
	Latest      job.CheckpointID `json:"latest_checkpoint"`
	Restarts    int              `json:"restarts"`
	Records     int64            `json:"records"`
}

// StreamJob is the durable JobManager of one job. Its workflow id is the job's name. spec is the job spec as
// JSON, options a StartOptions or absent; both come raw, since typed input would drop unknown keys
// silently. carried is what an earlier run hands over when it continues as new; users do not give it.
//
// It plans, deploys, takes checkpoints, restarts what fails, and ends: done (a bounded job's final checkpoint
// is committed), cancelled, or failed with a readable cause.
func StreamJob(ctx workflow.Context, spec, options converter.RawValue, carried *State) (Result, error) {
	j := &streamJob{root: ctx, name: workflow.GetInfo(ctx).WorkflowExecution.ID, phase: "starting", mail: map[job.Attempt]activities.Ending{}}
	j.ctx, _ = workflow.NewDisconnectedContext(ctx)
	if carried != nil {
		j.st = *carried
		j.phase = "running"
	} else {
		j.st.StartedAt = workflow.Now(ctx)
	}
	j.st.Runs++
	if err := j.handlers(); err != nil {
		return Result{}, err
	}
	j.watchCancel()
	err := j.run(spec, options, carried != nil)
	return j.close(err, spec, options)
}

// streamJob is one run of a StreamJob.
type streamJob struct {
	root workflow.Context // cancelled when the user cancels
	ctx  workflow.Context // goes on after that: every terminal path has work to do
	name string
	st   State

	phase     string // Status.State
	waiting   string // Status.WaitingFor
	cancelled bool
	draining  bool
	// mail are the ends of attempts that signals and the backstop have told of. It is only looked up, never
	// ranged over.
	mail       map[job.Attempt]activities.Ending
	requests   []*request
	flight     *flight
	retention  workflow.Future
	attributes map[string]string
}

// request is one "checkpoint" update that waits for its result.
type request struct {
	done   bool
	record CheckpointRecord
	err    error
}

// The ways in which a run ends without a failure.
var (
	errDone      = errors.New("done")
	errCancelled = errors.New("cancelled")
	errContinue  = errors.New("continue as new")
)

// run is the life of the job: plan once, then deploy and watch attempts until one of the ends.
func (j *streamJob) run(spec, options converter.RawValue, resumed bool) error {
	if !resumed {
		if err := j.plan(spec, options); err != nil {
			return err
		}
	}
	if !j.cancelled {
		j.attributes, _ = searchAttributes(j.ctx)
	}
	for {
		if j.st.Running == nil {
			err := j.deploy()
			if errors.Is(err, errCancelled) {
				return j.terminal("cancelling", errCancelled)
			}
			if err != nil {
				return err
			}
		}
		if err := j.watch(); err != nil {
			return err
		}
	}
}

// plan validates the spec and resolves where the sources start.
func (j *streamJob) plan(spec, options converter.RawValue) error {
	in := activities.PlanJobInput{
		Name: j.name, Run: workflow.GetInfo(j.ctx).FirstRunID, Spec: spec.Payload().GetData(), Options: options.Payload().GetData(),
	}
	if !json.Valid(in.Spec) {
		return refusedInput("the first input, the job spec, is not JSON; weir job render prints a spec as JSON")
	}
	if len(in.Options) > 0 && !json.Valid(in.Options) {
		return refusedInput("the second input, the options, is not JSON")
	}
	err := j.retrying("the spec cannot be planned", true, func() (err error) {
		j.st.Planned, err = planJob(j.ctx, in)
		return err
	})
	if err != nil {
		return err
	}
	return j.retrying("where the sources start cannot be resolved", true, func() error {
		return startPosition(j.ctx, j.st.Planned.Job)
	})
}

func refusedInput(why string) error {
	return temporal.NewNonRetryableApplicationError(why, activities.TypeInvalidSpec, nil)
}

// retrying repeats a step until it succeeds or can never succeed. Between tries it says in the details what
// the job waits for. With abandon, a cancellation ends the waiting.
func (j *streamJob) retrying(what string, abandon bool, step func() error) error {
	return j.retryingUnless(final, what, abandon, step)
}

// recovering is retrying for a step that has succeeded before in the life of the job, or could have: what refuses it
// now, such as rights that were taken away or keys that were changed, can be given back, and a job that gave up would
// leave its transactions open. Before the first attempt it is a mistake in the job, which fails.
func (j *streamJob) recovering(what string, abandon bool, step func() error) error {
	ran := len(j.st.Attempts) > 0
	return j.retryingUnless(func(err error) bool { return final(err) && !(ran && kind(err) == activities.TypeFatal) }, what, abandon, step)
}

func (j *streamJob) retryingUnless(final func(error) bool, what string, abandon bool, step func() error) error {
	phase := j.phase
	for try := 0; ; try++ {
		err := step()
		if err == nil {
			j.waiting = ""
			j.setPhase(phase)
			return nil
		}
		if final(err) {
			return err
		}
		if abandon && j.cancelled {
			return errCancelled
		}
		if abandon && j.historyFull() {
			return errContinue
		}
		j.waiting = what + ": " + cause(err)
		if abandon {
			j.setPhase("waiting")
		}
		j.showDetails()
		j.pause(waiting(try), what, func() bool { return abandon && j.cancelled })
	}
}

// pause waits for d or until the condition holds.
func (j *streamJob) pause(d time.Duration, summary string, until func() bool) {
	if d <= 0 || until() {
		return
	}
	ctx, cancel := workflow.WithCancel(j.ctx)
	defer cancel()
	t := workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: clip(summary, 200)})
	_ = workflow.Await(j.ctx, func() bool { return t.IsReady() || until() })
}

// close maps the end of a run to the workflow's result, after every waiting update has got its answer.
func (j *streamJob) close(err error, spec, options converter.RawValue) (Result, error) {
	if errors.Is(err, errContinue) {
		return Result{}, j.continueAsNew(spec, options)
	}
	result := Result{
		UID: j.st.Planned.Job.UID, Attempts: j.st.Attempt, Checkpoints: j.st.Succeeded,
		Latest: j.st.Durable, Restarts: j.st.Restarts.Total, Records: j.st.status(j.name, "", "", 0).Records,
	}
	j.waiting = ""
	switch {
	case errors.Is(err, errDone):
		j.setPhase("done")
		err = nil
	case errors.Is(err, errCancelled):
		j.setPhase("cancelled")
		err = temporal.NewCanceledError()
	default:
		j.setPhase("failed")
		j.st.Restarts.Last = cause(err)
		err = failed(err)
	}
	j.showDetails()
	j.dismiss("the job has ended: " + j.phase)
	_ = workflow.Await(j.ctx, func() bool { return workflow.AllHandlersFinished(j.ctx) })
	return result, err
}

// failed types the failure of a job; the message alone says why.
func failed(err error) error {
	t := kind(err)
	if t == "" || t == activities.TypeFatal || t == activities.TypeDamaged {
		t = TypeJobFailed
	}
	return temporal.NewNonRetryableApplicationError(cause(err), t, nil)
}

// continueAsNew hands the state to the next run. The spec went to the store when it was planned.
func (j *streamJob) continueAsNew(spec, options converter.RawValue) error {
	if j.st.Planned.Job.UID == "" { // not planned yet: begin again
		return workflow.NewContinueAsNewError(j.root, StreamJob, spec, options, (*State)(nil))
	}
	null, err := converter.GetDefaultDataConverter().ToPayload(nil)
	if err != nil {
		return err
	}
	none := converter.NewRawValue(null)
	// The first run's is what whoever started the job chose, or the server's default.
	return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskTimeout(j.root, turn), StreamJob, none, none, &j.st)
}

// historyFull reports whether this run should hand over.
func (j *streamJob) historyFull() bool {
	info := workflow.GetInfo(j.ctx)
	limit := j.st.Planned.Start.HistoryLimit
	return info.GetContinueAsNewSuggested() || limit > 0 && info.GetCurrentHistoryLength() >= limit
}
