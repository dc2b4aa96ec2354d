package kafka

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// Ensure a transaction is invisible until it is committed by somebody else, that a second commit changes
// nothing, and that what follows the barrier is not part of it.
func TestExactlyOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		s, c := openSink(t, sinkConfig(conn, topic), 1, "out"), openCommitter(t, conn)
		s.write(0, 600)
		s.write(600, 1000)
		list := s.prepare(1, 0)
		s.write(1000, 1100)
		if len(list) != 1 || list[0].Records != 1000 || list[0].Checkpoint != 1 || list[0].Sink != "out" || list[0].Resource != "main" {
			t.Fatalf("prepared %+v, want one transaction of 1000 records", list)
		}
		if n := len(readCommitted(t, conn, topic)); n != 0 {
			t.Errorf("%d records are visible before the commit", n)
		}
		for range 2 {
			if o := commit(t, c, list[0]); o != connector.Committed {
				t.Fatalf("outcome %s, want committed", o)
			}
		}
		wantVisible(t, conn, topic, 0, 1000)
		if o, err := c.Abort(t.Context(), list[0]); err != nil || o != connector.Committed {
			t.Errorf("abort after commit: %s, error %v; want committed", o, err)
		}
		list = s.prepare(2, 1)
		if len(list) != 1 || list[0].Checkpoint != 2 || list[0].Records != 100 {
			t.Fatalf("prepared %+v, want one transaction of 100 records", list)
		}
		if o := commit(t, c, list[0]); o != connector.Committed {
			t.Errorf("outcome %s, want committed", o)
		}
		if list := s.prepare(3, 2); len(list) != 0 {
			t.Errorf("prepared %+v, want none: nothing was written", list)
		}
		wantVisible(t, conn, topic, 0, 1100)
		must(t, s.Close(t.Context()))
		wantStable(t, conn, topic)
	})
}

// Ensure a checkpoint that never became durable leaves its transaction for the next one, and that slots are
// used again only when they are covered.
func TestPreparedAreListedUntilCommitted(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		s, c := openSink(t, sinkConfig(conn, topic), 1, "out"), openCommitter(t, conn)
		ids := map[string]int{}
		for n := range 6 {
			s.write(n*10, n*10+10)
			id := job.CheckpointID(n + 1)
			var committed job.CheckpointID
			if n == 5 {
				committed = 3
			}
			list := s.prepare(id, committed)
			if want := n + 1 - int(committed); len(list) != want {
				t.Fatalf("checkpoint %d lists %d transactions, want %d", id, len(list), want)
			}
			for _, tx := range list {
				if tx.Checkpoint == id {
					ids[tx.ID]++
				}
				if o := commit(t, c, tx); n >= 2 && o != connector.Committed {
					t.Fatalf("%s: outcome %s, want committed", tx.ID, o)
				}
			}
		}
		if len(ids) != 6 {
			t.Errorf("6 transactions that nothing covered used %d ids", len(ids))
		}
		for n := 6; n < 10; n++ {
			s.write(n*10, n*10+10)
			for _, tx := range s.prepare(job.CheckpointID(n+1), job.CheckpointID(n)) {
				ids[tx.ID]++
				commit(t, c, tx)
			}
		}
		if len(ids) > 8 {
			t.Errorf("%d ids: covered slots are not used again", len(ids))
		}
		wantVisible(t, conn, topic, 0, 100)
	})
}

// A transaction that the broker timed out is lost, and is never reported as committed; a timeout that
// the broker refuses is said at submit, with both values.
func TestTransactionExpired(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		cfg := sinkConfig(conn, topic)
		cfg.TxTimeout = time.Second
		s, c := openSink(t, cfg, 1, "out"), openCommitter(t, conn)
		s.write(0, 10)
		list := s.prepare(1, 0)
		s.crash()
		awaitState(t, c, list[0].ID, func(state string) bool { return state != stateOngoing && state != "PrepareAbort" })
		for range 2 {
			if o := commit(t, c, list[0]); o != connector.Lost {
				t.Errorf("outcome %s, want lost", o)
			}
		}
		if o, err := c.Abort(t.Context(), list[0]); err != nil || o != connector.Lost {
			t.Errorf("abort: %s, error %v; want lost", o, err)
		}
		wantVisible(t, conn, topic, 0, 0)

		cfg.TxTimeout = time.Hour
		_, err := NewSink(cfg).Check(t.Context())
		if job.ClassOf(err) != job.Fatal || !containsAll(err, "1h0m0s", "900000") {
			t.Errorf("error %v, want a fatal one with both values", err)
		}
		cfg.TxTimeout = 0
		if d, err := NewSink(cfg).Check(t.Context()); err != nil || d != 15*time.Minute {
			t.Errorf("timeout %s, error %v; want the broker's 15m", d, err)
		}
	})
}

func awaitState(t testing.TB, c *Committer, id string, enough func(string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for {
		d, known, err := c.describe(ctx, id)
		must(t, err)
		if !known || enough(d.State) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is still %s", id, d.State)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// What a killed worker left open is found and aborted, so that readers are not held back; what the
// checkpoint lists is left alone.
func TestDanglingTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		c := openCommitter(t, conn)
		old := []*sinkTest{openSink(t, sinkConfig(conn, topic), 1, "a"), openSink(t, sinkConfig(conn, topic), 1, "b")}
		var listed []checkpoint.Transaction
		for i, s := range old {
			s.write(i*100, i*100+100)
			listed = append(listed, s.prepare(1, 0)...)
			s.write(1000, 1010)
			must(t, s.Prepare(checkpoint.Barrier{ID: 2}).(*prepared).flushed(t)) // prepared, but no checkpoint knows
			s.write(1010, 1020)
			flushCurrent(t, s)
			s.crash()
		}
		open, err := c.Open(t.Context(), uidOf(t))
		must(t, err)
		if len(open) != 6 {
			t.Fatalf("%d open transactions, want 6: %+v", len(open), open)
		}
		if other, err := c.Open(t.Context(), "other"); err != nil || len(other) != 0 {
			t.Errorf("%d open transactions of another job, error %v", len(other), err)
		}
		for _, o := range open {
			if o.Attempt != 1 {
				t.Errorf("attempt %d, want 1", o.Attempt)
			}
			if !slices.ContainsFunc(listed, func(l checkpoint.Transaction) bool {
				return l.ID == o.Transaction.ID && l.ProducerID == o.Transaction.ProducerID && l.ProducerEpoch == o.Transaction.ProducerEpoch
			}) {
				must(t, c.AbortOpen(t.Context(), o))
				must(t, c.AbortOpen(t.Context(), o)) // again: nothing more happens
			}
		}
		for _, tx := range listed {
			if o := commit(t, c, tx); o != connector.Committed {
				t.Errorf("outcome %s, want committed", o)
			}
		}
		if open, err := c.Open(t.Context(), uidOf(t)); err != nil || len(open) != 0 {
			t.Errorf("%d transactions are still open, error %v", len(open), err)
		}
		wantVisible(t, conn, topic, 0, 200)
		wantStable(t, conn, topic)
	})
}

func (p *prepared) flushed(t testing.TB) error {
	_, err := p.Wait(t.Context())
	return err
}

// flushCurrent waits until all that was written is at the broker, also what came after the last barrier.
func flushCurrent(t testing.TB, s *sinkTest) {
	t.Helper()
	deadline := time.After(testTimeout)
	for s.acked.Load() != s.wrote {
		select {
		case <-deadline:
			t.Fatal("the current transaction is not flushed")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Ensure a rival's InitProducerID fences the writer: the transaction is lost and the failure is told once.
func TestFenced(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		s, c := openSink(t, sinkConfig(conn, topic), 1, "out"), openCommitter(t, conn)
		s.write(0, 10)
		list := s.prepare(1, 0)
		s.write(10, 20)
		flushCurrent(t, s)
		open, err := c.Open(t.Context(), uidOf(t))
		must(t, err)
		for _, o := range open {
			must(t, c.AbortOpen(t.Context(), o))
		}
		if o := commit(t, c, list[0]); o != connector.Lost {
			t.Errorf("outcome %s, want lost", o)
		}
		s.write(20, 30)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		if list, err := s.Prepare(checkpoint.Barrier{ID: 2}).Wait(ctx); err == nil {
			t.Errorf("a fenced writer prepared %+v", list)
		}
		if err := <-s.failed; job.ClassOf(err) != job.Fenced {
			t.Errorf("failure %v is %s, want fenced", err, job.ClassOf(err))
		}
		if err := s.Write(t.Context(), numbered(30, 31)); err == nil {
			t.Error("a failed writer takes more rows")
		}
		must(t, ignoreFenced(s.Close(t.Context())))
		wantVisible(t, conn, topic, 0, 0)
		wantStable(t, conn, topic)
	})
}

// ignoreFenced: the abort of a fenced transaction may say so.
func ignoreFenced(err error) error {
	if job.ClassOf(err) == job.Fenced {
		return nil
	}
	return err
}

// Ensure Close aborts what no barrier ended, and leaves what is prepared.
func TestCloseAbortsCurrent(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		s, c := openSink(t, sinkConfig(conn, topic), 1, "out"), openCommitter(t, conn)
		s.write(0, 10)
		list := s.prepare(1, 0)
		s.write(10, 20)
		flushCurrent(t, s)
		must(t, s.Close(t.Context()))
		if o := commit(t, c, list[0]); o != connector.Committed {
			t.Errorf("outcome %s, want committed", o)
		}
		wantVisible(t, conn, topic, 0, 10)
		wantStable(t, conn, topic)
		select {
		case err := <-s.failed:
			t.Errorf("closing was told as a failure: %v", err)
		default:
		}
	})
}
