package proof

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func startKafka(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := CreateTopics(t.Context(), c.ListenAddrs(), 2); err != nil {
		t.Fatal(err)
	}
	return c.ListenAddrs()
}

// TestProduceAndRead sends a workload, answers as a correct job would, and lets the reader judge.
func TestProduceAndRead(t *testing.T) {
	brokers := startKafka(t)
	w := NewWorkload(11, 3000)
	var told int
	if err := w.Produce(t.Context(), brokers, 0, func(n int) { told = n }); err != nil {
		t.Fatal(err)
	}
	if told != w.Records {
		t.Errorf("got told of %d records, want %d", told, w.Records)
	}
	in := consume(t, brokers, w.Records+2, Transfers, Logins)
	if got := len(in); got != w.Records+2 { // a closing record in both partitions of transfers
		t.Fatalf("got %d records in the input, want %d", got, w.Records+2)
	}
	reader, err := NewReader(brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	rows := perfect(w)
	for _, r := range rows {
		cl.Produce(t.Context(), &kgo.Record{Topic: r.topic, Value: []byte(r.value)}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want := w.Expect()
	if err := reader.Await(ctx, want); err != nil {
		t.Fatalf("await: %v\n%s", err, reader.Verdict(want))
	}
	if v := reader.Verdict(want); !v.ExactlyOnce() {
		t.Errorf("got\n%s\nwant exactly once", v)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: Passed, Value: []byte(rows[0].value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := reader.AwaitQuiet(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if got := reader.Progress(); got.Doubled != 1 || got.Passed != w.Records {
		t.Errorf("got %+v, want one doubled of %d", got, w.Records)
	}
}

func consume(t *testing.T, brokers []string, n int, topics ...string) (out []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(out) < n && ctx.Err() == nil {
		out = append(out, cl.PollFetches(ctx).Records()...)
	}
	return out
}

func TestProduceStopsWithItsContext(t *testing.T) {
	brokers := startKafka(t)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := NewWorkload(1, 1_000_000).Produce(ctx, brokers, 1000, func(n int) {
		if n >= 100 {
			cancel(stop)
		}
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

// TestProduceUntil stops in the middle: what was sent is a workload of its own, with its windows closed.
func TestProduceUntil(t *testing.T) {
	brokers := startKafka(t)
	stop := make(chan struct{})
	halt := sync.OnceFunc(func() { close(stop) })
	all := NewWorkload(3, 1_000_000)
	sent, err := all.ProduceUntil(t.Context(), brokers, 2000, func(n int) {
		if n >= 100 {
			halt()
		}
	}, stop)
	if err != nil {
		t.Fatal(err)
	}
	if sent.Records < 100 || sent.Records >= all.Records {
		t.Fatalf("got %d records sent, want a part of %d", sent.Records, all.Records)
	}
	if got, want := len(consume(t, brokers, sent.Records+2, Transfers, Logins)), sent.Records+2; got != want {
		t.Errorf("got %d records in the input, want %d", got, want)
	}
	if got := sent.Event(50); got != all.Event(50) {
		t.Errorf("event 50 is %+v, want %+v", got, all.Event(50))
	}
}

// TestAwaitEnds shows that a wait for output that never comes ends with its context.
func TestAwaitEnds(t *testing.T) {
	reader, err := NewReader(startKafka(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := NewWorkload(1, 10).Expect()
	if err := reader.Await(ctx, want); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if v := reader.Verdict(want); v.Lost != 10 || v.ExactlyOnce() {
		t.Errorf("got %+v, want 10 lost", v)
	}
}
