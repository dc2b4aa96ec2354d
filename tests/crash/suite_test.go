package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/s3"
	"github.com/weirstream/weir/workflows"
)

// suite is what the cases share: a Temporal server, an object store, and places for workers. A case brings
// its own Kafka and starts the workers anew, with its rules.
type suite struct {
	ctx    context.Context
	stack  *local.Stack
	store  snapshot.Store
	client client.Client
	cases  int
}

func startSuite(t *testing.T) *suite {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	if _, err := local.FindTemporal(); err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := &suite{ctx: t.Context()}
	objects, err := local.StartS3()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Stop(context.Background()) })
	cfg := s3.Config{
		Bucket: local.Bucket, Prefix: "jobs", Endpoint: objects.Endpoint(), Region: "us-east-1", PathStyle: true,
		AccessKey: "crash", SecretKey: "crash-test",
	}
	if s.store, err = s3.Open(s.ctx, cfg); err != nil {
		t.Fatal(err)
	}
	s.stack, err = local.Start(s.ctx, local.Options{
		Dir: t.TempDir(), Workers: 3, Slots: 2, Binary: os.Getenv("WEIR_BINARY"),
		Brokers: []string{"127.0.0.1:1"}, // each case has its own
		Storage: "s3://" + cfg.Bucket + "/" + cfg.Prefix, S3Endpoint: cfg.Endpoint,
		Env: []string{"AWS_ACCESS_KEY_ID=" + cfg.AccessKey, "AWS_SECRET_ACCESS_KEY=" + cfg.SecretKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stack.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if s.client, err = s.stack.Temporal.Dial(s.ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// restart kills every worker and starts all with an environment of a case.
func (s *suite) restart(t *testing.T, env ...string) {
	t.Helper()
	for _, w := range s.stack.Workers {
		w.Kill()
		w.SetEnv(env...)
	}
	var wg sync.WaitGroup
	for _, w := range s.stack.Workers {
		wg.Go(func() {
			if err := w.Start(s.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// supervise starts a worker again whenever it has ended, as a service manager does, until ctx ends.
func supervise(ctx context.Context, w *local.Worker) {
	for {
		select {
		case <-w.Ended():
			_ = w.Start(ctx) // it may be killed before it is ready: then once more
		case <-ctx.Done():
			return
		}
	}
}

// status asks the job, shortly: right after a crash there may be nobody to answer.
func (s *suite) status(name string) (workflows.Status, error) {
	var st workflows.Status
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	v, err := s.client.QueryWorkflow(ctx, name, "", workflows.QueryStatus)
	if err != nil {
		return st, err
	}
	return st, v.Get(&st)
}

// holder is the process that runs an activity of a workflow; 0 if none does.
func (s *suite) holder(workflow, activity string) int {
	d, err := s.client.DescribeWorkflow(s.ctx, workflow, "")
	if err != nil {
		return 0
	}
	for _, a := range d.RawResponse.GetPendingActivities() {
		var pid int
		if a.GetActivityType().GetName() == activity && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
			if _, err := fmt.Sscanf(a.GetLastWorkerIdentity(), "%d@", &pid); err == nil {
				return pid
			}
		}
	}
	return 0
}

// rules is the directory that the fail points of a case's workers share.
type rules struct {
	dir  string
	list []string
}

func newRules(t *testing.T, list ...string) *rules {
	return &rules{dir: t.TempDir(), list: list}
}

func (r *rules) env() []string {
	return []string{
		failpoint.EnvPoints + "=" + strings.Join(r.list, ","), failpoint.EnvDir + "=" + r.dir,
		failpoint.EnvLog + "=" + filepath.Join(r.dir, "log"),
	}
}

func (r *rules) touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fired returns the process in which rule i acted; 0: none yet.
func (r *rules) fired(i int) int {
	b, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var pid, rule int
		if n, _ := fmt.Sscan(line, &pid, &rule); n == 2 && rule == i {
			return pid
		}
	}
	return 0
}
