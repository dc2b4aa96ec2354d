package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/workflows"
)

// script is a test environment in which every activity answers as the test says, and notes that it was
// called. Fields that are nil answer that all is well.
type script struct {
	*testing.T
	env *testsuite.TestWorkflowEnvironment

	claim   func(activities.ClaimInput) (activities.Claim, error)
	recover func(activities.RecoverInput) (activities.Recovery, error)
	place   func(activities.PlaceInput) (activities.Placed, error)
	commit  func(context.Context, activities.CommitInput) (activities.Decision, error)
	abort   func(activities.AbortInput) (activities.Decision, error)
	sinks   func(context.Context, activities.SinksInput) (activities.SinksResult, error)
	share   func(ctx context.Context, node string, in activities.SnapshotInput) (checkpoint.Ack, error)
	run     func(ctx context.Context, node string) error
	watch   func(context.Context) (activities.Watched, error)
	stopped func(node string)
	deaf    bool // StopTasks is held open: no node answers
	chk     func(workflow.Context, workflows.CheckpointInput) (workflows.CheckpointRecord, error)
	planned activities.Planned

	toldAt  time.Time // when an Attempt told its StreamJob something, on the workflow's clock
	mu      sync.Mutex
	calls   []string
	pending map[string][]byte // task tokens of activities that are held open
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{T: t, env: (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment(), pending: map[string][]byte{}}
	s.env.SetTestTimeout(10 * time.Second)
	s.planned = activities.Planned{
		Job: testJob, Slots: 2, Summary: "test",
		Options: activities.Options{Interval: 10 * time.Second, Timeout: time.Minute, Keep: 3, Aligned: true, TxTimeout: time.Hour},
	}
	s.env.RegisterActivity(&fakeControl{s})
	s.env.RegisterActivity(&fakeNode{s})
	return s
}

var testJob = activities.Job{Name: "default-test-workflow-id", Run: "r", UID: "u1", Storage: "memory://", Spec: "u1/spec-0"}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// called lists the calls that begin with one of the prefixes, in order.
func (s *script) called(prefixes ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.calls {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c, p) }) {
			out = append(out, c)
		}
	}
	return out
}

func (s *script) want(what string, got []string, want ...string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// hold keeps an activity open until complete is called with the same name.
func (s *script) hold(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[name] = activity.GetInfo(ctx).TaskToken
	return activity.ErrResultPending
}

func (s *script) complete(name string, result any, err error) {
	s.Helper()
	s.mu.Lock()
	token := s.pending[name]
	s.mu.Unlock()
	if token == nil {
		s.Errorf("activity %s is not open", name)
		return
	}
	if err := s.env.CompleteActivity(token, result, err); err != nil {
		s.Errorf("complete %s: %v", name, err)
	}
}

// at does something at a time of the workflow's clock.
func (s *script) at(d time.Duration, do func()) { s.env.RegisterDelayedCallback(do, d) }

// nodeOf is the node whose queue an activity was scheduled on.
func nodeOf(ctx context.Context) string {
	return strings.TrimPrefix(activity.GetInfo(ctx).TaskQueue, "weir-node-")
}

func failureOf(kind, message string) error {
	return temporal.NewNonRetryableApplicationError(message, kind, nil)
}

type fakeControl struct{ s *script }

func (f *fakeControl) PlanJob(_ context.Context, in activities.PlanJobInput) (activities.Planned, error) {
	f.s.note("plan %s", in.Name)
	return f.s.planned, nil
}

func (f *fakeControl) StartPosition(context.Context, activities.Job) error { return nil }

func (f *fakeControl) ClaimAttempt(_ context.Context, in activities.ClaimInput) (activities.Claim, error) {
	f.s.note("claim above %d", in.Above)
	if f.s.claim != nil {
		return f.s.claim(in)
	}
	n := job.CheckpointID(in.Above) * 100
	return activities.Claim{Attempt: in.Above + 1, Newest: n, First: n + 2}, nil
}

func (f *fakeControl) RecoverSinks(_ context.Context, in activities.RecoverInput) (activities.Recovery, error) {
	f.s.note("recover %d under %d", in.Manifest, in.Attempt)
	if f.s.recover != nil {
		return f.s.recover(in)
	}
	return activities.Recovery{Verdict: activities.Recovered}, nil
}

func (f *fakeControl) FallBack(_ context.Context, in activities.FallBackInput) (activities.FellBack, error) {
	f.s.note("fall back behind %d as %d", in.Lost, in.ID)
	return activities.FellBack{From: in.Lost - 1}, nil
}

func (f *fakeControl) PlaceAttempt(_ context.Context, in activities.PlaceInput) (activities.Placed, error) {
	f.s.note("place %d from %d", in.Attempt, in.Restore)
	if f.s.place != nil {
		return f.s.place(in)
	}
	return activities.Placed{Nodes: []job.NodeSlot{{Node: "n1"}, {Node: "n2"}}, Watchers: []job.NodeID{"n3", "n4"}}, nil
}

func (f *fakeControl) CommitCheckpoint(ctx context.Context, in activities.CommitInput) (activities.Decision, error) {
	f.s.note("commit %d with %d acks", in.ID, len(in.Acks))
	if f.s.commit != nil {
		return f.s.commit(ctx, in)
	}
	return activities.Decision{Verdict: activities.Durable, Transactions: 2}, nil
}

func (f *fakeControl) AbortCheckpoint(_ context.Context, in activities.AbortInput) (activities.Decision, error) {
	f.s.note("abort %d: %s", in.ID, in.Reason)
	if f.s.abort != nil {
		return f.s.abort(in)
	}
	return activities.Decision{Verdict: activities.Aborted, Reason: in.Reason}, nil
}

func (f *fakeControl) CommitSinks(ctx context.Context, in activities.SinksInput) (activities.SinksResult, error) {
	f.s.note("sinks %d", in.ID)
	if f.s.sinks != nil {
		return f.s.sinks(ctx, in)
	}
	return activities.SinksResult{Committed: true}, nil
}

func (f *fakeControl) Retain(_ context.Context, in activities.RetentionInput) (activities.Retention, error) {
	f.s.note("retain %d", in.Keep)
	return activities.Retention{Floor: 3}, nil
}

func (f *fakeControl) AwaitAttempt(ctx context.Context, in activities.TaskInput) (activities.AttemptEnded, error) {
	return activities.AttemptEnded{}, f.s.hold(ctx, fmt.Sprintf("await %d", in.Attempt))
}

func (f *fakeControl) SearchAttributes(context.Context) (map[string]string, error) { return nil, nil }

type fakeNode struct{ s *script }

func (f *fakeNode) RunTasks(ctx context.Context, in activities.TaskInput) error {
	n := nodeOf(ctx)
	f.s.note("run %s", n)
	if f.s.run != nil {
		return f.s.run(ctx, n)
	}
	return f.s.hold(ctx, "run "+n)
}

func (f *fakeNode) StopTasks(ctx context.Context, in activities.TaskInput) error {
	n := nodeOf(ctx)
	f.s.note("stop %s", n)
	if f.s.stopped != nil {
		f.s.stopped(n)
	}
	if f.s.deaf {
		return f.s.hold(ctx, "stop "+n)
	}
	return nil
}

func (f *fakeNode) Snapshot(ctx context.Context, in activities.SnapshotInput) (checkpoint.Ack, error) {
	n := nodeOf(ctx)
	if f.s.share != nil {
		return f.s.share(ctx, n, in)
	}
	return checkpoint.Ack{Node: job.NodeID(n)}, nil
}

func (f *fakeNode) AwaitEnd(ctx context.Context, in activities.TaskInput) error {
	return f.s.hold(ctx, "end "+nodeOf(ctx))
}

func (f *fakeNode) WatchNodes(ctx context.Context, in activities.WatchInput) (activities.Watched, error) {
	f.s.note("watch on %s", nodeOf(ctx))
	if f.s.watch != nil {
		return f.s.watch(ctx)
	}
	return activities.Watched{}, f.s.hold(ctx, "watch "+nodeOf(ctx))
}

// anything matches every argument of a mocked signal (mock.Anything of the SDK's test environment).
const anything = "mock.Anything"

// decodeArg reads one argument that a run hands to the next.
func decodeArg(next *workflow.ContinueAsNewError, i int, into any) error {
	payloads := next.Input.GetPayloads()
	if i >= len(payloads) {
		return fmt.Errorf("%d arguments", len(payloads))
	}
	return converter.GetDefaultDataConverter().FromPayload(payloads[i], into)
}
