package kafka

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
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

// testTimeout is how long a test waits for an event.
const testTimeout = 30 * time.Second

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
func onReal(t testing.TB) *kafkatest.Broker {
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
	// A broker answers when the decision is logged, and writes the markers that readers see afterwards.
	awaitState(t, c, tx.ID, func(state string) bool { return !strings.HasPrefix(state, "Prepare") })
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

// wantStable checks that soon no transaction holds readers back.
func wantStable(t testing.TB, conn ConnConfig, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	adm := kadm.NewClient(kafkatest.Client(t, conn.Brokers))
	for {
		stable, err := adm.ListCommittedOffsets(ctx, topic)
		must(t, err)
		ends, err := adm.ListEndOffsets(ctx, topic)
		must(t, err)
		behind := ""
		ends.Each(func(e kadm.ListedOffset) {
			if s, _ := stable.Lookup(topic, e.Partition); s.Offset != e.Offset {
				behind = fmt.Sprintf("partition %d: last stable offset %d, high watermark %d", e.Partition, s.Offset, e.Offset)
			}
		})
		if behind == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(behind)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
