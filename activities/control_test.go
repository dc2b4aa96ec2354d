package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/activities/activitiestest"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
)

// executions is a Temporal in which everything is open unless closed; it remembers what was cancelled.
type executions struct {
	closed    bool
	cancelled []string
}

func (x *executions) Open(context.Context, string, string) (bool, error) { return !x.closed, nil }
func (x *executions) Await(context.Context, string) (string, error)      { return "node n1 lost", nil }
func (x *executions) Attributes(context.Context) (map[string]string, error) {
	return nil, errors.New("no right")
}
func (x *executions) Cancel(_ context.Context, id string) error {
	x.cancelled = append(x.cancelled, id)
	return nil
}

// bench runs control activities against in-memory parts, one job on two nodes.
type bench struct {
	*testing.T
	env     *testsuite.TestActivityEnvironment
	store   *snapshottest.Memory
	cluster *activitiestest.Cluster
	planner *activitiestest.Planner
	exec    *executions
	control *activities.Control
	clock   time.Time
	job     activities.Job
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, store: snapshottest.NewMemory(), planner: &activitiestest.Planner{}, exec: &executions{}, clock: time.Now()}
	b.cluster = activitiestest.NewCluster(b.store)
	b.cluster.Add("n1", 2)
	b.cluster.Add("n2", 2)
	b.control = &activities.Control{
		Planner: b.planner, Transactions: b.cluster.Sinks, Members: b.cluster, Executions: b.exec,
		OpenStore:      func(context.Context, string) (snapshot.Store, error) { return b.store, nil },
		DefaultStorage: "memory://test", Settle: time.Millisecond, Now: func() time.Time { return b.clock },
	}
	b.env = (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	activities.RegisterControl(b.env, b.control)
	return b
}

// do runs one activity.
func do[T any](b *bench, activity any, in any) (out T, err error) {
	b.Helper()
	v, err := b.env.ExecuteActivity(activity, in)
	if err != nil {
		return out, err
	}
	if err := v.Get(&out); err != nil {
		b.Fatalf("decode result: %v", err)
	}
	return out, nil
}

func must[T any](b *bench, activity any, in any) T {
	b.Helper()
	out, err := do[T](b, activity, in)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func spec() activitiestest.Spec {
	return activitiestest.Spec{Parallelism: 2, Transactional: true, Interval: time.Second, Timeout: time.Minute, Keep: 2}
}

func (b *bench) plan(s activitiestest.Spec, run, from string) (activities.Planned, error) {
	b.Helper()
	in := activities.PlanJobInput{Name: "orders", Run: run, Spec: s.JSON()}
	if from != "" {
		in.Options = json.RawMessage(fmt.Sprintf(`{"from": %q}`, from))
	}
	p, err := do[activities.Planned](b, b.control.PlanJob, in)
	b.job = p.Job
	return p, err
}

// started plans the job and writes chk-0.
func (b *bench) started() {
	b.Helper()
	if _, err := b.plan(spec(), "run-1", ""); err != nil {
		b.Fatal(err)
	}
	if _, err := b.env.ExecuteActivity(b.control.StartPosition, b.job); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) claim(above job.Attempt) activities.Claim {
	b.Helper()
	return must[activities.Claim](b, b.control.ClaimAttempt, activities.ClaimInput{Job: b.job, Above: above})
}

// deployed claims, places and deploys an attempt on the nodes.
func (b *bench) deployed(above job.Attempt) activities.Claim {
	b.Helper()
	c := b.claim(above)
	p := must[activities.Placed](b, b.control.PlaceAttempt, activities.PlaceInput{
		Job: b.job, Attempt: c.Attempt, Restore: c.Newest, First: c.First, Slots: 2,
	})
	if p.Taken || len(p.Nodes) != 2 {
		b.Fatalf("placed %+v, want two nodes", p)
	}
	bytes, err := b.store.Get(b.Context(), snapshot.Names{UID: b.job.UID}.Attempt(c.Attempt), 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range b.cluster.All() {
		n.Deploy(bytes)
	}
	return c
}

// acks has every node take its share of a checkpoint.
func (b *bench) acks(c activities.Claim, id, committed job.CheckpointID) []checkpoint.Ack {
	b.Helper()
	var out []checkpoint.Ack
	for _, n := range b.cluster.All() {
		a, err := n.Snapshot(b.Context(), checkpoint.Barrier{Ref: b.job.Ref(c.Attempt), ID: id, Committed: committed})
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func (b *bench) commit(c activities.Claim, id job.CheckpointID, acks []checkpoint.Ack) activities.Decision {
	b.Helper()
	return must[activities.Decision](b, b.control.CommitCheckpoint, activities.CommitInput{Job: b.job, Attempt: c.Attempt, ID: id, Acks: acks})
}

func (b *bench) sinks(c activities.Claim, id job.CheckpointID) activities.SinksResult {
	b.Helper()
	return must[activities.SinksResult](b, b.control.CommitSinks, activities.SinksInput{Job: b.job, Attempt: c.Attempt, ID: id})
}

func (b *bench) recover(c activities.Claim) activities.Recovery {
	b.Helper()
	return must[activities.Recovery](b, b.control.RecoverSinks, activities.RecoverInput{Job: b.job, Attempt: c.Attempt, Manifest: c.Newest})
}

func (b *bench) marked(id job.CheckpointID) bool {
	b.Helper()
	ok, err := snapshot.IsCommitted(b.Context(), b.store, b.job.UID, id)
	if err != nil {
		b.Fatal(err)
	}
	return ok
}

func typeOf(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

func TestPlanJobRefusesMistakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*activitiestest.Spec, *bench)
		want string
	}{
		{"every problem of the planner", func(s *activitiestest.Spec, _ *bench) { s.Problems = []string{"first", "second"} }, "2 problems:\nfirst\nsecond"},
		{"an interval too short for the nodes", func(s *activitiestest.Spec, _ *bench) { s.Interval = 90 * time.Millisecond }, "90ms is too short for 2 nodes"},
		{"a timeout near the transactions'", func(s *activitiestest.Spec, _ *bench) { s.Timeout = 14 * time.Minute }, "well below the sink's transaction timeout"},
		{"no storage", func(_ *activitiestest.Spec, b *bench) { b.control.DefaultStorage = "" }, "checkpoint.storage"},
	} {
		b := newBench(t)
		s := spec()
		tc.edit(&s, b)
		_, err := b.plan(s, "run", "")
		if typeOf(err) != activities.TypeInvalidSpec || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an invalid spec with %q", tc.name, err, tc.want)
		}
	}
}

// hugePlanner plans the largest job that a spec can describe.
type hugePlanner struct{ activities.Planner }

func (p hugePlanner) Plan(ctx context.Context, spec json.RawMessage) (activities.Plan, error) {
	plan, err := p.Planner.Plan(ctx, spec)
	for i := range 3000 {
		plan.Graph.Vertices = append(plan.Graph.Vertices, job.Vertex{UID: fmt.Sprintf("vertex-%d", i), Parallelism: 4, Operators: []job.Operator{
			{UID: fmt.Sprintf("vertex-%d", i), Kind: "window aggregate", Detail: strings.Repeat("d", 500), State: strings.Repeat("s", 200)},
		}})
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("steps.s%d: ttl (warning): %s", i, strings.Repeat("w", 2000)))
	}
	plan.Summary = strings.Repeat("source, ", 5000)
	return plan, err
}

// What a job carries through Temporal stays small, however large the job.
func TestPlannedStaysSmall(t *testing.T) {
	b := newBench(t)
	b.control.Planner = hugePlanner{b.control.Planner}
	p, err := b.plan(spec(), "run", "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 128<<10 {
		t.Errorf("%d bytes are planned, want at most 128 KiB", len(text))
	}
	if n := len(p.Warnings); n != 21 || !strings.Contains(p.Warnings[20], "2980 more") {
		t.Errorf("%d warnings, the last %q; want 20 and the number of the others", n, p.Warnings[n-1])
	}
}

// A retried PlanJob gives the same answer; another run of the same name has its own uid.
func TestPlanJobIsIdempotent(t *testing.T) {
	b := newBench(t)
	first, err1 := b.plan(spec(), "run-1", "")
	again, err2 := b.plan(spec(), "run-1", "")
	other, err3 := b.plan(spec(), "run-2", "")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if first.Job != again.Job || first.Job.UID == other.Job.UID {
		t.Errorf("jobs %+v, %+v, %+v; want the first two alike and the third of another uid", first.Job, again.Job, other.Job)
	}
}

func TestStartPositionIsResolvedOnce(t *testing.T) {
	b := newBench(t)
	b.started()
	if _, err := b.env.ExecuteActivity(b.control.StartPosition, b.job); err != nil {
		t.Fatal(err)
	}
	if n := b.planner.Starts(); n != 1 {
		t.Errorf("resolved %d times, want once", n)
	}
}

func TestPlanJobRefusesUnknownOptions(t *testing.T) {
	for options, want := range map[string]string{
		`{"form": "latest"}`: `unknown field "form"`, `{"from": "last"}`: `"from" is "last"`, `[]`: "cannot unmarshal",
	} {
		b := newBench(t)
		in := activities.PlanJobInput{Name: "orders", Run: "r", Spec: spec().JSON(), Options: json.RawMessage(options)}
		if _, err := do[activities.Planned](b, b.control.PlanJob, in); typeOf(err) != activities.TypeInvalidSpec || !strings.Contains(err.Error(), want) {
			t.Errorf("options %s: %v, want a refusal with %q", options, err, want)
		}
	}
}

// Going on from the latest checkpoint needs the graph that wrote it.
func TestFromLatestNeedsTheSameGraph(t *testing.T) {
	b := newBench(t)
	b.started()
	uid := b.job.UID
	s := spec()
	s.Parallelism = 3
	if _, err := b.plan(s, "run-2", activities.FromLatest); typeOf(err) != activities.TypeRefused {
		t.Errorf("another parallelism: %v, want a refusal", err)
	}
	s = spec()
	s.Keep = 7 // no part of the graph
	if p, err := b.plan(s, "run-2", activities.FromLatest); err != nil || p.Job.UID != uid {
		t.Errorf("the same graph: %v, uid %s; want the old uid %s", err, p.Job.UID, uid)
	}
}

// Claims take numbers above everything known, one checkpoint id each, and end older attempts.
func TestClaimAttempt(t *testing.T) {
	b := newBench(t)
	b.started()
	first := b.deployed(0)
	if first.Attempt != 1 || first.First != 2 || first.Newest != 0 {
		t.Errorf("first claim %+v, want attempt 1, checkpoints from 2, restoring 0", first)
	}
	next := b.claim(0) // a planner that has forgotten everything
	if next.Attempt != 2 || next.First != 3 {
		t.Errorf("second claim %+v, want attempt 2, checkpoints from 3", next)
	}
	if want := activities.AttemptID("orders", b.job.Ref(1)); len(b.exec.cancelled) != 1 || b.exec.cancelled[0] != want {
		t.Errorf("asked to end %v, want %s", b.exec.cancelled, want)
	}
	if c := b.claim(9); c.Attempt != 10 {
		t.Errorf("claim above 9 is %d", c.Attempt)
	}
	c := must[activities.Claim](b, b.control.ClaimAttempt, activities.ClaimInput{Job: b.job, Above: 1, OnlyIfNewest: true})
	if !c.Superseded {
		t.Errorf("claim of the superseded attempt 1: %+v", c)
	}
}

// What an older attempt has in flight cannot become durable after a claim.
func TestClaimVoidsWhatIsInFlight(t *testing.T) {
	b := newBench(t)
	b.started()
	old := b.deployed(0)
	acks := b.acks(old, 2, 0)
	b.claim(old.Attempt) // takes id 2
	if d := b.commit(old, 2, acks); d.Verdict != activities.Aborted || !strings.Contains(d.Reason, "claimed by attempt 2") {
		t.Errorf("late commit: %+v, want it aborted by the claim", d)
	}
}

func TestPlaceAttempt(t *testing.T) {
	b := newBench(t)
	b.started()
	b.cluster.Add("n3", 2)
	c := b.claim(0)
	in := activities.PlaceInput{Job: b.job, Attempt: c.Attempt, First: c.First, Slots: 2, Avoid: []job.NodeID{"n1"}}
	p := must[activities.Placed](b, b.control.PlaceAttempt, in)
	if len(p.Nodes) != 2 || p.Nodes[0].Node != "n2" || p.Nodes[1].Node != "n3" {
		t.Errorf("placed on %v, want n2 and n3", p.Nodes)
	}
	if again := must[activities.Placed](b, b.control.PlaceAttempt, in); !again.Taken {
		t.Errorf("the number was used twice: %+v", again)
	}
	in.Attempt, in.Slots = 2, 6 // all are needed, the node to avoid too
	if p := must[activities.Placed](b, b.control.PlaceAttempt, in); len(p.Nodes) != 3 {
		t.Errorf("placed on %v, want all three", p.Nodes)
	}
	in.Attempt, in.Slots = 3, 7
	if _, err := do[activities.Placed](b, b.control.PlaceAttempt, in); typeOf(err) != activities.TypeTooFewSlots || !strings.Contains(err.Error(), "needs 7") {
		t.Errorf("seven slots of six: %v", err)
	}
}

func TestAwaitAttemptAndSearchAttributes(t *testing.T) {
	b := newBench(t)
	b.started()
	e := must[activities.AttemptEnded](b, b.control.AwaitAttempt, activities.TaskInput{Job: b.job, Attempt: 4})
	if e.Attempt != 4 || e.UID != b.job.UID || e.Outcome.Cause != "node n1 lost" {
		t.Errorf("attempt ended: %+v", e)
	}
	v, err := b.env.ExecuteActivity(b.control.SearchAttributes)
	var have map[string]string
	if err != nil || v.Get(&have) != nil || len(have) != 0 {
		t.Errorf("without the right to ask: %v, %v; want none and no error", have, err)
	}
}
