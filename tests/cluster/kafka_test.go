package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

// What the connector knows of a record, its event time included, is there where the records themselves have
// nothing to read, and reaches a union with other columns.
func TestKafkaMetadata(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	kafkatest.CreateTopic(t, brokers, "in", 2)
	cl := kafkatest.Client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
	for i := range 6 {
		r := &kgo.Record{
			Topic: "in", Partition: int32(i % 2), Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, `{"id": %d}`, i),
			Timestamp: at.Add(time.Duration(i) * 10 * time.Second),
		}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t, 2, 1, fmt.Sprintf(`
name: metadata
parallelism: 2
sources:
  in:
    kafka: {brokers: [%q], topic: in, start: earliest, bounded: latest}
    format: json
    schema: {id: bigint}
    metadata: {k: key, ts: timestamp, p: partition, o: offset}
    event_time: {at: ts, max_out_of_order: 1m}
steps:
  all: {from: in, select: [o, id, p, k, ts]}
  some: {from: in, where: o > 0 and id < 4, select: [o, p]}
  minutes: {from: in, window: {tumble: 1m}, aggregate: {n: count(*)}, select: [n, window_start]}
sinks:
  a: {from: all, discard: {}}
  b: {from: some, discard: {}}
  c: {from: minutes, discard: {}}
`, brokers[0]))
	c.deploy().finish()
	for sink, want := range map[string]string{
		"a": "0 0 0 k0 2026-01-01 00:00:30.000|0 1 1 k1 2026-01-01 00:00:40.000|1 2 0 k2 2026-01-01 00:00:50.000|" +
			"1 3 1 k3 2026-01-01 00:01:00.000|2 4 0 k4 2026-01-01 00:01:10.000|2 5 1 k5 2026-01-01 00:01:20.000",
		"b": "1 0|1 1",
		"c": "3 2026-01-01 00:00:00.000|3 2026-01-01 00:01:00.000",
	} {
		if got := strings.ReplaceAll(strings.Join(c.out.rows(sink), "|"), "\t", " "); got != want {
			t.Errorf("%s: got  %s\nwant %s", sink, got, want)
		}
	}
}
