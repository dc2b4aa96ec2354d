package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

// produce writes values, record i to partition i mod the number of partitions. An empty value is a tombstone.
func produce(t *testing.T, brokers []string, topic string, partitions int, values ...string) {
	t.Helper()
	cl := kafkatest.Client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(v)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// follower reads a topic read-committed from its beginning.
type follower struct {
	t     *testing.T
	topic string
	cl    *kgo.Client
	got   []*kgo.Record
}

func follow(t *testing.T, brokers []string, topic string, opts ...kgo.Opt) *follower {
	t.Helper()
	opts = append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	return &follower{t: t, topic: topic, cl: kafkatest.Client(t, brokers, opts...)}
}

// await reads until there are n records in all.
func (f *follower) await(n int, within time.Duration) []*kgo.Record {
	f.t.Helper()
	if !f.poll(n, within) {
		f.t.Fatalf("topic %s: %d records within %s, want %d", f.topic, len(f.got), within, n)
	}
	return f.got
}

func (f *follower) poll(n int, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(f.t.Context(), within)
	defer cancel()
	for len(f.got) < n && ctx.Err() == nil {
		f.cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { f.got = append(f.got, r) })
	}
	return len(f.got) >= n
}

// exactly reads until n records are there and everything before the high watermarks is read, and fails if there
// are more. The writers must have ended.
func (f *follower) exactly(n int) []*kgo.Record {
	f.t.Helper()
	f.await(n, 30*time.Second)
	if f.poll(n+1, time.Second) {
		f.t.Fatalf("topic %s: more than %d records: %s", f.topic, n, f.got[n].Value)
	}
	return f.got
}

// values are those of records.
func values(records []*kgo.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Value)
	}
	return out
}

// mustBeReadable fails unless a read-committed reader can read up to the high watermark of every partition.
func mustBeReadable(t *testing.T, brokers []string, topics ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	adm := kadm.NewClient(kafkatest.Client(t, brokers))
	high, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		t.Fatal(err)
	}
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		t.Fatal(err)
	}
	high.Each(func(h kadm.ListedOffset) {
		if s, ok := stable.Lookup(h.Topic, h.Partition); !ok || s.Offset != h.Offset {
			t.Errorf("topic %s partition %d: last stable offset %d, high watermark %d: a transaction is open", h.Topic, h.Partition, s.Offset, h.Offset)
		}
	})
}

// numbered are n JSON records {"id":i,"k":"k<i mod keys>","v":i,"at":<i seconds>}.
func numbered(from, n, keys int) []string {
	out := make([]string, n)
	for i := range out {
		id := from + i
		out[i] = fmt.Sprintf(`{"id":%d,"k":"k%d","v":%d,"at":%d}`, id, id%keys, id, 1_767_225_600_000+int64(id)*1000)
	}
	return out
}
