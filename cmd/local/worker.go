package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/dataplane/node"
)

// WorkerOptions are what a worker process of the stack is told.
type WorkerOptions struct {
	// Binary is the weir command; this program itself if empty.
	Binary string
	Dir    string
	Slots  int
	// Temporal is the server's host:port.
	Temporal string
	// Storage is the snapshot store's URL; S3Endpoint its server, with keys in the environment variables
	// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Storage, S3Endpoint string
	// Env is added to the environment.
	Env []string
}

// Worker is a worker in a child process. It keeps its ports over restarts.
type Worker struct {
	Index int
	proc  *process
	http  int
}

// newWorker prepares worker i, which listens on gossip[i] and joins the others.
func newWorker(i int, o WorkerOptions, gossip []int, httpPort int) (*Worker, error) {
	bin := o.Binary
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the weir command: %w", err)
		}
		bin = self
	}
	w := &Worker{Index: i, http: httpPort}
	args := []string{
		"worker", "--data-dir", filepath.Join(o.Dir, "data"), "--slots", fmt.Sprint(o.Slots), "--storage", o.Storage,
		"--cluster-bind", loopback(gossip[i]), "--exchange-bind", "127.0.0.1:0", "--http-bind", loopback(httpPort),
	}
	var others []string
	for k, port := range gossip {
		if k != i {
			others = append(others, loopback(port))
		}
	}
	if len(others) > 0 {
		args = append(args, "--cluster-join", strings.Join(others, ","))
	}
	if o.S3Endpoint != "" {
		args = append(args, "--s3-endpoint", o.S3Endpoint, "--s3-path-style", "--s3-region", "us-east-1")
	}
	w.proc = &process{
		name: fmt.Sprintf("worker %d", i), path: bin, args: args, log: filepath.Join(o.Dir, fmt.Sprintf("worker-%d.log", i)),
		env: append([]string{"TEMPORAL_ADDRESS=" + o.Temporal}, o.Env...),
	}
	return w, nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// HTTP is the address of the worker's HTTP server.
func (w *Worker) HTTP() string { return "http://" + loopback(w.http) }

// Log is the file of the worker's output.
func (w *Worker) Log() string { return w.proc.log }

// Pid is the process id.
func (w *Worker) Pid() int { return w.proc.pid() }

// SetEnv sets environment variables, over those of the options, for the next start of the process.
func (w *Worker) SetEnv(env ...string) { w.proc.setExtra(env) }

// Start starts the process and waits until it is ready.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.proc.start(); err != nil {
		return err
	}
	return w.Ready(ctx)
}

// Ready waits until the worker takes work.
func (w *Worker) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return w.proc.await(ctx, func(ctx context.Context) error {
		_, err := get(ctx, w.HTTP()+"/readyz")
		return err
	})
}

// Kill ends the process with SIGKILL.
func (w *Worker) Kill() { w.proc.kill() }

// Signal sends a signal to the process, such as SIGSTOP.
func (w *Worker) Signal(sig syscall.Signal) { w.proc.signal(sig) }

// Stop ends the process as a service manager would, and kills it after grace.
func (w *Worker) Stop(grace time.Duration) { w.proc.stop(grace) }

// Ended is closed when the process that was started last has ended.
func (w *Worker) Ended() <-chan struct{} { return w.proc.ended() }

// Alive reports whether the process runs.
func (w *Worker) Alive() bool {
	select {
	case <-w.proc.ended():
		return false
	default:
		return w.proc.pid() != 0
	}
}

// Figures asks the worker for the fresh figures of its attempts.
func (w *Worker) Figures(ctx context.Context) ([]node.Figures, error) {
	b, err := get(ctx, w.HTTP()+"/attempts")
	if err != nil {
		return nil, err
	}
	var f []node.Figures
	return f, json.Unmarshal(b, &f)
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s: %s", url, resp.Status, b)
	}
	return b, err
}
