package cli

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStrikes(t *testing.T) {
	plan := func(seed uint64) []strike { return strikes(rand.New(rand.NewPCG(seed, 1)), 3, 30*time.Second) }
	for seed := range uint64(200) {
		p := plan(seed)
		if len(p) != 4 || !p[3].all || slices.ContainsFunc(p[:3], func(s strike) bool { return s.all }) {
			t.Fatalf("seed %d: got %+v, want three single kills, then all", seed, p)
		}
		for i, s := range p {
			if i > 0 && s.after < p[i-1].after || s.after < 3*time.Second || s.after > 26*time.Second || s.down <= 0 || s.down > 2*time.Second {
				t.Fatalf("seed %d: got %+v, want them in order within the run", seed, p)
			}
		}
	}
	if !slices.Equal(plan(5), plan(5)) || slices.Equal(plan(5), plan(6)) {
		t.Error("a seed must decide the plan, and different ones differently")
	}
	if got := strikes(rand.New(rand.NewPCG(1, 1)), 0, time.Minute); got != nil {
		t.Errorf("no kills: got %+v", got)
	}
}

func TestDemoOptions(t *testing.T) {
	o := demoOptions{records: 6000, length: 30 * time.Second, state: "pebble"}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.rate != 200 || o.length != 30*time.Second || o.interval != time.Second || o.seed == 0 {
		t.Errorf("got %+v, want 200 a second, an interval of 1s and a seed", o)
	}
	o = demoOptions{records: 6000, rate: 100, length: 30 * time.Second, state: "memory", atLeastOnce: true, seed: 9}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.length != time.Minute || o.interval <= time.Second || o.seed != 9 {
		t.Errorf("got %+v, want a minute, a longer interval and seed 9", o)
	}
}

func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	plain := &terminal{out: &out}
	plain.progress("one")
	plain.printf("said %d", 2)
	plain.progress("three")
	plain.settle()
	if got, want := out.String(), "one\nsaid 2\nthree\n"; got != want {
		t.Errorf("not a terminal: got %q, want %q", got, want)
	}
	out.Reset()
	live := &terminal{out: &out, live: true}
	live.progress("one")
	live.printf("said")
	live.progress("three")
	live.settle()
	live.printf("end")
	if got, want := out.String(), "one\r\x1b[Ksaid\none\r\x1b[Kthree\nend\n"; got != want {
		t.Errorf("terminal: got %q, want %q", got, want)
	}
	if isTerminal(&out) {
		t.Error("a buffer is no terminal")
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestLogDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	failure := errors.New("failed")
	tests := []struct {
		name  string
		err   error
		empty bool
		kept  bool
	}{
		{"success", nil, false, false},
		{"interrupted", errInterrupted, false, false},
		{"failure before there is a log", failure, true, false},
		{"failure", failure, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var dir string
			drop, err := logDir(&dir, "x-")
			if err != nil {
				t.Fatal(err)
			}
			if !tt.empty {
				if err := os.WriteFile(filepath.Join(dir, "log"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var errs bytes.Buffer
			if got := drop(streams{err: &errs}, tt.err); !errors.Is(got, tt.err) {
				t.Errorf("got %v, want %v", got, tt.err)
			}
			_, err = os.Stat(dir)
			if kept := err == nil; kept != tt.kept || strings.Contains(errs.String(), dir) != tt.kept {
				t.Errorf("kept %v, said %q, want kept %v", kept, errs.String(), tt.kept)
			}
		})
	}
	asked := t.TempDir()
	drop, err := logDir(&asked, "x-")
	if err != nil {
		t.Fatal(err)
	}
	if err := drop(streams{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(asked); err != nil {
		t.Errorf("a directory that was asked for: %v, want it kept", err)
	}
}
