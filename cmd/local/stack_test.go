package local

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMissingTemporal(t *testing.T) {
	t.Setenv("WEIR_TEMPORAL", "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	_, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if !errors.Is(err, ErrNoTemporal) || !strings.Contains(err.Error(), "make tool-temporal") {
		t.Errorf("got %v, want %v", err, ErrNoTemporal)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	_, err = Start(t.Context(), Options{Dir: t.TempDir(), UIPort: busy})
	if err == nil || !strings.Contains(err.Error(), "--ui-port") {
		t.Errorf("got %v, want the flag of the port in use", err)
	}
}

// TestWorkersThatDieFailTheStart starts a stack whose worker program ends at once; nothing may stay behind.
func TestWorkersThatDieFailTheStart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Temporal server; not with -short")
	}
	if _, err := FindTemporal(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := Start(ctx, Options{Dir: dir, Workers: 2, Binary: os.Args[0], Env: []string{helper + "=die"}})
	if err == nil || !strings.Contains(err.Error(), "pod bay doors") {
		t.Fatalf("got %v, want the worker's last words", err)
	}
	if pids := children(t); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if _, err := os.Stat(filepath.Join(dir, "worker-0.log")); err != nil {
		t.Errorf("no log is kept: %v", err)
	}
}

// children are the pids of this process's children, of whatever thread.
func children(t *testing.T) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			pids = append(pids, strings.Fields(string(b))...)
		}
	}
	return pids
}

func TestS3(t *testing.T) {
	s, err := StartS3()
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.Endpoint() + "/" + Bucket)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("list the bucket: got %s, want 200", resp.Status)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(s.Endpoint()); err == nil {
		t.Error("the server answers after its end")
	}
}
