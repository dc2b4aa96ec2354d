package kafka

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// realBroker is the broker that all tests of this package share; nil until one needs it.
var realBroker *kafkatest.Broker

func TestMain(m *testing.M) {
	code := m.Run()
	if realBroker != nil {
		realBroker.Kill()
		_ = os.RemoveAll(realBrokerDir)
	}
	os.Exit(code)
}

var realBrokerDir string

// onReal returns the shared real broker. Timed-out transactions are aborted within a second on it.
func onReal(t *testing.T) *kafkatest.Broker {
	t.Helper()
	if realBroker != nil {
		return realBroker
	}
	kafkatest.SkipUnlessReal(t)
	dir, err := os.MkdirTemp("", "weir-kafka-")
	must(t, err)
	realBrokerDir = dir
	realBroker, err = kafkatest.Start(t.Context(), kafkatest.Options{Dir: dir, Properties: map[string]string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
	}})
	must(t, err)
	return realBroker
}

// onBoth runs a test on kfake and on a real broker.
func onBoth(t *testing.T, test func(t *testing.T, conn ConnConfig, topic string)) {
	run := func(t *testing.T, brokers []string) {
		topic := fmt.Sprintf("t-%d", time.Now().UnixNano())
		kafkatest.CreateTopic(t, brokers, topic, 2)
		test(t, ConnConfig{Brokers: brokers}, topic)
	}
	t.Run("kfake", func(t *testing.T) { run(t, kafkatest.Fake(t).ListenAddrs()) })
	t.Run("kafka", func(t *testing.T) { run(t, []string{onReal(t).Addr()}) })
}

// plainEncoder writes the columns as text, joined by commas.
type plainEncoder struct{}

func (plainEncoder) Encode(dst *format.Encoded, b *batch.Batch, cols []int) error {
	for i := range b.Len() {
		row := b.Row(i)
		for k, c := range cols {
			if k > 0 {
				dst.Buf = append(dst.Buf, ',')
			}
			if b.Cols[c].Type.IsView() {
				dst.Buf = append(dst.Buf, b.Cols[c].Bytes(row)...)
			} else {
				dst.Buf = fmt.Append(dst.Buf, b.Cols[c].Ints[row])
			}
		}
		dst.Ends = append(dst.Ends, int32(len(dst.Buf)))
	}
	return nil
}

var numbers = &batch.Schema{Fields: []batch.Field{{Name: "key", Type: batch.Type{Kind: batch.Int64}}, {Name: "n", Type: batch.Type{Kind: batch.Int64}}}}

// numbered is a batch of the rows (n mod 10, n) for n in [from, to).
func numbered(from, to int) *batch.Batch {
	b := &batch.Batch{Schema: numbers, Rows: to - from, Watermark: batch.NoWatermark, Cols: []batch.Column{
		batch.NewColumn(batch.Type{Kind: batch.Int64}, to-from), batch.NewColumn(batch.Type{Kind: batch.Int64}, to-from)}}
	for i := range b.Rows {
		b.Cols[0].Ints[i], b.Cols[1].Ints[i] = int64(from+i)%10, int64(from+i)
	}
	return b
}

func newEncoder() format.Encoder { return plainEncoder{} }

func sinkConfig(conn ConnConfig, topic string) SinkConfig {
	return SinkConfig{Conn: conn, Topic: topic, Resource: "main", Values: newEncoder, ValueColumns: []int{1}, Keys: newEncoder, KeyColumns: []int{0}}
}

// sinkTest is a writer under test.
type sinkTest struct {
	*writer
	t      testing.TB
	failed chan error
	wrote  int64 // records
}

// openSink opens a writer. The uid is unique to the test, the attempt and sink are given.
func openSink(t testing.TB, cfg SinkConfig, attempt job.Attempt, sink string) *sinkTest {
	t.Helper()
	s := &sinkTest{t: t, failed: make(chan error, 1)}
	w, err := NewSink(cfg).Open(t.Context(), connector.WriterConfig{
		Ref: job.Ref{UID: uidOf(t), Attempt: attempt}, Operator: sink, Failed: func(err error) { s.failed <- err },
	})
	must(t, err)
	s.writer = w.(*writer)
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return s
}

var uids sync.Map

func uidOf(t testing.TB) job.UID {
	uid, _ := uids.LoadOrStore(t.Name(), job.UID(fmt.Sprintf("%x", time.Now().UnixNano())))
	return uid.(job.UID)
}

func (s *sinkTest) write(from, to int) {
	s.t.Helper()
	must(s.t, s.Write(s.t.Context(), numbered(from, to)))
	s.wrote += int64(to - from)
}

func (s *sinkTest) prepare(n, committed job.CheckpointID) []checkpoint.Transaction {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	list, err := s.Prepare(checkpoint.Barrier{ID: n, Committed: committed}).Wait(ctx)
	must(s.t, err)
	return list
}

// crash ends the writer as the end of its process would: nothing is aborted.
func (s *sinkTest) crash() {
	s.t.Helper()
	s.failOnce.Do(func() { s.cancel(errClosed) })
	s.background.Wait()
	if p := s.txs.current; p != nil {
		p.cl.Close()
		s.txs.current = nil
	}
}

func openCommitter(t testing.TB, conn ConnConfig) *Committer {
	t.Helper()
	c, err := NewCommitter(conn, "")
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func commit(t testing.TB, c *Committer, tx checkpoint.Transaction) connector.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	o, err := c.Commit(ctx, tx)
	must(t, err)
	return o
}

// readCommitted reads a topic to its last stable offset and returns the records.
func readCommitted(t testing.TB, conn ConnConfig, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	cl := kafkatest.Client(t, conn.Brokers, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	must(t, err)
	must(t, ends.Error())
	at := map[int32]int64{}
	var rs []*kgo.Record
	more := func() bool {
		for p, e := range ends[topic] {
			if at[p] < e.Offset {
				return true
			}
		}
		return false
	}
	// Offsets of aborted records are never delivered; control records after them are.
	for more() {
		fs := cl.PollFetches(ctx)
		must(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				rs = append(rs, r)
			}
		})
	}
	return rs
}

// wantVisible checks that exactly the numbers [from, to) are visible, each once and in order per key.
func wantVisible(t testing.TB, conn ConnConfig, topic string, from, to int) {
	t.Helper()
	last := map[string]int{}
	var got []int
	for _, r := range readCommitted(t, conn, topic) {
		var n int
		_, err := fmt.Sscan(string(r.Value), &n)
		must(t, err)
		if prev, ok := last[string(r.Key)]; ok && prev >= n {
			t.Errorf("key %s: %d after %d", r.Key, n, prev)
		}
		last[string(r.Key)] = n
		got = append(got, n)
	}
	slices.Sort(got)
	if len(got) != to-from {
		t.Errorf("%d records are visible, want %d", len(got), to-from)
	}
	for i, n := range got {
		if n != from+i {
			t.Fatalf("number %d is %d, want %d", i, n, from+i)
		}
	}
}

// wantStable checks that no transaction holds readers back.
func wantStable(t testing.TB, conn ConnConfig, topic string) {
	t.Helper()
	adm := kadm.NewClient(kafkatest.Client(t, conn.Brokers))
	stable, err := adm.ListCommittedOffsets(t.Context(), topic)
	must(t, err)
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	must(t, err)
	ends.Each(func(e kadm.ListedOffset) {
		if s, _ := stable.Lookup(topic, e.Partition); s.Offset != e.Offset {
			t.Errorf("partition %d: last stable offset %d, high watermark %d", e.Partition, s.Offset, e.Offset)
		}
	})
}

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

// TX-02: a transaction that the broker timed out is lost, and is never reported as committed; a timeout that
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

// TX-03: what a killed worker left open is found and aborted, so that readers are not held back; what the
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

// TX-04: two sinks of one job, and two jobs, write one topic at the same time without fencing each other.
func TestSinksDoNotFenceEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		a, b := openSink(t, sinkConfig(conn, topic), 1, "a"), openSink(t, sinkConfig(conn, topic), 1, "b")
		c := openCommitter(t, conn)
		for n := range 4 {
			a.write(n*20, n*20+10)
			b.write(n*20+10, n*20+20)
			id := job.CheckpointID(n + 1)
			for _, tx := range slices.Concat(a.prepare(id, id-1), b.prepare(id, id-1)) {
				if o := commit(t, c, tx); o != connector.Committed {
					t.Fatalf("outcome %s, want committed", o)
				}
			}
		}
		wantVisible(t, conn, topic, 0, 80)
	})
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

// TX-01: the broker and the writer die after the pre-commit; the transaction survives both and is committed
// from another process's client.
func TestCrashBetweenPrepareAndCommit(t *testing.T) {
	b := onReal(t)
	conn := ConnConfig{Brokers: []string{b.Addr()}}
	kafkatest.CreateTopic(t, conn.Brokers, "crash", 2)
	s := openSink(t, sinkConfig(conn, "crash"), 1, "out")
	for i := range 10 {
		s.write(i*1000, i*1000+1000)
	}
	list := s.prepare(1, 0)
	s.crash()
	b.Kill()
	must(t, b.Restart(t.Context()))
	if o := commit(t, openCommitter(t, conn), list[0]); o != connector.Committed {
		t.Fatalf("outcome %s, want committed", o)
	}
	wantVisible(t, conn, "crash", 0, 10_000)
	wantStable(t, conn, "crash")
}

// Ensure the source reads on through a broker's SIGKILL and restart.
func TestSourceSurvivesBrokerRestart(t *testing.T) {
	b := onReal(t)
	conn := ConnConfig{Brokers: []string{b.Addr()}}
	kafkatest.CreateTopic(t, conn.Brokers, "restart", 1)
	produce(t, conn.Brokers, "restart", 0, 0, 1000)
	s := NewSource(SourceConfig{Conn: conn, Topic: "restart"})
	l := openTail(t, s, 0, 1, resolve(t, s))
	l.until(func() bool { return len(l.values["0"]) >= 1000 })
	b.Kill()
	must(t, b.Restart(t.Context()))
	produce(t, conn.Brokers, "restart", 0, 1000, 1000)
	l.until(func() bool { return l.lastErr != nil || len(l.values["0"]) >= 2000 })
	must(t, l.lastErr)
	l.wantNumbers("0", 0, 2000)
}

// Ensure the walker and the client agree on what a real broker stores.
func TestWalkerOnRealBroker(t *testing.T) {
	b := onReal(t)
	brokers := []string{b.Addr()}
	kafkatest.CreateTopic(t, brokers, "walk", 1)
	produceMixed(t, brokers, "walk")
	rp := rawFetch(t, kafkatest.Client(t, brokers), "walk", 0)
	if len(rp.AbortedTransactions) == 0 {
		t.Fatal("the response names no aborted transaction: the test tests nothing")
	}
	compare(t, rp, 0, 1, 7, 150, 377, 1<<40)
}
