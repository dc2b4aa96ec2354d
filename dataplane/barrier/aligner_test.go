package barrier

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

var rewrite = flag.Bool("rewrite", false, "write what the aligner does into the scripts instead of comparing")

var testRef = job.Ref{UID: "0a", Attempt: 3}

// TestScripts runs the scenarios in testdata: '#' lines tell the story, lines at the margin are events,
// indented lines are the effects that must follow, in order.
//
//	new channels=N [last=N]
//	arrive CHANNEL n=N [unaligned] [attempt=N]
//	end CHANNEL | expire N | giveup N
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %d found", err, len(files))
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(src))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(src) {
				t.Errorf("got\n%s\nwant\n%s", got, src)
			}
		})
	}
}

func play(t *testing.T, script string) string {
	var out strings.Builder
	var a *Aligner
	for sc := bufio.NewScanner(strings.NewReader(script)); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, "  ") {
			continue // an expectation; written again below
		}
		out.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if f[0] == "new" {
			var n, last int
			if _, err := fmt.Sscanf(line+" last=0", "new channels=%d last=%d", &n, &last); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			a = New(testRef, n, job.CheckpointID(last))
			continue
		}
		for _, e := range a.Step(parseEvent(t, f)) {
			out.WriteString("  " + show(e) + "\n")
		}
	}
	return out.String()
}

func parseEvent(t *testing.T, f []string) Event {
	var x int
	if _, err := fmt.Sscan(f[1], &x); err != nil {
		t.Fatalf("%q: %v", f, err)
	}
	switch f[0] {
	case "end":
		return End(x)
	case "expire":
		return Expire(job.CheckpointID(x))
	case "giveup":
		return GiveUp(job.CheckpointID(x))
	case "arrive":
		b := checkpoint.Barrier{Ref: testRef, Aligned: true}
		for _, o := range f[2:] {
			switch {
			case o == "unaligned":
				b.Aligned = false
			case strings.HasPrefix(o, "n="):
				fmt.Sscan(o[2:], (*int64)(&b.ID))
			case strings.HasPrefix(o, "attempt="):
				fmt.Sscan(o[8:], (*int64)(&b.Attempt))
			default:
				t.Fatalf("%q: unknown option %s", f, o)
			}
		}
		return Arrive(x, b)
	}
	t.Fatalf("unknown event %q", f)
	return Event{}
}

func show(e Effect) string {
	switch e.Kind {
	case Decline:
		return fmt.Sprintf("decline %d: %s", e.ID, e.Reason)
	case Unblock:
		return "unblock"
	case Announce:
		return fmt.Sprintf("announce %d", e.ID)
	case Block:
		return fmt.Sprintf("block %d", e.Channel)
	case Snapshot:
		return fmt.Sprintf("snapshot %d", e.ID)
	case EndOfInput:
		return "end of input"
	}
	return fmt.Sprintf("effect %d", e.Kind)
}

// Ensure that a whole checkpoint costs no allocation once the aligner exists.
func TestStepAllocatesNothing(t *testing.T) {
	a := New(testRef, 3, 0)
	n := job.CheckpointID(0)
	got := testing.AllocsPerRun(100, func() {
		n++
		for ch := range 3 {
			a.Step(Arrive(ch, checkpoint.Barrier{Ref: testRef, ID: n, Aligned: true}))
		}
	})
	if got != 0 {
		t.Errorf("allocations per checkpoint: got %v, want 0", got)
	}
}
