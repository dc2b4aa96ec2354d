package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// NodeBound holds the activities of one node process, on its own queue (NodeQueue). All methods may run
// concurrently.
type NodeBound struct {
	Node       Node
	Members    Members
	Executions Executions
	// OpenStore opens the snapshot store at a URL; the node reads its attempt's plan there.
	OpenStore func(ctx context.Context, url string) (snapshot.Store, error)
}

const (
	// beatEvery is how often activities report; the SDK thins the reports out to 0.8 of the timeout.
	beatEvery = 2 * time.Second
	// openEvery is how often a watcher asks whether the StreamJob is still open.
	openEvery = 5 * time.Second
	// stopWithin bounds the stop that follows a real cancellation, the fallback of StopTasks.
	stopWithin = 30 * time.Second
)

// RunTasks deploys the attempt on this node or attaches to it, and returns when the attempt has ended here,
// always with an error: a typed failure that is not retried. A broken context stops the tasks only when
// its cause is a real cancellation; on any other cause (the server forgot this call during an outage, the
// worker's connection closes) the watcher goes and the tasks run on, to be attached to by the next call.
func (n *NodeBound) RunTasks(ctx context.Context, in TaskInput) error {
	dep, err := n.deployment(ctx, in)
	if err != nil {
		return classified(err)
	}
	stop := beat(ctx, func() any { return n.Node.Live(dep.Ref) })
	defer stop()
	err = n.Node.RunTasks(ctx, dep)
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if !cancelled(cause) {
			return fmt.Errorf("watch attempt %s on node %s: %w", dep.Ref, n.Node.ID(), cause)
		}
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer done()
		if err := n.Node.StopTasks(ctx, dep.Ref); err != nil {
			return fmt.Errorf("stop attempt %s on node %s: %w", dep.Ref, n.Node.ID(), err)
		}
		return cause
	}
	if err == nil {
		err = errors.New("the tasks ended without saying why")
	}
	return taskFailure(n.Node.ID(), err)
}

// cancelled reports whether an activity's context ended because its workflow asked for it.
func cancelled(cause error) bool {
	var c *temporal.CanceledError
	return errors.As(cause, &c)
}

func (n *NodeBound) deployment(ctx context.Context, in TaskInput) (job.Deployment, error) {
	store, err := n.OpenStore(ctx, in.Job.Storage)
	if err != nil {
		return job.Deployment{}, fmt.Errorf("open storage %s: %w", in.Job.Storage, err)
	}
	return readDeployment(ctx, store, in.Job.Ref(in.Attempt))
}

// StopTasks ends the attempt on this node, or remembers that it must never start here.
func (n *NodeBound) StopTasks(ctx context.Context, in TaskInput) error {
	ref := in.Job.Ref(in.Attempt)
	if err := n.Node.StopTasks(ctx, ref); err != nil {
		return classified(fmt.Errorf("stop attempt %s on node %s: %w", ref, n.Node.ID(), err))
	}
	return nil
}

// Snapshot takes this node's share of a checkpoint. A retried call has only what is left of the deadline.
func (n *NodeBound) Snapshot(ctx context.Context, in SnapshotInput) (checkpoint.Ack, error) {
	stop := beat(ctx, func() any { return n.Node.Live(in.Barrier.Ref) })
	defer stop()
	info := activity.GetInfo(ctx)
	hold, left := remaining(in, info.StartedTime.Sub(info.ScheduledTime))
	if left <= 0 {
		return checkpoint.Ack{}, declined(n.Node.ID(), &DeclinedError{ID: in.Barrier.ID, Why: "the deadline has passed"})
	}
	if err := sleep(ctx, hold); err != nil {
		return checkpoint.Ack{}, err
	}
	b := in.Barrier
	b.Remaining = left
	failpoint.Hit("barrier.before")
	ack, err := n.Node.Snapshot(ctx, b)
	if err != nil {
		return checkpoint.Ack{}, snapshotFailure(ctx, n.Node.ID(), err)
	}
	return ack, nil
}

// remaining splits what is left of a checkpoint's time, elapsed after it was ordered (both ends of elapsed
// are the server's clock), into the hold and the deadline after it.
func remaining(in SnapshotInput, elapsed time.Duration) (hold, left time.Duration) {
	elapsed = max(elapsed, 0)
	hold = max(in.Hold-elapsed, 0)
	late := max(elapsed-in.Hold, 0)
	return hold, in.Barrier.Remaining - late
}

func snapshotFailure(ctx context.Context, node job.NodeID, err error) error {
	var d *DeclinedError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &d):
		return declined(node, d)
	case job.ClassOf(err) == job.Fenced:
		return failure(TypeStale, err.Error(), FailureDetails{Node: node})
	default:
		return classified(fmt.Errorf("node %s: snapshot: %w", node, err))
	}
}

func declined(node job.NodeID, d *DeclinedError) error {
	return failure(TypeDeclined, fmt.Sprintf("node %s: %v", node, d), FailureDetails{Node: node})
}

// AwaitEnd returns when every source of the attempt on this node has reached its end.
func (n *NodeBound) AwaitEnd(ctx context.Context, in TaskInput) error {
	stop := beat(ctx, nil)
	defer stop()
	if err := n.Node.AwaitEnd(ctx, in.Job.Ref(in.Attempt)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return classified(fmt.Errorf("node %s: await end of sources: %w", n.Node.ID(), err))
	}
	return nil
}

// WatchNodes returns when the cluster loses one of the nodes or when the StreamJob is closed, so that
// nothing runs for ever behind a dead node or a terminated job.
func (n *NodeBound) WatchNodes(ctx context.Context, in WatchInput) (Watched, error) {
	return watchAttempt(ctx, n.Members, n.Executions, in)
}

// beat sends heartbeats with fresh details until the returned function is called.
func beat(ctx context.Context, details func() any) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			if details == nil {
				activity.RecordHeartbeat(ctx)
			} else {
				activity.RecordHeartbeat(ctx, details())
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

// sleep waits on the monotonic clock, or returns the context's cause.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
