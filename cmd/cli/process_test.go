package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/local"
)

// asWeir makes this test program the weir command: for itself, and for the workers that it starts.
const asWeir = "CLI_TEST_AS_WEIR"

func TestMain(m *testing.M) {
	if os.Getenv(asWeir) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// session is a weir command in a process of its own.
type session struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of its output; closed when that ends
	seen  bytes.Buffer
	errs  bytes.Buffer
}

func startWeir(t *testing.T, args ...string) *session {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster; not with -short")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	if _, err := local.FindTemporal(); err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := &session{t: t, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 1000)}
	s.cmd.Env = append(os.Environ(), asWeir+"=1")
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	go func() {
		defer close(s.lines)
		for r := bufio.NewScanner(out); r.Scan(); {
			s.lines <- r.Text()
		}
	}()
	return s
}

// await reads the output until a line has text.
func (s *session) await(text string) {
	s.t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("ended without %q:\n%s%s", text, s.seen.String(), s.errs.String())
			}
			fmt.Fprintln(&s.seen, line)
			if strings.Contains(line, text) {
				return
			}
		case <-limit:
			s.t.Fatalf("no %q yet:\n%s", text, s.seen.String())
		}
	}
}

// end waits for the process and returns its status and the rest of its output.
func (s *session) end() (int, string) {
	s.t.Helper()
	for line := range s.lines {
		fmt.Fprintln(&s.seen, line)
	}
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode(), s.seen.String() + s.errs.String()
}

// children are the processes that s has started.
func (s *session) children() (pids []int) {
	s.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, p := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(p)
			if err != nil {
				s.t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}

// awaitGone waits until none of the processes runs any more.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for _, pid := range pids {
		for alive(pid) {
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("process %d still runs", pid)
			}
		}
	}
}

// alive reports whether a process runs: one that has ended may still wait to be collected.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// TestDemoEndsCleanly stops a demo at moments at which different parts run, and looks for what it left behind.
func TestDemoEndsCleanly(t *testing.T) {
	tests := []struct {
		name, at string
		signal   syscall.Signal
		children int // at least
	}{
		{"Ctrl-C while it starts", "starting 3 workers", syscall.SIGINT, 1},
		{"Ctrl-C while it runs", "checkpoint every", syscall.SIGINT, 4},
		{"kill -9 while it runs", "checkpoint every", syscall.SIGKILL, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := startWeir(t, "demo", "--records", "20000", "--duration", "60s", "--kills", "0", "--dir", dir)
			s.await(tt.at)
			pids := s.children()
			if len(pids) < tt.children {
				t.Fatalf("got children %v, want at least %d", pids, tt.children)
			}
			if err := s.cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			status, out := s.end()
			if tt.signal == syscall.SIGINT && (status != 1 || !strings.Contains(out, "weir: interrupted")) {
				t.Errorf("got status %d, want 1 and a word about the interruption\n%s", status, out)
			}
			awaitGone(t, pids)
		})
	}
}

// TestDemoProves runs the demo at small scale, with kills.
func TestDemoProves(t *testing.T) {
	s := startWeir(t, "demo", "--records", "20000", "--duration", "8s", "--kills", "1", "--dir", t.TempDir())
	s.await("EXACTLY ONCE")
	pids := s.children()
	status, out := s.end()
	for _, want := range []string{"20000 in, 0 lost, 0 doubled", "kill -9 worker", "kill -9 all 3 workers", "--seed", "/namespaces/default/workflows/payments", "temporal workflow query --address"} {
		if !strings.Contains(out, want) {
			t.Errorf("got no %q in\n%s", want, out)
		}
	}
	if status != 0 {
		t.Errorf("got status %d\n%s", status, out)
	}
	awaitGone(t, pids)
}

// TestDevRunsAJob starts a cluster with a job, kills one of its workers, and stops it.
func TestDevRunsAJob(t *testing.T) {
	file := specFile(t, "name: ticks\nsources:\n  events: {nexmark: {rate: 100/s, pace: true}}\nsinks:\n  out: {from: events, discard: {}}\ncheckpoint: {interval: 1s}\n")
	s := startWeir(t, "dev", "--workers", "2", "--temporal-port", "0", "--ui-port", "0", "--kafka-port", "0", "--dir", t.TempDir(), file)
	s.await("started job ticks")
	s.await("export TEMPORAL_ADDRESS=")
	pids := s.children()
	if len(pids) != 3 {
		t.Fatalf("got children %v, want Temporal and two workers", pids)
	}
	for _, victim := range []string{"worker", "server"} {
		if err := syscall.Kill(find(t, pids, victim), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.await("is started again")
	}
	pids = append(pids, s.children()...)
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status, out := s.end(); status != 0 {
		t.Errorf("got status %d, want 0\n%s", status, out)
	}
	awaitGone(t, pids)
}

// find returns the process that was started with the given verb.
func find(t *testing.T, pids []int, verb string) int {
	t.Helper()
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), "\x00"+verb+"\x00") {
			return pid
		}
	}
	t.Fatalf("none of %v is a %s", pids, verb)
	return 0
}
