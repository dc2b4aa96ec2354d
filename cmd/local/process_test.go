package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helper makes this test program play a child process; see TestMain.
const helper = "LOCAL_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helper) {
	case "":
		os.Exit(m.Run())
	case "obey": // ends on SIGTERM
		fmt.Println("up", os.Getenv("TEMPORAL_NAMESPACE"), os.Getenv("MARK"))
		select {}
	case "die":
		fmt.Println("cannot open the pod bay doors")
		os.Exit(3)
	case "parent": // starts a child, says its pid and waits to be killed
		p := &process{name: "child", path: os.Args[0], env: []string{helper + "=obey"}, log: os.Getenv("CHILD_LOG")}
		if err := p.start(); err != nil {
			panic(err)
		}
		fmt.Println(p.pid())
		select {}
	}
}

func child(t *testing.T, kind string, env ...string) *process {
	t.Helper()
	p := &process{
		name: kind, path: os.Args[0], log: filepath.Join(t.TempDir(), kind+".log"), env: append(env, helper+"="+kind),
	}
	t.Cleanup(p.kill)
	return p
}

// awaitLog waits until the child has written text.
func awaitLog(t *testing.T, p *process, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := p.await(ctx, func(context.Context) error {
		if !strings.Contains(tail(p.log), text) {
			return fmt.Errorf("no %q in the log", text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProcessLivesAndEnds(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(*process)
	}{
		{"stop", func(p *process) { p.stop(20 * time.Second) }},
		{"kill", (*process).kill},
		{"stop of a frozen one", func(p *process) { p.signal(syscall.SIGSTOP); p.stop(100 * time.Millisecond) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			p := child(t, "obey")
			for range 2 { // it can be started again
				if err := p.start(); err != nil {
					t.Fatal(err)
				}
				awaitLog(t, p, "up")
				pid := p.pid()
				end.do(p)
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("process %d after its end: got %v, want %v", pid, err, syscall.ESRCH)
				}
				end.do(p) // a second time does nothing
			}
		})
	}
}

func TestProcessThatDiesIsReportedWithItsLog(t *testing.T) {
	p := child(t, "die")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	err := p.await(t.Context(), func(context.Context) error { return errors.New("not yet") })
	for _, want := range []string{"die ended before it was ready", "exit status 3", "pod bay doors", p.log} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestAwaitSaysWhatWasMissing(t *testing.T) {
	p := child(t, "obey")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := p.await(ctx, func(context.Context) error { return errors.New("the door is closed") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the door is closed") {
		t.Errorf("got %v, want the deadline and the reason", err)
	}
}

func TestProcessNeverStarted(t *testing.T) {
	p := &process{name: "nothing", path: filepath.Join(t.TempDir(), "absent"), log: filepath.Join(t.TempDir(), "log")}
	if err := p.start(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
	p.stop(time.Second)
	p.kill()
	if p.pid() != 0 {
		t.Errorf("got pid %d, want none", p.pid())
	}
}

// TestEnvironmentOfChildren shows that the user's own clusters stay out of reach.
func TestEnvironmentOfChildren(t *testing.T) {
	got := inherited([]string{"HOME=/h", "TEMPORAL_NAMESPACE=prod", "AWS_PROFILE=prod", "WEIR_CONFIG=/etc/weir.yaml", "KAFKA=k:9092"})
	if want := []string{"HOME=/h", "KAFKA=k:9092"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	t.Setenv("TEMPORAL_NAMESPACE", "prod")
	p := child(t, "obey", "MARK=added")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	awaitLog(t, p, "up  added")
}

// TestChildrenDieWithTheirParent kills a parent with SIGKILL, which it cannot notice.
func TestChildrenDieWithTheirParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system has no death signal")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), helper+"=parent", "CHILD_LOG="+filepath.Join(t.TempDir(), "child.log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	awaitGone(t, pid)
}

// awaitGone waits for the end of a process that is not this one's child.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for running(pid) {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// running reports whether a process runs: one that has ended may still wait to be collected.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestPorts(t *testing.T) {
	var p ports
	got, err := p.pickN(50)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != 50 {
		t.Errorf("got %d different ports, want 50", n)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	err = p.take(busy, "Kafka", "kafka-port")
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--kafka-port") {
		t.Errorf("port in use: got %v, want it to say so and to name the flag", err)
	}
	if err := p.take(got[0], "Kafka", "kafka-port"); err == nil {
		t.Error("port given out before: got no error")
	}
}
