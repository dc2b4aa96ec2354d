package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

// produce writes numbered records to one partition.
func produce(t testing.TB, brokers []string, topic string, partition int32, from, n int) {
	t.Helper()
	cl := kafkatest.Client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", from+i), Value: fmt.Appendf(nil, "%d", from+i)}
	}
	must(t, cl.ProduceSync(t.Context(), rs...).FirstErr())
}

// tail reads from a reader, one split at a time in order.
type tail struct {
	t       testing.TB
	r       connector.Reader
	values  map[string][]string
	splits  map[string]connector.Split
	lag     map[string]int64
	empty   map[string]int // how often there was said to be nothing left
	gap     int64
	lastErr error
}

func openTail(t testing.TB, s *Source, index, p int, splits []connector.Split) *tail {
	t.Helper()
	r, err := s.Open(t.Context(), index, p, splits)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return &tail{t: t, r: r, values: map[string][]string{}, splits: map[string]connector.Split{}, lag: map[string]int64{}, empty: map[string]int{}}
}

// until reads until enough is true, or the reader ends (with an error or not).
func (l *tail) until(enough func() bool) {
	l.t.Helper()
	deadline := time.After(testTimeout)
	for !enough() {
		select {
		case f, ok := <-l.r.Fetches():
			if !ok {
				return
			}
			l.take(f)
		case <-deadline:
			l.t.Fatalf("timeout; read so far: %v", l.splits)
		}
	}
}

func (l *tail) take(f connector.Fetch) {
	l.t.Helper()
	if f.Err != nil {
		l.lastErr = f.Err
		return
	}
	id := f.Split.ID
	if old, ok := l.splits[id]; ok && f.Split.Position < old.Position {
		l.t.Errorf("split %s went back from %d to %d", id, old.Position, f.Split.Position)
	}
	if f.Records != nil {
		for i := range f.Records.Len() {
			if o := f.Records.Offsets[i]; o >= f.Split.Position || o < l.splits[id].Position {
				l.t.Errorf("split %s: offset %d outside of [%d, %d)", id, o, l.splits[id].Position, f.Split.Position)
			}
			l.values[id] = append(l.values[id], string(f.Records.Value(i)))
		}
	}
	l.splits[id], l.lag[id] = f.Split, f.Lag
	l.gap += f.Gap
	if f.Lag == 0 {
		l.empty[id]++
	}
}

// wantNumbers checks that the values of a split are from, from+1, …, to-1.
func (l *tail) wantNumbers(id string, from, to int) {
	l.t.Helper()
	if len(l.values[id]) != to-from {
		l.t.Fatalf("split %s has %d values, want [%d, %d)", id, len(l.values[id]), from, to)
	}
	for i, v := range l.values[id] {
		if want := fmt.Sprint(from + i); v != want {
			l.t.Fatalf("split %s: value %d is %s, want %s", id, i, v, want)
		}
	}
}

func resolve(t testing.TB, s *Source) []connector.Split {
	t.Helper()
	splits, err := s.Resolve(t.Context())
	must(t, err)
	return splits
}
