package files

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/connectortest"
	"github.com/weirstream/weir/dataplane/format"
	formatjson "github.com/weirstream/weir/dataplane/format/json"
	"github.com/weirstream/weir/dataplane/job"
)

// place is a directory.
type place struct{ dir string }

func (p place) Sink(*testing.T) connector.Sink {
	return NewSink(SinkConfig{Dir: p.dir, NewEncoder: func() (format.Encoder, error) {
		return formatjson.NewEncoder(formatjson.Options{}, connectortest.SinkSchema)
	}})
}

func (p place) Committer(*testing.T) connector.Committer { return NewCommitter(p.dir) }

func (p place) Visible(t *testing.T) []int64 {
	t.Helper()
	paths, err := regularFiles(p.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var ids []int64
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var row struct{ ID int64 }
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			ids = append(ids, row.ID)
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func TestSinkConformance(t *testing.T) {
	connectortest.TestSink(t, connectortest.SinkHarness{New: func(t *testing.T) connectortest.Place {
		return place{filepath.Join(t.TempDir(), "made", "by the sink")}
	}})
}

func open(t testing.TB, p place, attempt job.Attempt) connector.Writer {
	t.Helper()
	w, err := p.Sink(nil).Open(t.Context(), connector.WriterConfig{Ref: job.Ref{UID: "ab12", Attempt: attempt}, Operator: "a/b"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func rows(n int) *batch.Batch {
	b := &batch.Batch{Schema: connectortest.SinkSchema, Rows: n}
	for _, f := range b.Schema.Fields {
		b.Cols = append(b.Cols, batch.NewColumn(f.Type, n))
	}
	return b
}

// prepareOne writes n rows and prepares them for checkpoint 1.
func prepareOne(t testing.TB, w connector.Writer, n int) checkpoint.Transaction {
	t.Helper()
	if err := w.Write(t.Context(), rows(n)); err != nil {
		t.Fatal(err)
	}
	txns, err := w.Prepare(checkpoint.Barrier{ID: 1}).Wait(t.Context())
	if err != nil || len(txns) != 1 {
		t.Fatalf("prepare: %v, %v, want one transaction", txns, err)
	}
	return txns[0]
}

func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Ensure a part is hidden until it is committed, under names that tell whose it is, and markers do not pile up.
func TestStates(t *testing.T) {
	p := place{t.TempDir()}
	c := NewCommitter(p.dir)
	w := open(t, p, 3)
	txn := prepareOne(t, w, 10)
	const name = "part-ab12-a.2fb-0-3-1.jsonl"
	if got, want := names(t, p.dir), "."+name+".prepared"; got != want || txn.ID != name {
		t.Errorf("prepared: %s, id %s, want %s", got, txn.ID, want)
	}
	if _, err := c.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, p.dir), "."+name+".committed "+name; got != want {
		t.Errorf("committed: %s, want %s", got, want)
	}
	if txns, err := w.Prepare(checkpoint.Barrier{ID: 2, Committed: 1}).Wait(t.Context()); err != nil || len(txns) != 0 {
		t.Errorf("checkpoint 2: %v, %v, want nothing", txns, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := names(t, p.dir); got != name {
		t.Errorf("after its commit is known: %s, want %s", got, name)
	}
	txn = prepareOne(t, open(t, p, 4), 1)
	if _, err := c.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	open(t, p, 5)
	if got := names(t, p.dir); strings.Contains(got, markerSuffix) {
		t.Errorf("attempt 5 found and left markers of attempt 4: %s", got)
	}
}

// Ensure that a committed part which a consumer has taken away is not taken for a lost one.
func TestCommitAfterConsumption(t *testing.T) {
	p := place{t.TempDir()}
	c := NewCommitter(p.dir)
	txn := prepareOne(t, open(t, p, 1), 10)
	if _, err := c.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.dir, txn.ID)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Commit(t.Context(), txn); err != nil || got != connector.Committed {
		t.Errorf("commit: %v, %v, want committed", got, err)
	}
	if got, err := c.Abort(t.Context(), txn); err != nil || got != connector.Committed {
		t.Errorf("abort: %v, %v, want committed", got, err)
	}
}

// Ensure a commit that died between its two steps is completed by whoever comes next, even by an abort.
func TestCommitDiedHalfway(t *testing.T) {
	for name, next := range map[string]func(*Committer, checkpoint.Transaction) (connector.Outcome, error){
		"commit": func(c *Committer, txn checkpoint.Transaction) (connector.Outcome, error) {
			return c.Commit(t.Context(), txn)
		},
		"abort": func(c *Committer, txn checkpoint.Transaction) (connector.Outcome, error) {
			return c.Abort(t.Context(), txn)
		},
		"abort of open": func(c *Committer, txn checkpoint.Transaction) (connector.Outcome, error) {
			return connector.Committed, c.AbortOpen(t.Context(), connector.Open{Transaction: txn})
		},
	} {
		p := place{t.TempDir()}
		c := NewCommitter(p.dir)
		txn := prepareOne(t, open(t, p, 1), 10)
		if err := touch(filepath.Join(p.dir, "."+txn.ID+markerSuffix)); err != nil {
			t.Fatal(err)
		}
		if open, err := c.Open(t.Context(), "ab12"); err != nil || len(open) != 0 {
			t.Errorf("%s: decided part is listed as open: %v, %v", name, open, err)
		}
		if got, err := next(c, txn); err != nil || got != connector.Committed {
			t.Errorf("%s: %v, %v, want committed", name, got, err)
		}
		if n := len(p.Visible(t)); n != 10 {
			t.Errorf("%s: %d rows are visible, want 10", name, n)
		}
	}
}

// Ensure concurrent commits of one part all answer that it is committed.
func TestConcurrentCommits(t *testing.T) {
	for range 20 {
		p := place{t.TempDir()}
		txn := prepareOne(t, open(t, p, 1), 10)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if got, err := NewCommitter(p.dir).Commit(t.Context(), txn); err != nil || got != connector.Committed {
					t.Errorf("commit: %v, %v, want committed", got, err)
				}
			})
		}
		group.Wait()
		if n := len(p.Visible(t)); n != 10 {
			t.Fatalf("%d rows are visible, want 10", n)
		}
	}
}

// Ensure a part that was changed, or a transaction that is none of ours, is refused and touches nothing.
func TestCommitRefuses(t *testing.T) {
	p := place{t.TempDir()}
	c := NewCommitter(p.dir)
	txn := prepareOne(t, open(t, p, 1), 10)
	before := names(t, p.dir)
	if err := os.Truncate(filepath.Join(p.dir, "."+txn.ID+preparedSuffix), 5); err != nil {
		t.Fatal(err)
	}
	bad := []checkpoint.Transaction{txn}
	for _, id := range []string{"", "x", "../part-ab12-a-0-1-1.jsonl", "part-../x-a-0-1-1.jsonl", "part-ab12-a-0-1.jsonl", "part-ab12-a/../b-0-1-1.jsonl", "part-ab12-a-0-01-1.jsonl", "part-ab12-a-0--1-1.jsonl"} {
		bad = append(bad, checkpoint.Transaction{ID: id, Data: txn.Data})
	}
	bad = append(bad, checkpoint.Transaction{ID: txn.ID, Data: json.RawMessage(`x`)})
	for _, b := range bad {
		if got, err := c.Commit(t.Context(), b); job.ClassOf(err) != job.Fatal {
			t.Errorf("commit of %q: %v, %v, want a fatal error", b.ID, got, err)
		}
	}
	if got := names(t, p.dir); got != before {
		t.Errorf("files are %s, want %s", got, before)
	}
}

// Ensure a batch with a row that cannot be encoded leaves nothing behind.
func TestWriteRowError(t *testing.T) {
	p := place{t.TempDir()}
	double := batch.Type{Kind: batch.Float64}
	schema := &batch.Schema{Fields: []batch.Field{{Name: "id", Type: double}}}
	b := &batch.Batch{Schema: schema, Rows: 2, Cols: []batch.Column{batch.NewColumn(double, 2)}}
	b.Cols[0].Floats[1] = math.NaN()
	w := open(t, p, 1)
	var re *batch.RowError
	if err := w.Write(t.Context(), b); !errors.As(err, &re) || re.Row != 1 {
		t.Fatalf("err=%v, want a RowError of row 1", err)
	}
	b.Sel = []int32{0}
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	txns, err := w.Prepare(checkpoint.Barrier{ID: 1}).Wait(t.Context())
	if err != nil || len(txns) != 1 || txns[0].Records != 1 {
		t.Errorf("prepared %v, %v, want one row", txns, err)
	}
}

// Ensure a failure in the background reaches the task and the checkpoint.
func TestPrepareFails(t *testing.T) {
	p := place{t.TempDir()}
	failed := make(chan error, 2)
	w, err := p.Sink(t).Open(t.Context(), connector.WriterConfig{
		Ref: job.Ref{UID: "ab12", Attempt: 1}, Operator: "out", Failed: func(err error) { failed <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), rows(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	if txns, err := w.Prepare(checkpoint.Barrier{ID: 1}).Wait(t.Context()); err == nil {
		t.Errorf("prepared %v without a directory", txns)
	}
	if err := <-failed; err == nil {
		t.Error("failed without an error")
	}
}

func TestOpenRefusesUID(t *testing.T) {
	for _, uid := range []job.UID{"", "a-b", "../x", "a.b"} {
		if _, err := (place{t.TempDir()}).Sink(t).Open(t.Context(), connector.WriterConfig{Ref: job.Ref{UID: uid, Attempt: 1}}); err == nil {
			t.Errorf("uid %q was accepted", uid)
		}
	}
}

func FuzzParsePart(f *testing.F) {
	f.Add("part-ab12-a.2fb-0-3-1.jsonl")
	f.Add("part-ab12-a-b-10-3-999.jsonl")
	f.Add("part--.-0-0-0.jsonl")
	f.Add("part-a/b-x-0-0-0.jsonl")
	f.Fuzz(func(t *testing.T, name string) {
		p, err := parsePart(name)
		if err == nil && (p.name() != name || strings.ContainsAny(name, "/\\\x00")) {
			t.Errorf("%q was parsed as %+v", name, p)
		}
	})
}
