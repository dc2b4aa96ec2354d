package failpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// arm arms points for one test and returns the signals that this process would have got.
func arm(t *testing.T, env map[string]string) *[]syscall.Signal {
	t.Helper()
	on, err := Arm(func(k string) string { return env[k] })
	if err != nil || !on {
		t.Fatalf("Arm(%v) = %v, %v, want true", env, on, err)
	}
	var got []syscall.Signal
	armed.Load().die = func(s syscall.Signal) { got = append(got, s) }
	t.Cleanup(func() { armed.Store(nil) })
	return &got
}

func TestNothingHappensUnarmed(t *testing.T) {
	on, err := Arm(func(string) string { return "" })
	if on || err != nil || Armed() {
		t.Fatalf("Arm without rules = %v, %v, Armed %v, want false", on, err, Armed())
	}
	Hit("upload.before")
	if err := Err("endtxn.reply-lost"); err != nil {
		t.Errorf("Err unarmed = %v, want nil", err)
	}
	if n := testing.AllocsPerRun(100, func() { Hit("upload.before") }); n != 0 {
		t.Errorf("an unarmed point allocates %v times, want 0", n)
	}
}

func TestActsAtTheNthHit(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	got := arm(t, map[string]string{EnvPoints: "upload.before=kill@2, upload.after=stop", EnvLog: log})
	Hit("upload.before")
	Hit("part.before-put")
	if len(*got) != 0 {
		t.Fatalf("after the first hit: %v, want nothing", *got)
	}
	Hit("upload.before")
	Hit("upload.before")
	Hit("upload.after")
	if len(*got) != 2 || (*got)[0] != syscall.SIGKILL || (*got)[1] != syscall.SIGSTOP {
		t.Errorf("signals %v, want SIGKILL once and SIGSTOP once", *got)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(string(b)), "\n"); len(lines) != 2 || !strings.HasSuffix(lines[0], " upload.before kill") {
		t.Errorf("log %q, want a line for each that acted", b)
	}
}

func TestInstances(t *testing.T) {
	got := arm(t, map[string]string{EnvPoints: "activity.before-completion[Retain]=kill"})
	HitEach("activity.before-completion", "CommitSinks")
	if len(*got) != 0 {
		t.Fatalf("another instance acted: %v", *got)
	}
	HitEach("activity.before-completion", "Retain")
	if len(*got) != 1 {
		t.Errorf("signals %v, want one", *got)
	}
}

func TestErrorIsInjected(t *testing.T) {
	arm(t, map[string]string{EnvPoints: "endtxn.reply-lost=error@1"})
	if err := Err("endtxn.reply-lost"); !errors.Is(err, ErrInjected) {
		t.Errorf("first call: %v, want an injected error", err)
	}
	if err := Err("endtxn.reply-lost"); err != nil {
		t.Errorf("second call: %v, want nil", err)
	}
}

// TestSharedDirectory is what several processes have in common: nothing acts before it is armed, and one
// process alone acts.
func TestSharedDirectory(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{EnvPoints: "marker.after-put=kill", EnvDir: dir}
	got := arm(t, env)
	Hit("marker.after-put")
	if len(*got) != 0 {
		t.Fatalf("acted before it was armed: %v", *got)
	}
	touch(t, filepath.Join(dir, ArmedFile))
	Hit("marker.after-put")
	second := arm(t, env) // as another process
	Hit("marker.after-put")
	if len(*got) != 1 || len(*second) != 0 {
		t.Errorf("signals %v and %v, want one in the first process alone", *got, *second)
	}
}

func TestPauseWaitsForTheFile(t *testing.T) {
	dir := t.TempDir()
	touch(t, filepath.Join(dir, ArmedFile))
	log := filepath.Join(dir, "log")
	arm(t, map[string]string{EnvPoints: "part.after-put=pause", EnvDir: dir, EnvLog: log})
	passed := make(chan struct{})
	go func() {
		Hit("part.after-put")
		close(passed)
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !exists(log) { // it is about to wait
		<-tick.C
	}
	select {
	case <-passed:
		t.Fatal("passed without the file")
	default:
	}
	touch(t, filepath.Join(dir, ContinueFile(0)))
	<-passed
}

func touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBadRulesAreRefused(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"nowhere=kill", "no such point"},
		{"upload.before", "want name=action"},
		{"upload.before=explode", "no such action"},
		{"upload.before=kill@0", "number of a hit"},
		{"upload.before=kill@x", "number of a hit"},
		{"upload.before=kill(3s)", "takes no argument"},
		{"upload.before=sleep", "want sleep"},
		{"upload.before=sleep(-1s)", "want sleep"},
		{"upload.before=error", "cannot return an error"},
		{"upload.before[x]=kill", "no instances"},
		{"activity.after-completion[=kill", "name[instance]"},
		{"upload.before=pause", EnvDir},
		{"upload.before=kill,", "want name=action"},
	} {
		on, err := Arm(func(k string) string { return map[string]string{EnvPoints: tc.text}[k] })
		if on || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Arm(%q) = %v, %v, want an error with %q", tc.text, on, err, tc.want)
		}
		armed.Store(nil)
	}
}

func BenchmarkUnarmed(b *testing.B) {
	for b.Loop() {
		Hit("upload.before")
	}
}
