package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// flight is the checkpoint that is being taken.
type flight struct {
	id       job.CheckpointID
	child    workflow.ChildWorkflowFuture
	requests []*request
}

// watch takes checkpoints of the running attempt until it ends. nil means: plan the next attempt.
func (j *streamJob) watch() error {
	run := *j.st.Running
	backstop, release := workflow.WithCancel(j.ctx)
	defer release()
	closed := awaitAttempt(backstop, activities.TaskInput{Job: j.st.Planned.Job, Attempt: run.Attempt})
	over := func() bool {
		if closed.IsReady() {
			var e activities.AttemptEnded
			if closed.Get(j.ctx, &e) == nil {
				j.ended(e)
			}
		}
		_, told := j.mail[run.Attempt]
		return told
	}
	for {
		if j.flight == nil && j.historyFull() && j.drain(over) {
			return errContinue
		}
		flying := j.flight != nil
		if flying {
			_ = workflow.Await(j.ctx, func() bool { return j.flight.child.IsReady() || over() || j.cancelled })
		} else {
			j.awaitNext(over)
		}
		act, why := j.land(over() || j.cancelled)
		switch {
		case act.Final:
			j.stop(run, over, activities.TypeFatal, "every source has ended")
			return j.terminal("finishing", errDone)
		case j.cancelled:
			j.stop(run, over, activities.TypeFatal, "the job was cancelled")
			return j.terminal("cancelling", errCancelled)
		case over() || act.EndAttempt:
			return j.restart(run, j.stop(run, over, activities.TypeFatal, why))
		case act.Superseded: // no failure: what is up to date is in the store, where planning looks
			return j.restart(run, j.stop(run, over, activities.Stopped, why))
		case !flying && !j.launch(run):
			return j.restart(run, j.stop(run, over, activities.Stopped, "the id of the next checkpoint is taken"))
		}
	}
}

// awaitNext waits until the next checkpoint is to be ordered.
func (j *streamJob) awaitNext(over func() bool) {
	o := j.st.Planned.Options
	p := pause(workflow.Now(j.ctx), j.st.Begun, j.st.Ended, o.Interval, o.MinPause)
	if p.Timer <= 0 {
		return
	}
	summary := "before the first checkpoint"
	if len(j.st.Checkpoints) > 0 {
		summary = brief(j.st.Checkpoints[0])
	}
	j.pause(p.Timer, summary, func() bool { return over() || j.cancelled || j.urgent() })
}

// urgent reports whether a checkpoint is wanted before its time.
func (j *streamJob) urgent() bool {
	return len(j.requests) > 0 || j.st.Running != nil && j.st.SourcesEnded == j.st.Running.Attempt
}

// launch orders the next checkpoint; false when its workflow id is taken.
func (j *streamJob) launch(run Running) bool {
	o := j.st.Planned.Options
	now := workflow.Now(j.ctx)
	hold := pause(now, j.st.Begun, j.st.Ended, o.Interval, o.MinPause).Hold
	if j.urgent() {
		hold = 0
	}
	in := CheckpointInput{
		Job: j.st.Planned.Job, Attempt: run.Attempt, ID: j.st.nextID(), Nodes: run.nodes(),
		Decided: j.st.Decided, Durable: j.st.Durable, Committed: j.st.Committed, Floor: j.st.Floor,
		Aligned: o.Aligned, Hold: hold, Timeout: o.Timeout, Transactional: o.TxTimeout > 0,
	}
	f := &flight{id: in.ID, child: startCheckpoint(j.ctx, in), requests: j.requests}
	if f.child.GetChildWorkflowExecution().Get(j.ctx, nil) != nil {
		return false
	}
	j.requests = j.requests[len(f.requests):]
	j.st.SourcesEnded = 0 // once: if this checkpoint is not the final one, the next has its usual time
	j.flight, j.st.Begun = f, now.Add(hold)
	return true
}

// land takes the result of the checkpoint in flight, if there is one. With force it must end now, since its
// attempt has: no attempt is planned before the checkpoint is decided.
func (j *streamJob) land(force bool) (Action, string) {
	f := j.flight
	if f == nil || !f.child.IsReady() && !force {
		return Action{}, ""
	}
	if !f.child.IsReady() {
		id := activities.CheckpointID(j.name, j.st.Planned.Job.UID, f.id)
		_ = workflow.RequestCancelExternalWorkflow(j.ctx, id, "").Get(j.ctx, nil)
	}
	r := j.record(f)
	j.flight = nil
	act := j.st.after(r)
	for _, q := range f.requests {
		q.done, q.record = true, r
		if r.Result != Committed && r.Result != Durable {
			q.err = temporal.NewApplicationError(fmt.Sprintf("checkpoint %d %s: %s", r.ID, r.Result, r.Reason), TypeAborted)
		}
	}
	j.retire(r.ID)
	if (j.st.Succeeded+j.st.Failed)%attributeEvery == 1 {
		j.upsert()
	}
	j.showDetails()
	return act, fmt.Sprintf("checkpoint %d %s: %s", r.ID, r.Result, r.Reason)
}

// record waits for the child and reads its record, out of its failure if it failed.
func (j *streamJob) record(f *flight) CheckpointRecord {
	var r CheckpointRecord
	err := f.child.Get(j.ctx, &r)
	if err == nil {
		return r
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == TypeAborted && app.Details(&r) == nil {
		return r
	}
	return CheckpointRecord{ID: f.id, Attempt: j.st.Running.Attempt, Result: Undecided, Reason: cause(err), At: workflow.Now(j.ctx)}
}

// retire runs retention in the background, one at a time.
func (j *streamJob) retire(after job.CheckpointID) {
	if j.retention != nil && j.retention.IsReady() {
		var r activities.Retention
		if j.retention.Get(j.ctx, &r) == nil {
			j.st.Floor = max(j.st.Floor, r.Floor)
		}
		j.retention = nil
	}
	o := j.st.Planned.Options
	if j.retention == nil && retentionDue(j.st.Unretired, o.Keep) {
		j.st.Unretired = 0
		j.retention = retain(j.ctx, after, activities.RetentionInput{Job: j.st.Planned.Job, Keep: o.Keep})
	}
}

// stop ends the running attempt, unless it has ended, waits until it has, and returns how it ended: as it
// says itself, or by the kind and reason for which we stopped it. The Attempt itself stops the nodes.
func (j *streamJob) stop(run Running, over func() bool, kind, why string) activities.Ending {
	if !over() {
		id := activities.AttemptID(j.name, j.st.Planned.Job.Ref(run.Attempt))
		// An Attempt that cannot be cancelled is closed, or will never be: fencing is the safety.
		if workflow.RequestCancelExternalWorkflow(j.ctx, id, "").Get(j.ctx, nil) == nil {
			_ = workflow.Await(j.ctx, over)
		}
	}
	end := j.mail[run.Attempt]
	if why != "" && (end.Kind == "" || end.Kind == activities.Stopped) {
		end = activities.Ending{Kind: kind, Cause: why}
	}
	j.st.stopped(end, workflow.Now(j.ctx))
	return end
}

// restart waits after the end of an attempt that nobody asked for, or gives up.
func (j *streamJob) restart(run Running, end activities.Ending) error {
	now := workflow.Now(j.ctx)
	f := Failure{Attempt: run.Attempt, End: end, At: now, Ran: now.Sub(run.Since)}
	var v Verdict
	j.st.Restarts, v = j.st.Restarts.next(j.st.Planned.Options.Restart, f, string(j.st.Planned.Job.UID))
	j.setPhase("restarting")
	if !v.Restart {
		msg := fmt.Sprintf("%s; not restarted: %s", f.describe(), v.Why)
		return j.terminal("failing", temporal.NewNonRetryableApplicationError(msg, TypeJobFailed, nil))
	}
	if v.Delay > 0 {
		j.waiting = fmt.Sprintf("%v until the restart", v.Delay.Round(time.Millisecond))
		j.showDetails()
		j.pause(v.Delay, "before restart "+fmt.Sprint(j.st.Restarts.Total)+": "+f.describe(), func() bool { return j.cancelled })
		j.waiting = ""
	}
	if j.cancelled {
		return j.terminal("cancelling", errCancelled)
	}
	return nil
}

// drain makes sure that nothing is lost when this run continues as new: no checkpoint is open, no update
// waits, and no signal about the running attempt is unread. false: there is something to do first.
func (j *streamJob) drain(over func() bool) bool {
	if len(j.requests) > 0 || j.retention != nil && !j.retention.IsReady() {
		return false
	}
	j.retire(j.st.Durable)
	j.readMail()
	j.draining = true
	_ = workflow.Await(j.ctx, func() bool {
		return workflow.AllHandlersFinished(j.ctx) || len(j.requests) > 0 || over() || j.cancelled
	})
	j.draining = len(j.requests) == 0 && !over() && !j.cancelled && workflow.AllHandlersFinished(j.ctx)
	return j.draining
}
