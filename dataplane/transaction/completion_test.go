package transaction

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write what the completion does into the scripts instead of comparing")

// TestScripts runs the scenarios in testdata: '#' lines tell the story, lines at the margin are input, indented
// lines say what the completion wants next.
//
//	manifest N ID@CHECKPOINT,BEGIN…   the checkpoint and its transactions
//	covered N…                        checkpoints with a committed marker
//	start
//	committed | lost                  the answer about the transaction it named
//	marker yes | no                   the answer to read or put marker
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
			} else if got != string(src) {
				t.Errorf("got\n%s\nwant\n%s", got, src)
			}
		})
	}
}

func play(t *testing.T, script string) string {
	var out strings.Builder
	var m checkpoint.Manifest
	var covered []job.CheckpointID
	var c *Completion
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "  ") {
			continue // an expectation; written again below
		}
		out.WriteString(line)
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "manifest":
			m = checkpoint.Manifest{Kind: checkpoint.Durable}
			fmt.Sscan(f[1], (*int64)(&m.ID))
			for _, s := range f[2:] {
				var x checkpoint.Transaction
				s = strings.NewReplacer("@", " ", ",", " ").Replace(s)
				if _, err := fmt.Sscan(s, &x.ID, (*int64)(&x.Checkpoint), &x.BeginUnixMs); err != nil {
					t.Fatalf("%q: %v", s, err)
				}
				x.Sink, x.Records = "out", 10
				m.Transactions = append(m.Transactions, x)
			}
			continue
		case "covered":
			for _, s := range f[1:] {
				var n job.CheckpointID
				fmt.Sscan(s, (*int64)(&n))
				covered = append(covered, n)
			}
			continue
		case "start":
			var err error
			if c, err = NewCompletion(m, covered); err != nil {
				t.Fatal(err)
			}
		case "committed":
			c.Report(c.Next().Transaction.ID, Committed)
		case "lost":
			c.Report(c.Next().Transaction.ID, Lost)
		case "marker":
			c.ReportMarker(f[1] == "yes")
		default:
			t.Fatalf("unknown line %q", line)
		}
		out.WriteString("  " + showNext(c) + "\n")
	}
	return out.String()
}

func showNext(c *Completion) string {
	switch s := c.Next(); s.Action {
	case Commit:
		return "commit " + s.Transaction.ID
	case Abort:
		return "abort " + s.Transaction.ID
	case ReadMarker:
		return "read marker"
	case PutMarker:
		return "put marker"
	}
	if len(c.Lost()) > 0 {
		return "done: " + c.Verdict().String() + "; " + c.Loss()
	}
	return "done: " + c.Verdict().String()
}

// TestCompletionModel completes a manifest against a system in which every transaction may time out at any
// moment before it is committed, by workers that may crash at any moment and start over. The marker must stand
// only if all are committed, and "all lost" be said only if none is; and nothing may stay undecided.
func TestCompletionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorkers(t)
		c := w.start(t)
		for c.Verdict() == Pending {
			switch rapid.IntRange(0, 9).Draw(t, "fault") {
			case 0:
				c = w.start(t) // crash; another worker
			case 1:
				for _, x := range w.m.Transactions {
					if w.system[x.ID] == "open" && rapid.Bool().Draw(t, "timeout") {
						w.system[x.ID] = "aborted"
					}
				}
			}
			w.step(t, c)
		}
		count := map[string]int{}
		for _, st := range w.system {
			count[st]++
		}
		want := SomeLost
		switch {
		case count["committed"] == len(w.system):
			want = Complete
		case count["committed"] == 0:
			want = AllLost
		}
		if c.Verdict() != want || count["open"] > 0 || w.marker != (want == Complete) {
			t.Fatalf("verdict %s, marker %v; the system says %v", c.Verdict(), w.marker, w.system)
		}
	})
}

// workers complete m; system has the state of each transaction ("open", "committed", "aborted").
type workers struct {
	m      checkpoint.Manifest
	system map[string]string
	marker bool
}

func newWorkers(t *rapid.T) *workers {
	w := &workers{m: checkpoint.Manifest{Kind: checkpoint.Durable, ID: 9}, system: map[string]string{}}
	for i := range rapid.IntRange(0, 5).Draw(t, "transactions") {
		x := prep(fmt.Sprint("t", i), job.CheckpointID(rapid.IntRange(7, 9).Draw(t, "checkpoint")), int64(rapid.IntRange(0, 3).Draw(t, "begin")))
		w.m.Transactions = append(w.m.Transactions, x)
		w.system[x.ID] = "open"
	}
	return w
}

func (w *workers) start(t *rapid.T) *Completion {
	var covered []job.CheckpointID
	if w.marker {
		covered = append(covered, w.m.ID)
	}
	c, err := NewCompletion(w.m, covered)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *workers) step(t *rapid.T, c *Completion) {
	s := c.Next()
	id := s.Transaction.ID
	switch s.Action {
	case PutMarker:
		w.marker = true
		c.ReportMarker(true)
		return
	case ReadMarker:
		c.ReportMarker(w.marker)
		return
	case Done:
		return
	}
	if w.system[id] == "open" {
		w.system[id] = map[Action]string{Commit: "committed", Abort: "aborted"}[s.Action]
	}
	switch {
	case rapid.IntRange(0, 5).Draw(t, "reply") == 0: // lost: the same step again
	case w.system[id] == "committed":
		c.Report(id, Committed)
	default:
		c.Report(id, Lost)
	}
}

func TestCompletionIsFenced(t *testing.T) {
	ref := job.Ref{UID: "0a", Attempt: 3}
	if _, err := NewCompletion(checkpoint.NewAbort(ref, 7, 0, "x"), nil); job.ClassOf(err) != job.Fenced {
		t.Errorf("abort record: got %v, want a fenced error", err)
	}
}

func TestCompletionMisuse(t *testing.T) {
	m := checkpoint.Manifest{Kind: checkpoint.Durable, ID: 7, Transactions: []checkpoint.Transaction{prep("a", 7, 1)}}
	for name, f := range map[string]func(*Completion){
		"outcome of another transaction": func(c *Completion) { c.Report("b", Committed) },
		"no definitive outcome":          func(c *Completion) { c.Report("a", 0) },
		"marker too early":               func(c *Completion) { c.ReportMarker(true) },
		"outcome too late":               func(c *Completion) { c.Report("a", Committed); c.Report("a", Committed) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			c, err := NewCompletion(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			f(c)
		})
	}
}
