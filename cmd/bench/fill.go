package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/connector/nexmark"
	"github.com/weirstream/weir/dataplane/format"
)

// Fill says which input is made.
type Fill struct {
	Brokers []string
	Topic   string
	// Partitions share the events by turns: event i goes to partition i mod Partitions.
	Partitions int32
	Events     int64
	// Rate is the number of events a second of event time, which begins on 2026-01-01.
	Rate     float64
	Progress func(string)
}

// Nexmark deletes the topic if it exists and writes the Nexmark events into it, uncompressed, as JSON with the
// event's time as the record's.
func (f Fill) Nexmark(ctx context.Context) error {
	src, err := nexmark.New(nexmark.Config{Events: f.Events, Rate: f.Rate, Splits: int(f.Partitions)})
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(f.Brokers...), kgo.DefaultProduceTopic(f.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(900_000), kgo.ProducerLinger(10*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000),
	)
	if err != nil {
		return fmt.Errorf("connect to Kafka at %s: %w", strings.Join(f.Brokers, ","), err)
	}
	defer cl.Close()
	if err := f.create(ctx, kadm.NewClient(cl)); err != nil {
		return fmt.Errorf("create topic %s: %w", f.Topic, err)
	}
	splits, err := src.Resolve(ctx)
	if err != nil {
		return err
	}
	reader, err := src.Open(ctx, 0, 1, splits)
	if err != nil {
		return err
	}
	defer reader.Close()
	var failed kgo.FirstErrPromise
	written, told := int64(0), time.Now()
	for fetch := range reader.Fetches() {
		produce(ctx, cl, fetch.Records, &failed)
		written += int64(fetch.Records.Len())
		if now := time.Now(); f.Progress != nil && now.Sub(told) >= time.Second {
			told = now
			f.Progress(fmt.Sprintf("%s of %s events written", grouped(written), grouped(f.Events)))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := errors.Join(cl.Flush(ctx), failed.Err()); err != nil {
		return fmt.Errorf("write topic %s: %w", f.Topic, err)
	}
	return nil
}

func produce(ctx context.Context, cl *kgo.Client, rs *format.Records, failed *kgo.FirstErrPromise) {
	for i := range rs.Len() {
		cl.Produce(ctx, &kgo.Record{
			Value: rs.Value(i), Partition: rs.Partition, Timestamp: time.UnixMicro(rs.Times[i]),
		}, failed.Promise())
	}
}

// create makes the topic anew. A deletion takes brokers a moment, during which the name is still taken.
func (f Fill) create(ctx context.Context, adm *kadm.Client) error {
	old, err := adm.DeleteTopic(ctx, f.Topic)
	if err == nil {
		err = old.Err
	}
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	forever := "-1"
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		made, err := adm.CreateTopic(ctx, f.Partitions, -1, map[string]*string{"retention.ms": &forever, "retention.bytes": &forever}, f.Topic)
		if err == nil {
			err = made.Err
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}
