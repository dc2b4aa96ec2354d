package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load writes records into a topic at a steady rate, to every partition alike. The keys are "p<partition>-<number>", so
// that an output row says from which partition its records were read.
type load struct {
	r          *rig
	topic      string
	partitions int
	perSecond  int // in all partitions together; 0: as fast as Kafka takes them
	keys       int // of each partition
	sent       atomic.Int64
	cancel     context.CancelFunc
	running    sync.WaitGroup
	failed     kgo.FirstErrPromise
}

// startLoad writes until stop is called or the benchmark ends.
func (r *rig) startLoad(l *load) {
	r.Helper()
	l.r = r
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(r.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(10*time.Millisecond),
		kgo.DefaultProduceTopic(l.topic), kgo.MaxBufferedRecords(100_000), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	l.cancel = cancel
	l.running.Go(func() {
		defer cl.Close()
		l.run(ctx, cl)
	})
	r.Cleanup(func() { l.cancel(); l.running.Wait() })
}

// stop ends the load and fails the benchmark if a record could not be written.
func (l *load) stop() {
	l.r.Helper()
	l.cancel()
	l.running.Wait()
	if err := l.failed.Err(); err != nil {
		l.r.Fatalf("write topic %s: %v", l.topic, err)
	}
}

func (l *load) run(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	begun := time.Now()
	for n := int64(0); ; {
		due := n + 1000
		if l.perSecond > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			due = int64(time.Since(begun).Seconds() * float64(l.perSecond))
		}
		if ctx.Err() != nil {
			break
		}
		for now := time.Now(); n < due; n++ {
			p := int(n) % l.partitions
			key := fmt.Sprintf("p%d-%d", p, int(n)/l.partitions%l.keys)
			// What is in flight is written even if the load ends: a cancelled record is no failure of Kafka.
			cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: int32(p), Value: event(key, now)}, l.failed.Promise())
		}
		l.sent.Store(n)
	}
	_ = cl.Flush(context.WithoutCancel(ctx)) // a failure is in l.failed
}

// follow calls seen with every record that is committed to a topic from now on, on one goroutine, until the benchmark
// ends.
func (r *rig) follow(topic string, seen func(*kgo.Record)) {
	r.Helper()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(r.Brokers...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		r.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			f := cl.PollFetches(context.Background())
			if f.IsClientClosed() {
				return
			}
			f.EachRecord(seen)
		}
	})
	r.Cleanup(func() { cl.Close(); running.Wait() })
}
