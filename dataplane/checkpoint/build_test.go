package checkpoint

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

// Ensure that the bytes are a pure function of the input, whatever the order in which acks came.
func TestBuildIsDeterministic(t *testing.T) {
	c := testCommit(7)
	want, err := EncodeManifest(testManifest(t, 7))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(c.Parts)
	m, err := BuildManifest(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := EncodeManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBuildSums(t *testing.T) {
	m := testManifest(t, 7)
	if len(m.States) != 5 || len(m.Transactions) != 3 || m.Stats.Bytes != 30 || !m.Final || m.Floor != 2 {
		t.Errorf("got %d states, %d transactions, %d bytes, final %v, floor %d", len(m.States), len(m.Transactions), m.Stats.Bytes, m.Final, m.Floor)
	}
	c := testCommit(7)
	c.Parts[1].Ended = false
	if m, err := BuildManifest(c); err != nil || m.Final {
		t.Errorf("one node's sources still run: final %v, %v", m.Final, err)
	}
}

// Ensure that acks which do not prove the checkpoint complete never become a manifest.
func TestBuildRefusesIncomplete(t *testing.T) {
	dropState := func(p *Part, operator string, subtask int) {
		p.States = slices.DeleteFunc(p.States, func(s OperatorState) bool { return s.Operator == operator && s.Subtask == subtask })
	}
	for _, c := range []struct {
		name string
		mess func(*Commit)
		want string
	}{
		{"a node's part is missing", func(c *Commit) { c.Parts = c.Parts[:1] }, "no part of node b"},
		{"two parts of one node", func(c *Commit) { c.Parts[1] = c.Parts[0] }, "two parts of node a"},
		{"a node outside the deployment", func(c *Commit) {
			p := testPart("b", 7, 1)
			p.Node = "c"
			c.Parts = append(c.Parts, p)
		}, "node c, which is not in the deployment"},
		{"another attempt", func(c *Commit) { c.Parts[0].Attempt = 2 }, "attempt 2"},
		{"another checkpoint", func(c *Commit) { c.Parts[0] = testPart("a", 6, 0, 2) }, "checkpoint 6"},
		{"another job", func(c *Commit) { c.Parts[0].UID = "ff" }, "of ff"},
		{"a subtask did not ack", func(c *Commit) { c.Parts[0].Subtasks = c.Parts[0].Subtasks[:2] }, "the placement says"},
		{"an id below the attempt's first", func(c *Commit) { c.ID = 5 }, "first checkpoint is 6"},
		{"another graph", func(c *Commit) { c.Graph.Vertices[0].Operators[0].Kind = "files source" }, "the deployment's is"},
		{"a source without a position", func(c *Commit) {
			dropState(&c.Parts[0], "in", 0)
			dropState(&c.Parts[1], "in", 1)
		}, `source "in" saved no position`},
		{"half of a source's positions", func(c *Commit) { dropState(&c.Parts[1], "in", 1) }, "1 of 2 subtasks"},
		{"half of the keyed state", func(c *Commit) { dropState(&c.Parts[0], "sum", 2) }, "2 of 3 subtasks"},
		{"a key group owned by nobody", func(c *Commit) { c.Parts[1].States[1].KeyRange.To-- }, "it owns"},
		{"a subtask without its key groups", func(c *Commit) { c.Parts[1].States[1].KeyRange = job.KeyGroupRange{} }, "it owns"},
		{"state of a subtask that runs elsewhere", func(c *Commit) {
			c.Parts[1].States[1].Subtask = 2
		}, "runs elsewhere"},
		{"a transaction of a subtask that runs elsewhere", func(c *Commit) { c.Parts[1].Transactions[0].Subtask = 2 }, "runs elsewhere"},
		{"the same transaction twice", func(c *Commit) { c.Parts[1].Transactions[0].ID = "t0" }, "not in order"},
		{"a transaction of no sink", func(c *Commit) { c.Parts[1].Transactions[0].Sink = "x" }, `operator "x" is not in the graph`},
		{"a transaction of a later checkpoint", func(c *Commit) { c.Parts[1].Transactions[0].Checkpoint = 8 }, "of checkpoint 8"},
		{"a file outside the prefix", func(c *Commit) { c.Parts[1].States[1].Files[0].Local = "../x" }, "local name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := testCommit(7)
			c.mess(&in)
			_, err := BuildManifest(in)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrInvalid with %q", err, c.want)
			}
		})
	}
}

func TestObey(t *testing.T) {
	mine := testManifest(t, 7)
	other := mine
	other.Attempt = 4
	sameAttempt := mine
	sameAttempt.Final = !mine.Final
	abort := NewAbort(testRef, 7, 2, "deadline")
	claim := NewClaim(job.Ref{UID: testRef.UID, Attempt: 4}, 7, 2)
	for _, c := range []struct {
		name           string
		existing, mine Manifest
		want           Verdict
	}{
		{"our lost reply", mine, mine, Verdict{Ours: true, Kind: Durable}},
		{"another attempt's manifest", other, mine, Verdict{Kind: Durable}},
		{"same attempt, other content", sameAttempt, mine, Verdict{Kind: Durable}},
		{"it was aborted first", abort, mine, Verdict{Kind: Aborted}},
		{"it was claimed first", claim, mine, Verdict{Kind: Aborted}},
		{"we abort what is durable", mine, abort, Verdict{Kind: Durable}},
		{"our lost abort", NewAbort(testRef, 7, 2, "node lost"), abort, Verdict{Ours: true, Kind: Aborted}},
		{"we claim what an older attempt aborted", abort, claim, Verdict{Kind: Aborted}},
		{"a delayed PUT after retirement", NewTombstone(mine), mine, Verdict{Kind: Retired}},
	} {
		if got, err := Obey(c.existing, c.mine); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	if _, err := Obey(testManifest(t, 8), mine); !errors.Is(err, ErrInvalid) {
		t.Errorf("another checkpoint at our key: got %v, want ErrInvalid", err)
	}
}

// Ensure that what is restored names its origin, keeps the content and carries no transactions.
func TestRestored(t *testing.T) {
	from := testManifest(t, 7)
	m, err := Restored(from, job.Ref{UID: "0a1b", Attempt: 5}, 11, 4, "why")
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != 11 || m.Attempt != 5 || *m.Origin != 7 || len(m.Transactions) != 0 || len(m.States) != len(from.States) {
		t.Errorf("got %s, origin %v, %d transactions, %d states", m.Name(), *m.Origin, len(m.Transactions), len(m.States))
	}
	if _, err := Restored(NewAbort(testRef, 7, 2, ""), testRef, 11, 4, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("restoring an abort record: got %v, want ErrInvalid", err)
	}
	if _, err := Restored(from, job.Ref{UID: "ff", Attempt: 5}, 11, 4, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("restoring another job's checkpoint: got %v, want ErrInvalid", err)
	}
	if _, err := Restored(from, testRef, 7, 4, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("restoring under the same id: got %v, want ErrInvalid", err)
	}
}
