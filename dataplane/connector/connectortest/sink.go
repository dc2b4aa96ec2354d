package connectortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// SinkSchema is the schema of the batches that the suite writes.
var SinkSchema = &batch.Schema{Fields: []batch.Field{
	{Name: "id", Type: batch.Type{Kind: batch.Int64}},
	{Name: "text", Type: batch.Type{Kind: batch.String}},
}}

// Place is an empty target of sinks, one a test.
type Place interface {
	// Sink returns an exactly-once sink for batches of SinkSchema, as a new process would make it.
	Sink(t *testing.T) connector.Sink
	// Committer returns a committer for its transactions, as another process would make it. The suite closes it.
	Committer(t *testing.T) connector.Committer
	// Visible returns the ids of the rows that a reader of committed data sees.
	Visible(t *testing.T) []int64
}

// SinkHarness makes the places.
type SinkHarness struct {
	New func(t *testing.T) Place
}

// TestSink runs the suite of exactly-once sinks: what PROTOCOL asks of their transactions.
func TestSink(t *testing.T, h SinkHarness) {
	for _, test := range []struct {
		name string
		run  func(*sinkTest)
	}{
		{"commit makes visible, once", (*sinkTest).testCommit},
		{"nothing written is no transaction", (*sinkTest).testNothing},
		{"abort", (*sinkTest).testAbort},
		{"a failed checkpoint keeps its transactions", (*sinkTest).testFailedCheckpoint},
		{"close aborts the current transaction only", (*sinkTest).testClose},
		{"a zombie's rows never become visible", (*sinkTest).testZombie},
		{"prepared transactions are listed as in the manifest", (*sinkTest).testListed},
		{"other jobs are left alone", (*sinkTest).testOtherJob},
		{"subtasks", (*sinkTest).testSubtasks},
		{"selected rows only", (*sinkTest).testSelection},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &sinkTest{T: t, place: h.New(t), ref: job.Ref{UID: "c0ffee", Attempt: 1}}
			s.committer = s.place.Committer(t)
			t.Cleanup(s.committer.Close)
			test.run(s)
		})
	}
}

type sinkTest struct {
	*testing.T
	place     Place
	committer connector.Committer
	ref       job.Ref
}

const sinkUID = "out-1"

func (s *sinkTest) open(index int) connector.Writer {
	s.Helper()
	w, err := s.place.Sink(s.T).Open(s.Context(), connector.WriterConfig{
		Ref: s.ref, Operator: sinkUID, Index: index,
		Failed: func(err error) { s.Logf("writer %d failed in the background: %v", index, err) },
	})
	if err != nil {
		s.Fatalf("open: %v", err)
	}
	// A test that leaves a writer behind on purpose is done when it ends; release what it holds.
	s.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// batchOf has a row for each id of [from, to).
func batchOf(from, to int64) *batch.Batch {
	n := int(to - from)
	b := &batch.Batch{Schema: SinkSchema, Rows: n, Watermark: batch.NoWatermark}
	b.Cols = []batch.Column{batch.NewColumn(SinkSchema.Fields[0].Type, n), batch.NewColumn(SinkSchema.Fields[1].Type, n)}
	for i := range n {
		b.Cols[0].Ints[i] = from + int64(i)
		b.Cols[1].SetBytes(i, fmt.Appendf(nil, "row \"%d\"\n", from+int64(i)))
	}
	return b
}

func (s *sinkTest) write(w connector.Writer, from, to int64) {
	s.Helper()
	if err := w.Write(s.Context(), batchOf(from, to)); err != nil {
		s.Fatalf("write: %v", err)
	}
}

// prepare ends the transactions at barrier n and returns what the manifest would say of them.
func (s *sinkTest) prepare(w connector.Writer, n, committed job.CheckpointID) []checkpoint.Transaction {
	s.Helper()
	txns, err := w.Prepare(checkpoint.Barrier{Ref: s.ref, ID: n, Decided: n - 1, Committed: committed}).Wait(s.Context())
	if err != nil {
		s.Fatalf("prepare %d: %v", n, err)
	}
	bytes, err := json.Marshal(txns)
	if err != nil {
		s.Fatal(err)
	}
	var read []checkpoint.Transaction
	if err := json.Unmarshal(bytes, &read); err != nil {
		s.Fatal(err)
	}
	for _, t := range read {
		if t.Sink != sinkUID || t.Connector == "" || t.ID == "" || t.Checkpoint < 1 || t.Checkpoint > n || t.Records < 1 {
			s.Errorf("transaction %+v is not complete", t)
		}
	}
	return read
}

func (s *sinkTest) commit(want connector.Outcome, txns ...checkpoint.Transaction) {
	s.Helper()
	for _, t := range txns {
		if got, err := s.committer.Commit(s.Context(), t); err != nil || got != want {
			s.Fatalf("commit of %s: %v, %v, want %v", t.ID, got, err, want)
		}
	}
}

func (s *sinkTest) abort(want connector.Outcome, t checkpoint.Transaction) {
	s.Helper()
	if got, err := s.committer.Abort(s.Context(), t); err != nil || got != want {
		s.Fatalf("abort of %s: %v, %v, want %v", t.ID, got, err, want)
	}
}

// wantVisible checks that exactly the ids of [from, to) are visible, each once.
func (s *sinkTest) wantVisible(from, to int64) {
	s.Helper()
	got := slices.Sorted(slices.Values(s.place.Visible(s.T)))
	if int64(len(got)) != to-from {
		s.Fatalf("%d rows are visible, want %d: %v", len(got), to-from, got)
	}
	for i, id := range got {
		if id != from+int64(i) {
			s.Fatalf("visible row %d is %d, want %d", i, id, from+int64(i))
		}
	}
}

func (s *sinkTest) list() []connector.Open {
	s.Helper()
	open, err := s.committer.Open(s.Context(), s.ref.UID)
	if err != nil {
		s.Fatalf("list open transactions: %v", err)
	}
	return open
}

func (s *sinkTest) testCommit() {
	w := s.open(0)
	s.write(w, 0, 100)
	s.write(w, 100, 150)
	one := s.prepare(w, 1, 0)
	if len(one) != 1 || one[0].Records != 150 || one[0].Checkpoint != 1 {
		s.Fatalf("transactions %+v, want one of 150 rows at checkpoint 1", one)
	}
	s.write(w, 150, 160)
	s.wantVisible(0, 0)
	s.commit(connector.Committed, one...)
	s.wantVisible(0, 150)
	s.commit(connector.Committed, one...)
	two := s.prepare(w, 2, 1)
	if len(two) != 1 || two[0].Checkpoint != 2 {
		s.Fatalf("transactions %+v, want that of checkpoint 2", two)
	}
	if err := w.Close(s.Context()); err != nil {
		s.Errorf("close: %v", err)
	}
	s.commit(connector.Committed, two...)
	s.commit(connector.Committed, two...)
	s.wantVisible(0, 160)
}

func (s *sinkTest) testNothing() {
	w := s.open(0)
	if txns := s.prepare(w, 1, 0); len(txns) != 0 {
		s.Errorf("transactions %+v of nothing", txns)
	}
	s.write(w, 5, 5)
	if txns := s.prepare(w, 2, 1); len(txns) != 0 {
		s.Errorf("transactions %+v of an empty batch", txns)
	}
	s.wantVisible(0, 0)
}

func (s *sinkTest) testAbort() {
	w := s.open(0)
	s.write(w, 0, 10)
	one := s.prepare(w, 1, 0)
	s.write(w, 10, 20)
	both := s.prepare(w, 2, 0)
	if len(one) != 1 || len(both) != 2 {
		s.Fatalf("%d and %d transactions, want 1 and 2", len(one), len(both))
	}
	last := both[0]
	if last.ID == one[0].ID {
		last = both[1]
	}
	s.commit(connector.Committed, one...)
	s.abort(connector.Lost, last)
	s.abort(connector.Lost, last)
	s.commit(connector.Lost, last)
	s.abort(connector.Committed, one[0])
	s.wantVisible(0, 10)
}

func (s *sinkTest) testFailedCheckpoint() {
	w := s.open(0)
	s.write(w, 0, 10)
	if one := s.prepare(w, 1, 0); len(one) != 1 {
		s.Fatalf("%d transactions, want 1", len(one))
	}
	if again := s.prepare(w, 2, 0); len(again) != 1 || again[0].Checkpoint != 1 {
		s.Fatalf("transactions %+v at checkpoint 2, want that of checkpoint 1", again)
	}
	s.write(w, 10, 20)
	three := s.prepare(w, 3, 0)
	if len(three) != 2 {
		s.Fatalf("%d transactions at checkpoint 3, want 2", len(three))
	}
	s.commit(connector.Committed, three...)
	s.wantVisible(0, 20)
	s.write(w, 20, 30)
	four := s.prepare(w, 4, 3)
	if len(four) != 1 || four[0].Checkpoint != 4 {
		s.Fatalf("transactions %+v at checkpoint 4, want its own", four)
	}
	s.commit(connector.Committed, four...)
	s.wantVisible(0, 30)
}

func (s *sinkTest) testClose() {
	w := s.open(0)
	s.write(w, 0, 10)
	one := s.prepare(w, 1, 0)
	s.write(w, 10, 20)
	if err := w.Close(s.Context()); err != nil {
		s.Fatalf("close: %v", err)
	}
	s.commit(connector.Committed, one...)
	s.wantVisible(0, 10)
	if open := s.list(); len(open) != 0 {
		s.Errorf("%v is still open", open)
	}
}

func (s *sinkTest) testZombie() {
	zombie := s.open(0)
	s.write(zombie, 1000, 1010)
	lost := s.prepare(zombie, 1, 0)
	s.write(zombie, 2000, 2010)
	s.abortOpen(len(lost))
	s.wantVisible(0, 0)

	s.ref.Attempt = 2
	w := s.open(0)
	s.write(w, 0, 10)
	if err := zombie.Write(s.Context(), batchOf(3000, 3010)); err == nil {
		// It does not know yet; whatever it prepares now is in no manifest.
		_, err = zombie.Prepare(checkpoint.Barrier{Ref: job.Ref{UID: s.ref.UID, Attempt: 1}, ID: 2}).Wait(s.Context())
		s.Logf("the zombie prepared: %v", err)
	}
	s.commit(connector.Committed, s.prepare(w, 3, 0)...)
	for _, t := range lost {
		s.commit(connector.Lost, t)
	}
	s.wantVisible(0, 10)
}

// abortOpen does what recovery does with the ongoing transactions of lower attempts. It expects at least so many.
func (s *sinkTest) abortOpen(least int) {
	s.Helper()
	open := s.list()
	if len(open) < least {
		s.Fatalf("%d open transactions, want at least %d", len(open), least)
	}
	for _, o := range open {
		if o.Attempt != s.ref.Attempt {
			s.Errorf("open transaction of attempt %d, want %d", o.Attempt, s.ref.Attempt)
		}
		for range 2 {
			if err := s.committer.AbortOpen(s.Context(), o); err != nil {
				s.Fatalf("abort of open %s: %v", o.Transaction.ID, err)
			}
		}
	}
}

func (s *sinkTest) testListed() {
	w := s.open(0)
	s.write(w, 0, 10)
	one := s.prepare(w, 1, 0)
	same := func(o connector.Open) bool {
		t := o.Transaction
		return t.ID == one[0].ID && t.ProducerID == one[0].ProducerID && t.ProducerEpoch == one[0].ProducerEpoch
	}
	if !slices.ContainsFunc(s.list(), same) {
		s.Errorf("open transactions %+v, want %+v among them", s.list(), one[0])
	}
	s.commit(connector.Committed, one...)
	if slices.ContainsFunc(s.list(), same) {
		s.Error("the committed transaction is still open")
	}
	canceled, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.committer.Open(canceled, s.ref.UID); !errors.Is(err, context.Canceled) {
		s.Errorf("listing with a cancelled context: %v", err)
	}
}

func (s *sinkTest) testOtherJob() {
	w := s.open(0)
	s.write(w, 0, 10)
	one := s.prepare(w, 1, 0)
	open, err := s.committer.Open(s.Context(), "c0ffee00")
	if err != nil || len(open) != 0 {
		s.Errorf("open transactions of another job: %v, %v", open, err)
	}
	s.commit(connector.Committed, one...)

	s.ref = job.Ref{UID: "decaf", Attempt: 1} // the same numbers in another life of the job
	w = s.open(0)
	s.write(w, 10, 20)
	s.commit(connector.Committed, s.prepare(w, 1, 0)...)
	s.wantVisible(0, 20)
}

func (s *sinkTest) testSubtasks() {
	var txns []checkpoint.Transaction
	for index := range 3 {
		w := s.open(index)
		s.write(w, int64(index)*10, int64(index)*10+10)
		txns = append(txns, s.prepare(w, 1, 0)...)
	}
	for i, t := range txns {
		if t.Subtask != i {
			s.Errorf("transaction of subtask %d, want %d", t.Subtask, i)
		}
	}
	s.commit(connector.Committed, txns...)
	s.wantVisible(0, 30)
}

func (s *sinkTest) testSelection() {
	w := s.open(0)
	b := batchOf(-10, 10)
	for i := int32(10); i < 20; i++ {
		b.Sel = append(b.Sel, i)
	}
	if err := w.Write(s.Context(), b); err != nil {
		s.Fatal(err)
	}
	s.commit(connector.Committed, s.prepare(w, 1, 0)...)
	s.wantVisible(0, 10)
}
