package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

const (
	// fetchWaitMillis is how long a broker holds a fetch that has nothing to answer with.
	fetchWaitMillis = 250
	// emptyAgain is how often the subtask hears that a partition has nothing left.
	emptyAgain = 200 * time.Millisecond
	// recordsBytes is about how many decompressed bytes one Records holds at most.
	recordsBytes = 4 << 20
)

// fetchResult is the end of a fetch: err is about all of its partitions, errs[i] about parts[i].
type fetchResult struct {
	broker int32
	parts  []*partition
	err    error
	errs   []error
}

// fetchRequest asks for parts from their positions. It uses no fetch session: one would save bytes for
// thousands of idle partitions and cost state that must be kept in step.
func (r *reader) fetchRequest(parts []*partition) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = fetchWaitMillis
	req.MinBytes = 1
	req.MaxBytes = r.cfg.FetchBytes
	req.IsolationLevel = 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = r.cfg.Topic
	for _, p := range parts {
		topic.TopicID = p.topic // the same in all of them, or sameTopic has ended the reader
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition = p.id
		rp.FetchOffset = p.split.Position
		rp.CurrentLeaderEpoch = p.leader.epoch
		rp.PartitionMaxBytes = r.cfg.PartitionBytes
		topic.Partitions = append(topic.Partitions, rp)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

// fetch sends req to broker and delivers what it answers, as far as the subtask takes it.
func (r *reader) fetch(broker int32, req *kmsg.FetchRequest, parts []*partition) fetchResult {
	res := fetchResult{broker: broker, parts: parts, errs: make([]error, len(parts))}
	kresp, err := r.cl.Broker(int(broker)).Request(r.ctx, req)
	if err != nil {
		res.err = classify(err, "fetch from topic", r.cfg.Topic, "Read")
		return res
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := codeError(resp.ErrorCode); err != nil {
		res.err = classify(err, "fetch from topic", r.cfg.Topic, "Read")
		return res
	}
	answers := make(map[int32]*kmsg.FetchResponseTopicPartition, len(parts))
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			rp := &resp.Topics[i].Partitions[j]
			answers[rp.Partition] = rp
		}
	}
	for i, p := range parts {
		rp, ok := answers[p.id]
		if !ok {
			res.errs[i] = fmt.Errorf("fetch from topic %q: the broker did not answer for partition %d", r.cfg.Topic, p.id)
			continue
		}
		res.errs[i] = r.take(p, rp)
	}
	return res
}

// take delivers the records of one partition's answer and moves its position.
func (r *reader) take(p *partition, rp *kmsg.FetchResponseTopicPartition) error {
	switch err := codeError(rp.ErrorCode); err {
	case nil:
	case kerr.OffsetOutOfRange: //nolint:errorlint // codeError returns bare values
		return r.outOfRange(p)
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID:
		// Metadata decides whether the topic is gone.
		return fmt.Errorf("fetch from topic %q, partition %d: %w", r.cfg.Topic, p.id, err)
	default:
		return r.about(p, classify(err, "fetch from topic", r.cfg.Topic, "Read"))
	}
	w := newWalker(r.codecs, fmt.Sprintf("%s/%d", r.cfg.Topic, p.id), rp, p.split.Position, p.end())
	for {
		records, err := w.next(recordsBytes)
		if err != nil {
			return r.about(p, job.AsFatal(err))
		}
		lag := max(0, min(rp.HighWatermark, p.end())-w.position)
		if records == nil && w.position == p.split.Position {
			if len(rp.RecordBatches) > 0 && w.at == 0 {
				// Brokers send the first batch whole, however large. Another one would have us ask for ever.
				return r.about(p, fmt.Errorf("the broker sent %d bytes and no whole batch", len(rp.RecordBatches)))
			}
			if lag == p.lag && (lag > 0 || time.Since(p.told) < emptyAgain) {
				return nil // no news
			}
		}
		split := p.split
		split.Position = w.position
		if !r.send(connector.Fetch{Split: split, Records: records, Lag: lag}) {
			return nil // closed: the position does not matter any more
		}
		p.split, p.lag, p.told = split, lag, time.Now()
		if records == nil {
			return nil
		}
	}
}

// about attaches the split to an error.
func (r *reader) about(p *partition, err error) error {
	if err == nil {
		return nil
	}
	wrapped := &partitionError{p.split, fmt.Errorf("topic %q, partition %d, offset %d: %w", r.cfg.Topic, p.id, p.split.Position, err)}
	if job.ClassOf(err) == job.Fatal {
		return job.AsFatal(wrapped)
	}
	return wrapped
}

// outOfRange decides about a position that the broker does not have: the records are lost, unless it was
// only a replica that lags behind.
func (r *reader) outOfRange(p *partition) error {
	adm := kadm.NewClient(r.cl)
	start, err := r.bound(p, adm.ListStartOffsets)
	if err != nil {
		return err
	}
	end, err := r.bound(p, adm.ListEndOffsets)
	if err != nil {
		return err
	}
	at := p.split.Position
	if at >= start && at <= end {
		return r.about(p, fmt.Errorf("%w, but the leader has [%d, %d)", kerr.OffsetOutOfRange, start, end))
	}
	if !r.cfg.ResetLost {
		return job.AsFatal(&partitionError{p.split, fmt.Errorf(
			"topic %q, partition %d: offset %d is lost: the broker has [%d, %d); on_lost: earliest goes on at the earliest record",
			r.cfg.Topic, p.id, at, start, end)})
	}
	split := p.split
	split.Position = min(start, p.end())
	gap := max(0, split.Position-at) // a log that was cut off at its end loses an unknown number
	r.cfg.Log.Warn("kafka source: records are lost", "topic", r.cfg.Topic, "partition", p.id, "offset", at, "start", start, "end", end)
	if r.send(connector.Fetch{Split: split, Lag: max(0, end-split.Position), Gap: gap}) {
		p.split = split
	}
	return nil
}

func (r *reader) bound(p *partition, ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (int64, error) {
	listed, err := ask(r.ctx, r.cfg.Topic)
	if err != nil {
		return 0, classify(err, "list offsets of topic", r.cfg.Topic, "Describe")
	}
	o, ok := listed.Lookup(r.cfg.Topic, p.id)
	if !ok {
		return 0, fmt.Errorf("list offsets of topic %q: no answer for partition %d", r.cfg.Topic, p.id)
	}
	return o.Offset, r.about(p, o.Err)
}
