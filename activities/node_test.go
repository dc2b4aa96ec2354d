package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/activities/activitiestest"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// nodeBench is a bench whose job is placed, with the activities of node n1.
func nodeBench(t *testing.T) (*bench, *activities.NodeBound, *activitiestest.Node, activities.TaskInput) {
	t.Helper()
	b := newBench(t)
	b.started()
	c := b.claim(0)
	must[activities.Placed](b, b.control.PlaceAttempt, activities.PlaceInput{Job: b.job, Attempt: c.Attempt, First: c.First, Slots: 2})
	n := b.cluster.All()[0]
	bound := &activities.NodeBound{
		Node: n, Members: b.cluster, Executions: b.exec,
		OpenStore: func(context.Context, string) (snapshot.Store, error) { return b.store, nil },
	}
	activities.RegisterNode(b.env, bound)
	return b, bound, n, activities.TaskInput{Job: b.job, Attempt: c.Attempt}
}

// Each way in which an attempt ends on a node has its type, which the Attempt decides by, and names the node.
func TestRunTasksTypesFailures(t *testing.T) {
	for _, tc := range []struct {
		end  error
		kind string
		text string
	}{
		{&job.PeerLostError{Node: "n2", Why: "connection reset"}, activities.TypePeerLost, "n2"},
		{fmt.Errorf("run: %w", job.ErrNodeLeaving), activities.TypeNodeLeaving, "n1"},
		{&job.SubtaskError{Node: "n1", Subtask: job.SubtaskID{Vertex: "out", Index: 1}, Err: errors.New("overflow")}, activities.TypeSubtask, "out[1]: overflow"},
		{job.AsFenced(&job.StaleError{Highest: 4}), activities.TypeStale, "superseded by attempt 4"},
		{&job.SubtaskError{Node: "n1", Err: fmt.Errorf("restore: %w", checkpoint.ErrDamaged)}, activities.TypeDamaged, "damaged"},
		{errors.New(strings.Repeat("ü", 5000)), activities.TypeFatal, "…"},
	} {
		b, bound, n, in := nodeBench(t)
		go n.FailWhenRunning(b.job.Ref(in.Attempt), tc.end)
		_, err := b.env.ExecuteActivity(bound.RunTasks, in)
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != tc.kind || !app.NonRetryable() || !strings.Contains(app.Message(), tc.text) {
			t.Errorf("end %.80v: %v, want a failure of type %s with %q that is not retried", tc.end, err, tc.kind, tc.text)
		}
		if app != nil && len(app.Message()) > 1100 {
			t.Errorf("message of %d bytes", len(app.Message()))
		}
	}
}

// A broken context stops the tasks only if its cause is a real cancellation; on any other the tasks run on
// and the next call attaches to them.
func TestRunTasksWatchesButDoesNotOwn(t *testing.T) {
	lost := errors.New("invalid activityID or activity already timed out")
	for _, tc := range []struct {
		name  string
		cause error
		runs  bool
	}{
		{"heartbeat not found", lost, true},
		{"cancellation", temporal.NewCanceledError(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, bound, n, in := nodeBench(t)
			ref := b.job.Ref(in.Attempt)
			broken := func(ctx context.Context, in activities.TaskInput) error {
				ctx, cancel := context.WithCancelCause(ctx)
				go func() { n.AwaitRunning(ref); cancel(tc.cause) }()
				return bound.RunTasks(ctx, in)
			}
			b.env.RegisterActivity(broken)
			if _, err := b.env.ExecuteActivity(broken, in); err == nil {
				t.Fatal("the watcher returned without an error")
			}
			if got := len(n.Running()) == 1; got != tc.runs {
				t.Fatalf("tasks run: %v, want %v", got, tc.runs)
			}
			if !tc.runs {
				return
			}
			go n.FailWhenRunning(ref, job.ErrNodeLeaving)
			if _, err := b.env.ExecuteActivity(bound.RunTasks, in); typeOf(err) != activities.TypeNodeLeaving {
				t.Errorf("the second watcher got %v, want the end of the running deployment", err)
			}
			if got := n.Deployed(); len(got) != 1 {
				t.Errorf("deployed %v, want once", got)
			}
		})
	}
}

// A stop that comes before the deployment is remembered.
func TestStopBeforeRun(t *testing.T) {
	b, bound, n, in := nodeBench(t)
	if _, err := b.env.ExecuteActivity(bound.StopTasks, in); err != nil {
		t.Fatal(err)
	}
	if _, err := b.env.ExecuteActivity(bound.RunTasks, in); typeOf(err) != activities.TypeStale {
		t.Errorf("run after stop: %v, want %s", err, activities.TypeStale)
	}
	if len(n.Deployed()) != 0 {
		t.Error("deployed after the stop")
	}
}

func TestSnapshotActivity(t *testing.T) {
	b, bound, n, in := nodeBench(t)
	plan, err := b.store.Get(t.Context(), snapshot.Names{UID: b.job.UID}.Attempt(in.Attempt), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	n.Deploy(plan)
	order := activities.SnapshotInput{
		Barrier: checkpoint.Barrier{Ref: b.job.Ref(in.Attempt), ID: 2, Remaining: time.Minute}, Hold: 20 * time.Millisecond,
	}
	began := time.Now()
	a := must[checkpoint.Ack](b, bound.Snapshot, order)
	if a.Node != "n1" || time.Since(began) < order.Hold {
		t.Errorf("ack %+v after %v, want one of n1 after the hold of %v", a, time.Since(began), order.Hold)
	}
	n.Decline("disk is full")
	order.Barrier.ID = 3
	if _, err := b.env.ExecuteActivity(bound.Snapshot, order); typeOf(err) != activities.TypeDeclined || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("declined: %v, want %s and the reason", err, activities.TypeDeclined)
	}
	order.Barrier.Remaining = 0
	if _, err := b.env.ExecuteActivity(bound.Snapshot, order); typeOf(err) != activities.TypeDeclined || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("past the deadline: %v, want %s", err, activities.TypeDeclined)
	}
}

// A watch ends when a node is lost, and when the StreamJob is closed.
func TestWatchNodes(t *testing.T) {
	b, bound, _, in := nodeBench(t)
	watch := activities.WatchInput{Job: b.job, Attempt: in.Attempt, Nodes: []job.NodeID{"n1", "n2"}}
	b.cluster.Kill("n2")
	if w := must[activities.Watched](b, bound.WatchNodes, watch); w.Lost != "n2" || !slices.Equal(w.Gone, []job.NodeID{"n2"}) || w.Closed {
		t.Errorf("watched %+v, want n2 lost and no other gone", w)
	}
	b.exec.closed = true
	watch.Nodes = []job.NodeID{"n1"}
	if w := must[activities.Watched](b, bound.WatchNodes, watch); w.Lost != "" || !w.Closed {
		t.Errorf("watched %+v, want the job closed", w)
	}
}
