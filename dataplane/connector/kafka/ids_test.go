package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// openAs opens a writer of any job, sink, subtask and attempt.
func openAs(t testing.TB, cfg SinkConfig, ref job.Ref, sink string, index int) *sinkTest {
	t.Helper()
	s := &sinkTest{t: t, failed: make(chan error, 1)}
	w, err := NewSink(cfg).Open(t.Context(), connector.WriterConfig{Ref: ref, Operator: sink, Index: index, Failed: func(err error) { s.failed <- err }})
	must(t, err)
	s.writer = w.(*writer)
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return s
}

// Writers that differ in anything write one topic at the same time without fencing each other: two jobs, two sinks of a
// job, two subtasks, an attempt and the zombie of the one before, two clusters of Weir.
func TestWritersDoNotFenceEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		uid := uidOf(t)
		cfg := sinkConfig(conn, topic)
		cfg.Keys = nil // no record key of two writers: their order is nobody's promise
		prefixed := cfg
		prefixed.Prefix = "other"
		writers := []*sinkTest{
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 1}, "out", 0),
			openAs(t, cfg, job.Ref{UID: uid + "x", Attempt: 1}, "out", 0),
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 1}, "out2", 0),
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 1}, "out", 1),
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 2}, "out", 0),
			openAs(t, prefixed, job.Ref{UID: uid, Attempt: 1}, "out", 0),
			// names that would be one without a separator, or with an unescaped one
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 1}, "out/1", 0),
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 11}, "out", 0),
			openAs(t, cfg, job.Ref{UID: uid, Attempt: 1}, "out", 10),
		}
		c := openCommitter(t, conn)
		ids, n := map[string]int{}, 0
		for round := range 3 {
			id := job.CheckpointID(round + 1)
			for _, s := range writers {
				s.write(n, n+5)
				n += 5
			}
			var list []checkpoint.Transaction
			for i, s := range writers { // all are prepared before any is committed
				for _, tx := range s.prepare(id, id-1) {
					if of, taken := ids[tx.ID]; taken && of != i {
						t.Errorf("writers %d and %d share %s", of, i, tx.ID)
					}
					ids[tx.ID] = i
					list = append(list, tx)
				}
			}
			for _, tx := range list {
				if o := commit(t, c, tx); o != connector.Committed {
					t.Errorf("%s: outcome %s, want committed", tx.ID, o)
				}
			}
		}
		for i, s := range writers {
			select {
			case err := <-s.failed:
				t.Errorf("writer %d failed: %v", i, err)
			default:
			}
		}
		seen := map[string]int{}
		for _, r := range readCommitted(t, conn, topic) {
			seen[string(r.Value)]++
		}
		if len(seen) != n {
			t.Errorf("%d different records are visible, want %d", len(seen), n)
		}
		for v, times := range seen {
			if times != 1 {
				t.Errorf("record %s is visible %d times", v, times)
			}
		}
	})
}

// Only a coordinator that has committed this very transaction makes it committed: one that never heard of it, has
// forgotten it, or has gone on with another producer or a later transaction does not.
func TestOnlyItsOwnCommitCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		s, c := openSink(t, sinkConfig(conn, topic), 1, "out"), openCommitter(t, conn)
		s.write(0, 10)
		tx := s.prepare(1, 0)[0]
		if o := commit(t, c, tx); o != connector.Committed {
			t.Fatalf("outcome %s, want committed", o)
		}
		unknown, foreign := tx, tx
		unknown.ID, unknown.ProducerID = tx.ID[:len(tx.ID)-1]+"999", tx.ProducerID+1000
		foreign.ProducerID += 1000
		for name, x := range map[string]checkpoint.Transaction{"unknown id": unknown, "another producer's": foreign} {
			if o := commit(t, c, x); o != connector.Lost {
				t.Errorf("%s: outcome %s, want lost", name, o)
			}
			if o, err := c.Abort(t.Context(), x); err != nil || o != connector.Lost {
				t.Errorf("abort of %s: %s, error %v; want lost", name, o, err)
			}
		}
		initProducerID(t, conn, tx.ID)
		if o := commit(t, c, tx); o != connector.Lost {
			t.Errorf("after its slot went to a later producer: outcome %s, want lost; the marker in the store is what tells", o)
		}
		wantVisible(t, conn, topic, 0, 10)
	})
}

// Whatever the dead left open is swept, in seconds: of every subtask, also of those that a smaller job does not have
// any more, behind slots that were never used or have ended, of several attempts, and in the current transaction.
func TestDanglingOfEveryShapeIsSwept(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		c := openCommitter(t, conn)
		cfg := sinkConfig(conn, topic)
		cfg.Keys = nil
		n, committed := 0, 0
		for attempt := range job.Attempt(2) {
			for index := range 4 {
				s := openAs(t, cfg, job.Ref{UID: uidOf(t), Attempt: attempt + 1}, "out", index)
				var list []checkpoint.Transaction
				for i := range 3 {
					s.write(n, n+3)
					n += 3
					list = s.prepare(job.CheckpointID(i+1), 0)
				}
				if o := commit(t, c, list[1]); o != connector.Committed { // the middle one: a gap
					t.Fatalf("outcome %s, want committed", o)
				}
				committed += 3
				if index%2 == 0 {
					s.write(n, n+3)
					n += 3
					flushCurrent(t, s)
				}
				s.crash()
			}
		}
		open, err := c.Open(t.Context(), uidOf(t))
		must(t, err)
		if want := 2 * (4*2 + 2); len(open) != want {
			t.Errorf("%d open transactions, want %d", len(open), want)
		}
		began := time.Now()
		for _, o := range open {
			must(t, c.AbortOpen(t.Context(), o))
		}
		took := time.Since(began)
		t.Logf("%d transactions swept in %s", len(open), took)
		if took > 15*time.Second {
			t.Errorf("the sweep took %s", took)
		}
		wantStable(t, conn, topic)
		if got := len(readCommitted(t, conn, topic)); got != committed {
			t.Errorf("%d records are visible, want the %d that were committed", got, committed)
		}
		slices.SortFunc(open, func(a, b connector.Open) int { return int(a.Attempt - b.Attempt) })
		if first, last := open[0].Attempt, open[len(open)-1].Attempt; first != 1 || last != 2 {
			t.Errorf("attempts %d to %d, want 1 and 2", first, last)
		}
		if left, err := c.Open(t.Context(), uidOf(t)); err != nil || len(left) != 0 {
			t.Errorf("%s is left, error %v", fmt.Sprint(left), err)
		}
	})
}
