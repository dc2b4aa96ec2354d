// Package real starts whole clusters for tests: a real Apache Kafka broker, a real Temporal server, a real S3
// server and worker processes. Without their programs a test is skipped, unless WEIR_REQUIRE_REAL is set.
package real

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/workflows"
)

// Cluster is everything that a test of this package needs.
type Cluster struct {
	*local.Stack
	t *testing.T
	// Ctx ends with the test.
	Ctx context.Context
	// Dir holds logs, databases and the bucket.
	Dir    string
	Broker *kafkatest.Broker
	S3     *Gateway
	Client client.Client
	// Binary is the weir command.
	Binary string
	env    []string // of the workers
}

// need skips the test, or fails it if everything real is required.
func need(t testing.TB, err error, what string) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("WEIR_REQUIRE_REAL") != "" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("%s: %v", what, err)
}

// Binary builds the weir command, or takes WEIR_BINARY, and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	if b := os.Getenv("WEIR_BINARY"); b != "" {
		return b
	}
	out := filepath.Join(t.TempDir(), "weir")
	if b, err := exec.Command("go", "build", "-o", out, "github.com/weirstream/weir/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("build weir: %v\n%s", err, b)
	}
	return out
}

// Start starts a cluster with the given number of workers and slots each. env is added to their environment.
func Start(t *testing.T, workers, slots int, env ...string) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	_, err := local.FindTemporal()
	need(t, err, "temporal")
	gateway, err := exec.LookPath("versitygw")
	need(t, err, "versitygw")
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	c := &Cluster{t: t, Ctx: ctx, Dir: dir, Binary: Binary(t)}
	c.env = append([]string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey}, env...)
	c.Broker = kafkatest.StartT(t, kafkatest.Options{})
	c.S3 = startGateway(t, gateway, dir)
	c.Stack, err = local.Start(ctx, local.Options{
		Dir: dir, Workers: workers, Slots: slots, Brokers: []string{c.Broker.Addr()}, Binary: c.Binary,
		Storage: "s3://weir/jobs", S3Endpoint: c.S3.Endpoint(), Env: c.env,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Cleanup(c.logs)
	if c.Client, err = c.Temporal.Dial(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Client.Close)
	return c
}

// logs prints the end of every log of a failed test.
func (c *Cluster) logs() {
	if !c.t.Failed() {
		return
	}
	if keep := os.Getenv("WEIR_E2E_KEEP"); keep != "" {
		_ = os.CopyFS(keep, os.DirFS(c.Dir)) // a copy for whoever looks into it; it may exist already
	}
	c.describe()
	names, _ := filepath.Glob(filepath.Join(c.Dir, "worker-*.log"))
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			continue
		}
		c.t.Logf("== %s\n%s", filepath.Base(n), b[max(0, len(b)-6000):])
	}
}

// describe prints what every open workflow waits for.
func (c *Cluster) describe() {
	bin, err := local.FindTemporal()
	if err != nil || c.Stack == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	run := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, bin, append(args, "--address", c.Temporal.Addr())...).CombinedOutput()
		return string(out)
	}
	list := run("workflow", "list", "--query", `ExecutionStatus = "Running"`)
	c.t.Logf("open workflows:\n%s", list)
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Running" {
			_, pending, _ := strings.Cut(run("workflow", "describe", "--workflow-id", f[1]), "Pending Activities")
			c.t.Logf("%s: pending activities%s", f[1], pending)
		}
	}
}

// StartJob starts a job with the temporal CLI, as users do.
func (c *Cluster) StartJob(name string, spec []byte) {
	c.t.Helper()
	j, err := config.ParseJob("job.yaml", spec)
	if err != nil {
		c.t.Fatal(err)
	}
	file := filepath.Join(c.Dir, name+".json")
	if err := os.WriteFile(file, j.JSON(), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.CLI("workflow", "start", "--type", "StreamJob", "--task-queue", "weir", "--workflow-id", name, "--task-timeout", "5s", "--input-file", file)
}

// CLI runs the temporal CLI against the cluster and returns what it prints.
func (c *Cluster) CLI(args ...string) string {
	c.t.Helper()
	bin, err := local.FindTemporal()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.Ctx, bin, append(args, "--address", c.Temporal.Addr())...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("temporal %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// Status asks the job's workflow.
func (c *Cluster) Status(name string) (workflows.Status, error) {
	var st workflows.Status
	ctx, cancel := context.WithTimeout(c.Ctx, 5*time.Second)
	defer cancel()
	v, err := c.Client.QueryWorkflow(ctx, name, "", workflows.QueryStatus)
	if err != nil {
		return st, err
	}
	return st, v.Get(&st)
}

// Await polls until the condition holds. There is no event to await across processes.
func (c *Cluster) Await(what string, within time.Duration, cond func() bool) {
	c.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			c.t.Fatalf("%s: not within %s", what, within)
		case <-c.Ctx.Done():
			c.t.Fatalf("%s: %v", what, context.Cause(c.Ctx))
		}
	}
}

// AwaitState waits until the job says that it is in a state.
func (c *Cluster) AwaitState(name, state string, within time.Duration) {
	c.t.Helper()
	last := ""
	c.Await(fmt.Sprintf("job %s is %s", name, state), within, func() bool {
		st, err := c.Status(name)
		if now := fmt.Sprint(st.State, " ", st.WaitingFor, " ", err); now != last {
			c.t.Logf("%s: %s", name, now)
			last = now
		}
		return err == nil && st.State == state
	})
}
