package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// For is the same cluster for a subtest, which then fails itself.
func (c *Cluster) For(t *testing.T) *Cluster {
	sub := *c
	sub.t = t
	return &sub
}

// Weir runs a weir command against the cluster and returns what it prints and how it ended.
func (c *Cluster) Weir(args ...string) (string, error) {
	cmd := exec.CommandContext(c.Ctx, c.Binary, args...)
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+c.Temporal.Addr(), "TEMPORAL_CONFIG_FILE="+filepath.Join(c.Dir, "temporal.toml"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Details are a workflow's current details, which the UI shows.
func (c *Cluster) Details(name string) string {
	c.t.Helper()
	var m struct {
		QueryResult []struct{ CurrentDetails string }
	}
	if err := json.Unmarshal([]byte(c.CLI("workflow", "metadata", "--workflow-id", name, "-o", "json")), &m); err != nil || len(m.QueryResult) != 1 {
		c.t.Fatalf("metadata of %s: %v", name, err)
	}
	return m.QueryResult[0].CurrentDetails
}

// History is everything that Temporal stores about a workflow, as JSON.
func (c *Cluster) History(name string) string {
	c.t.Helper()
	return c.CLI("workflow", "show", "--workflow-id", name, "-o", "json")
}

// Get asks a worker's HTTP server and returns the status and body; 0 if it does not answer.
func Get(ctx context.Context, url string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// Process is a worker beside those of the stack, which may be told something else.
type Process struct {
	cmd    *exec.Cmd
	log    string
	http   string
	exited chan struct{}
}

// ProcessOptions are what such a worker is told.
type ProcessOptions struct {
	Name  string // of its log and data
	Slots int
	// Temporal is the server's address; the cluster's if empty.
	Temporal string
	// Args are added to those of the other workers and win over them.
	Args []string
	// Alone keeps it from joining the others.
	Alone bool
}

// StartProcess starts a worker and does not wait for it. It is killed with the test.
func (c *Cluster) StartProcess(o ProcessOptions) *Process {
	c.t.Helper()
	if o.Temporal == "" {
		o.Temporal = c.Temporal.Addr()
	}
	ports := freePorts(c.t, 2)
	p := &Process{log: filepath.Join(c.Dir, o.Name+".log"), http: ports[1], exited: make(chan struct{})}
	args := []string{
		"worker", "--data-dir", filepath.Join(c.Dir, "data"), "--slots", fmt.Sprint(o.Slots), "--storage", c.Storage,
		"--cluster-bind", ports[0], "--exchange-bind", "127.0.0.1:0", "--http-bind", p.http,
		"--s3-endpoint", c.S3.Endpoint(), "--s3-path-style", "--s3-region", "us-east-1",
	}
	if !o.Alone {
		args = append(args, "--cluster-join", c.gossip())
	}
	log, err := os.Create(p.log)
	if err != nil {
		c.t.Fatal(err)
	}
	p.cmd = exec.Command(c.Binary, append(args, o.Args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(append(os.Environ(), "TEMPORAL_ADDRESS="+o.Temporal, "KAFKA="+c.Brokers[0],
		"TEMPORAL_CONFIG_FILE="+filepath.Join(c.Dir, "temporal.toml")), c.env...)
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ExitCode tells
		log.Close()
		close(p.exited)
	}()
	c.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if c.t.Failed() {
			c.t.Logf("== %s\n%s", o.Name, p.Log())
		}
	})
	return p
}

// gossip is the address at which a living member of the cluster is found.
func (c *Cluster) gossip() string {
	var members []struct{ Status, Gossip string }
	_, body := Get(c.Ctx, c.Workers[0].HTTP()+"/members")
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		c.t.Fatalf("members of the cluster: %v: %s", err, body)
	}
	for _, m := range members { // those that ended are listed for a while
		if m.Status == "alive" {
			return m.Gossip
		}
	}
	c.t.Fatalf("no member of the cluster is alive: %s", body)
	return ""
}

// Log is what the process has printed.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// HTTP is the address of its HTTP server.
func (p *Process) HTTP() string { return "http://" + p.http }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Exit waits for its end and returns the exit status, -1 if it was killed.
func (p *Process) Exit(within time.Duration) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(within):
		return 0, errors.New("it still runs")
	}
}

// freePorts returns n addresses of loopback on which nothing listens.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out[i] = l.Addr().String()
	}
	return out
}
