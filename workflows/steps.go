package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// One typed function per activity and child workflow, so that a wrong argument is a compile error. Timeouts
// and retry policies are decided here and nowhere else.

// The receivers are only there to name the activities; they are never called.
var (
	control *activities.Control
	node    *activities.NodeBound
)

const (
	// beat is the heartbeat timeout of everything that may outlive its process.
	beat = 10 * time.Second
	// pulse is that of control activities, turn the time that a workflow task may take where that is ours to
	// choose. A process that freezes takes some of either with it, and a recovery waits until the server gives
	// them to others.
	pulse = 6 * time.Second
	turn  = 4 * time.Second
	// relay is how soon another process takes the watch over an attempt after the death of the one that had it, which
	// may have been one of all nodes of the attempt: nothing else notices then.
	relay = 4 * time.Second
	// queued is how long work may wait for a node's worker: a Temporal client may back off ten seconds
	// after an outage, a queue that nobody polls is a dead node.
	queued = 30 * time.Second
	// forever is as long as an attempt may last between two attachments.
	forever = 30 * 24 * time.Hour
)

// once makes an activity fail at its first error: the workflow itself waits, and says for what.
var once = &temporal.RetryPolicy{MaximumAttempts: 1}

// insist repeats until the answer is definitive.
func insist() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second}
}

func onControl(ctx workflow.Context, summary string, within time.Duration, retry *temporal.RetryPolicy) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: activities.ControlQueue, StartToCloseTimeout: within, HeartbeatTimeout: pulse, RetryPolicy: retry, Summary: summary,
	})
}

func planJob(ctx workflow.Context, in activities.PlanJobInput) (out activities.Planned, err error) {
	ctx = onControl(ctx, "validate and plan the spec", time.Minute, once)
	return out, workflow.ExecuteActivity(ctx, control.PlanJob, in).Get(ctx, &out)
}

func startPosition(ctx workflow.Context, j activities.Job) error {
	ctx = onControl(ctx, "resolve where the sources start", 2*time.Minute, once)
	return workflow.ExecuteActivity(ctx, control.StartPosition, j).Get(ctx, nil)
}

func claimAttempt(ctx workflow.Context, in activities.ClaimInput) (out activities.Claim, err error) {
	ctx = onControl(ctx, fmt.Sprintf("claim the attempt after %d", in.Above), 5*time.Minute, once)
	return out, workflow.ExecuteActivity(ctx, control.ClaimAttempt, in).Get(ctx, &out)
}

func recoverSinks(ctx workflow.Context, in activities.RecoverInput) (out activities.Recovery, err error) {
	ctx = onControl(ctx, fmt.Sprintf("commit what checkpoint %d holds, abort the rest", in.Manifest), 10*time.Minute, once)
	return out, workflow.ExecuteActivity(ctx, control.RecoverSinks, in).Get(ctx, &out)
}

func fallBack(ctx workflow.Context, in activities.FallBackInput) (out activities.FellBack, err error) {
	ctx = onControl(ctx, fmt.Sprintf("fall back behind checkpoint %d", in.Lost), 5*time.Minute, once)
	return out, workflow.ExecuteActivity(ctx, control.FallBack, in).Get(ctx, &out)
}

func placeAttempt(ctx workflow.Context, in activities.PlaceInput) (out activities.Placed, err error) {
	ctx = onControl(ctx, fmt.Sprintf("find %d slots for attempt %d", in.Slots, in.Attempt), time.Minute, once)
	return out, workflow.ExecuteActivity(ctx, control.PlaceAttempt, in).Get(ctx, &out)
}

func retain(ctx workflow.Context, after job.CheckpointID, in activities.RetentionInput) workflow.Future {
	retry := insist()
	retry.MaximumInterval = time.Minute
	ctx = onControl(ctx, fmt.Sprintf("retire what checkpoint %d makes superfluous", after), 10*time.Minute, retry)
	return workflow.ExecuteActivity(ctx, control.Retain, in)
}

func awaitAttempt(ctx workflow.Context, in activities.TaskInput) workflow.Future {
	ctx = onControl(ctx, fmt.Sprintf("backstop: the end of attempt %d", in.Attempt), forever, insist())
	o := workflow.GetActivityOptions(ctx)
	o.HeartbeatTimeout = time.Minute // heartbeats are writes on the job's history shard
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), control.AwaitAttempt, in)
}

func searchAttributes(ctx workflow.Context) (out map[string]string, err error) {
	ctx = onControl(ctx, "which search attributes the namespace has", 10*time.Second, once)
	return out, workflow.ExecuteActivity(ctx, control.SearchAttributes).Get(ctx, &out)
}

func commitCheckpoint(ctx workflow.Context, in activities.CommitInput) workflow.Future {
	ctx = onControl(ctx, fmt.Sprintf("make checkpoint %d durable", in.ID), 2*time.Minute, insist())
	return workflow.ExecuteActivity(ctx, control.CommitCheckpoint, in)
}

func abortCheckpoint(ctx workflow.Context, in activities.AbortInput) workflow.Future {
	ctx = onControl(ctx, fmt.Sprintf("abort checkpoint %d", in.ID), time.Minute, insist())
	return workflow.ExecuteActivity(ctx, control.AbortCheckpoint, in)
}

func commitSinks(ctx workflow.Context, in activities.SinksInput, transactions int) workflow.Future {
	ctx = onControl(ctx, fmt.Sprintf("commit %d transactions of checkpoint %d", transactions, in.ID), 10*time.Minute, insist())
	return workflow.ExecuteActivity(ctx, control.CommitSinks, in)
}

func onNode(ctx workflow.Context, id job.NodeID, o workflow.ActivityOptions) workflow.Context {
	o.TaskQueue = activities.NodeQueue(id)
	return workflow.WithActivityOptions(ctx, o)
}

func runTasks(ctx workflow.Context, id job.NodeID, in activities.TaskInput) workflow.Future {
	ctx = onNode(ctx, id, workflow.ActivityOptions{
		ScheduleToStartTimeout: queued, StartToCloseTimeout: forever, HeartbeatTimeout: beat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1},
		Summary:     fmt.Sprintf("attempt %d on %s", in.Attempt, id),
	})
	return workflow.ExecuteActivity(ctx, node.RunTasks, in)
}

// stopTasks is best effort: recovery never waits for a lost node.
func stopTasks(ctx workflow.Context, id job.NodeID, in activities.TaskInput) workflow.Future {
	ctx = onNode(ctx, id, workflow.ActivityOptions{
		ScheduleToStartTimeout: 5 * time.Second, StartToCloseTimeout: 10 * time.Second, RetryPolicy: once,
		Summary: fmt.Sprintf("stop attempt %d on %s", in.Attempt, id),
	})
	return workflow.ExecuteActivity(ctx, node.StopTasks, in)
}

func awaitEnd(ctx workflow.Context, id job.NodeID, in activities.TaskInput) workflow.Future {
	ctx = onNode(ctx, id, workflow.ActivityOptions{
		StartToCloseTimeout: forever, HeartbeatTimeout: beat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
		Summary:     fmt.Sprintf("end of the sources on %s", id),
	})
	return workflow.ExecuteActivity(ctx, node.AwaitEnd, in)
}

func watchNodes(ctx workflow.Context, id job.NodeID, in activities.WatchInput) workflow.Future {
	ctx = onNode(ctx, id, workflow.ActivityOptions{
		ScheduleToStartTimeout: queued, StartToCloseTimeout: forever, HeartbeatTimeout: beat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1},
		Summary:     fmt.Sprintf("%s watches attempt %d", id, in.Attempt),
	})
	return workflow.ExecuteActivity(ctx, node.WatchNodes, in)
}

func watchAttempt(ctx workflow.Context, in activities.WatchInput) workflow.Future {
	ctx = onControl(ctx, fmt.Sprintf("any process watches attempt %d", in.Attempt), forever, insist())
	o := workflow.GetActivityOptions(ctx)
	o.HeartbeatTimeout = relay
	ctx = workflow.WithActivityOptions(ctx, o)
	return workflow.ExecuteActivity(ctx, control.WatchAttempt, in)
}

// snapshot is repeated within the deadline: after an outage of Temporal the node is still at it.
func snapshot(ctx workflow.Context, id job.NodeID, in activities.SnapshotInput) workflow.Future {
	within := in.Hold + in.Barrier.Remaining + beat
	ctx = onNode(ctx, id, workflow.ActivityOptions{
		ScheduleToCloseTimeout: within, ScheduleToStartTimeout: min(within, queued), HeartbeatTimeout: beat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1},
		Summary:     fmt.Sprintf("share of checkpoint %d on %s", in.Barrier.ID, id),
	})
	return workflow.ExecuteActivity(ctx, node.Snapshot, in)
}

// onChild are the options of our children: they outlive a run of the StreamJob, which continues as new.
func onChild(ctx workflow.Context, id, summary string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: id, TaskQueue: activities.ControlQueue, ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowTaskTimeout: turn, StaticSummary: summary,
	})
}

func startAttempt(ctx workflow.Context, in AttemptInput, restore job.CheckpointID) workflow.ChildWorkflowFuture {
	ctx = onChild(ctx, activities.AttemptID(in.Job.Name, in.Job.Ref(in.Attempt)),
		fmt.Sprintf("attempt %d on %d nodes, from checkpoint %d", in.Attempt, len(in.Nodes), restore))
	return workflow.ExecuteChildWorkflow(ctx, Attempt, in)
}

func startCheckpoint(ctx workflow.Context, in CheckpointInput) workflow.ChildWorkflowFuture {
	ctx = onChild(ctx, activities.CheckpointID(in.Job.Name, in.Job.UID, in.ID),
		fmt.Sprintf("checkpoint %d of attempt %d", in.ID, in.Attempt))
	return workflow.ExecuteChildWorkflow(ctx, Checkpoint, in)
}

// barrier is what the nodes are told about a checkpoint.
func (in CheckpointInput) barrier() checkpoint.Barrier {
	return checkpoint.Barrier{
		Ref: in.Job.Ref(in.Attempt), ID: in.ID, Remaining: in.Timeout,
		Decided: in.Decided, Durable: in.Durable, Committed: in.Committed, Aligned: in.Aligned,
	}
}
