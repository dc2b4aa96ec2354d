package workflows_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/activities/activitiestest"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
	"github.com/weirstream/weir/workflows"
)

// namespaces are registered when the server starts; every test takes one for itself.
const namespaces = 16

var server struct {
	sync.Mutex
	*testsuite.DevServer
	taken int
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.DevServer != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop Temporal server:", err)
		}
	}
	os.Exit(code)
}

// binary finds the temporal CLI, whose dev server the tests run on.
func binary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("WEIR_TEMPORAL"); path != "" {
		return path
	}
	path, err := exec.LookPath("temporal")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") != "" {
			t.Fatalf("no temporal binary: set WEIR_TEMPORAL or put it on PATH: %v", err)
		}
		t.Skip("no temporal binary: set WEIR_TEMPORAL or put it on PATH")
	}
	return path
}

// dial starts the server once and returns a client of a namespace that no other test uses.
func dial(t *testing.T) (client.Client, string) {
	t.Helper()
	path := binary(t)
	server.Lock()
	defer server.Unlock()
	if server.DevServer == nil {
		var extra []string
		for i := range namespaces {
			extra = append(extra, "--namespace", fmt.Sprintf("test-%d", i))
		}
		for _, a := range []string{activities.AttributeState + "=Keyword", activities.AttributeCheckpoint + "=Int"} {
			extra = append(extra, "--search-attribute", a)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
			ExistingPath: path, LogLevel: "error", ExtraArgs: extra, Stdout: io.Discard, Stderr: io.Discard,
			ClientOptions: &client.Options{Logger: quiet()},
		})
		if err != nil {
			t.Fatalf("start Temporal server: %v", err)
		}
		server.DevServer = s
	}
	if server.taken == namespaces {
		t.Fatalf("more than %d tests want a namespace", namespaces)
	}
	ns := fmt.Sprintf("test-%d", server.taken)
	server.taken++
	c, err := client.Dial(client.Options{HostPort: server.FrontendHostPort(), Namespace: ns, Identity: "test", Logger: quiet()})
	if err != nil {
		t.Fatalf("dial Temporal server: %v", err)
	}
	t.Cleanup(c.Close)
	return c, ns
}

func quiet() sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
}

// world is a Temporal namespace with one control worker and a cluster of nodes, each with its own worker.
type world struct {
	*testing.T
	client  client.Client
	ns      string
	store   *snapshottest.Memory
	cluster *activitiestest.Cluster
	planner *activitiestest.Planner
	nodes   map[job.NodeID]worker.Worker
}

func newWorld(t *testing.T, nodes ...job.NodeID) *world {
	t.Helper()
	c, ns := dial(t)
	w := &world{T: t, client: c, ns: ns, store: snapshottest.NewMemory(), planner: &activitiestest.Planner{}, nodes: map[job.NodeID]worker.Worker{}}
	w.cluster = activitiestest.NewCluster(w.store)
	x := worker.New(c, activities.ControlQueue, worker.Options{})
	workflows.Register(x)
	activities.RegisterControl(x, &activities.Control{
		Planner: w.planner, Transactions: w.cluster.Sinks, Members: w.cluster, Executions: w.executions(),
		OpenStore: w.open, DefaultStorage: "memory://test", Settle: 200 * time.Millisecond,
	})
	w.start(x)
	for _, n := range nodes {
		w.add(n)
	}
	return w
}

func (w *world) executions() activities.Executions {
	return activities.Temporal{Client: w.client, Namespace: w.ns}
}

func (w *world) open(context.Context, string) (snapshot.Store, error) { return w.store, nil }

func (w *world) start(x worker.Worker) {
	w.Helper()
	if err := x.Start(); err != nil {
		w.Fatalf("start worker: %v", err)
	}
	w.Cleanup(x.Stop)
}

// add starts a node with two slots.
func (w *world) add(id job.NodeID) *activitiestest.Node {
	w.Helper()
	n := w.cluster.Add(id, 2)
	x := worker.New(w.client, activities.NodeQueue(id), worker.Options{DisableWorkflowWorker: true})
	activities.RegisterNode(x, &activities.NodeBound{Node: n, Members: w.cluster, Executions: w.executions(), OpenStore: w.open})
	w.nodes[id] = x
	w.start(x)
	return n
}

// submit starts a job as the CLI does: raw JSON.
func (w *world) submit(name string, spec activitiestest.Spec, options any) client.WorkflowRun {
	w.Helper()
	args := []any{spec.JSON()}
	if options != nil {
		args = append(args, options)
	}
	run, err := w.client.ExecuteWorkflow(w.Context(), client.StartWorkflowOptions{ID: name, TaskQueue: activities.ControlQueue}, "StreamJob", args...)
	if err != nil {
		w.Fatalf("start job %s: %v", name, err)
	}
	return run
}

// until asks for the job's status until it satisfies ok.
func (w *world) until(name, what string, ok func(workflows.Status) bool) workflows.Status {
	w.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last workflows.Status
	for {
		v, err := w.client.QueryWorkflow(w.Context(), name, "", workflows.QueryStatus)
		if err == nil && v.Get(&last) == nil && ok(last) {
			return last
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("job %s: never %s; last status %+v, error %v", name, what, last, err)
		}
	}
}

// eventually waits for a condition that no query shows.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("never %s", what)
		}
	}
}

// history is the whole history of one run of a workflow.
func (w *world) history(id, run string) *historypb.History {
	w.Helper()
	h := &historypb.History{}
	it := w.client.GetWorkflowHistory(context.Background(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			w.Fatalf("history of %s: %v", id, err)
		}
		h.Events = append(h.Events, e)
	}
	return h
}

// noFailedTasks asserts that no workflow task of the run failed: that is where nondeterminism shows.
func (w *world) noFailedTasks(id, run string) {
	w.Helper()
	for _, e := range w.history(id, run).Events {
		if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil && a.Cause != enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND {
			w.Errorf("%s: workflow task failed: %v: %s", id, a.Cause, a.GetFailure().GetMessage())
		}
	}
}

func (w *world) closed(id string) bool {
	open, err := w.executions().Open(context.Background(), id, "")
	return err == nil && !open
}
