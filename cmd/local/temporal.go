package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// ErrNoTemporal says that the temporal CLI is missing.
var ErrNoTemporal = errors.New("the temporal command is not on the PATH: make tool-temporal builds it, or see https://docs.temporal.io/cli")

// Temporal is a development server in a child process.
type Temporal struct {
	Port, UIPort int
	proc         *process
}

// FindTemporal returns the path of the temporal CLI: WEIR_TEMPORAL, or from the PATH.
func FindTemporal() (string, error) {
	if p := os.Getenv("WEIR_TEMPORAL"); p != "" {
		return p, nil
	}
	if p, err := exec.LookPath("temporal"); err == nil {
		return p, nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		if p := filepath.Join(home, "go", "bin", "temporal"); isFile(p) {
			return p, nil
		}
	}
	return "", ErrNoTemporal
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

// StartTemporal starts a server whose database lies in dir, so that it can be killed and restarted. The database survives
// the server, not the machine: a development server that waits for the disk at every step takes half as long again.
func StartTemporal(ctx context.Context, dir string, port, uiPort int) (*Temporal, error) {
	bin, err := FindTemporal()
	if err != nil {
		return nil, err
	}
	t := &Temporal{Port: port, UIPort: uiPort}
	t.proc = &process{
		name: "temporal server", path: bin, log: filepath.Join(dir, "temporal.log"),
		args: []string{
			"server", "start-dev", "--ip", "127.0.0.1", "--port", fmt.Sprint(port), "--ui-port", fmt.Sprint(uiPort),
			"--db-filename", filepath.Join(dir, "temporal.db"), "--sqlite-pragma", "synchronous=off", "--log-level", "warn",
			"--search-attribute", "WeirJobState=Keyword", "--search-attribute", "WeirJobUid=Keyword",
			"--search-attribute", "WeirLastCheckpointId=Int", "--search-attribute", "WeirLagRecords=Int",
			"--search-attribute", "WeirLastCheckpointAt=Datetime",
		},
	}
	return t, t.Start(ctx)
}

// Addr is the server's host:port.
func (t *Temporal) Addr() string { return fmt.Sprintf("127.0.0.1:%d", t.Port) }

// UI is the address of the web interface.
func (t *Temporal) UI() string { return fmt.Sprintf("http://127.0.0.1:%d", t.UIPort) }

// Ended is closed when the server has ended.
func (t *Temporal) Ended() <-chan struct{} { return t.proc.ended() }

// Log is the file of the server's output.
func (t *Temporal) Log() string { return t.proc.log }

// Start starts the server, again if it has ended, on its database, and waits until it answers.
func (t *Temporal) Start(ctx context.Context) error {
	if err := t.proc.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return t.proc.await(ctx, func(ctx context.Context) error {
		c, err := t.Dial(ctx)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// Dial connects to the server's default namespace.
func (t *Temporal) Dial(ctx context.Context) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort: t.Addr(), Namespace: client.DefaultNamespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
}

// Pid is the process id.
func (t *Temporal) Pid() int { return t.proc.pid() }

// Kill ends the server with SIGKILL.
func (t *Temporal) Kill() { t.proc.kill() }

// Stop ends the server, with SIGKILL if it takes long: its database survives that.
func (t *Temporal) Stop() { t.proc.stop(time.Second) }
