package kafka

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// recordOverhead is more than what a batch of one record needs beside key and value.
const recordOverhead = 128

// slab is a batch's rows as records: keys and values in two buffers, the records in one slice. It is used
// again when the client has acknowledged all of them.
type slab struct {
	keys, values format.Encoded
	records      []kgo.Record
	// unacked counts the records that the client still holds.
	unacked atomic.Int64
	promise func(*kgo.Record, error)
}

// bytes is about what the slab's records take in the client's buffers.
func (s *slab) bytes() int64 { return int64(len(s.keys.Buf) + len(s.values.Buf)) }

// rows turns batches into slabs.
type rows struct {
	cfg       *SinkConfig
	values    format.Encoder
	keys      format.Encoder // nil: no keys
	maxRecord int
	// kept are the rows that become records, put those of them that have a value: scratch.
	kept, put []int32
}

func newRows(cfg *SinkConfig, maxRecord int) *rows {
	r := &rows{cfg: cfg, values: cfg.Values(), maxRecord: maxRecord}
	if cfg.Keys != nil {
		r.keys = cfg.Keys()
	}
	return r
}

// encode fills s with the rows of b, all of them or, on an error, none that count.
func (r *rows) encode(s *slab, b *batch.Batch) error {
	s.keys.Reset()
	s.values.Reset()
	s.records = s.records[:0]
	kept, put := *b, *b // shallow: only their selections differ
	if b.Change != nil {
		if err := r.selectChanges(b); err != nil {
			return err
		}
		kept.Sel, put.Sel = r.kept, r.put
	}
	if err := r.values.Encode(&s.values, &put, r.cfg.ValueColumns); err != nil {
		return fmt.Errorf("encode values: %w", err)
	}
	if r.keys != nil {
		if err := r.keys.Encode(&s.keys, &kept, r.cfg.KeyColumns); err != nil {
			return fmt.Errorf("encode keys: %w", err)
		}
	}
	return r.fill(s, b, &kept)
}

// selectChanges splits rows by what they do to the table: an old row says nothing that the new one does not,
// a deleted one has a key only.
func (r *rows) selectChanges(b *batch.Batch) error {
	// Never nil: an empty selection must not select everything.
	r.kept, r.put = append(r.kept[:0], 0)[:0], append(r.put[:0], 0)[:0]
	for i, n := 0, b.Len(); i < n; i++ {
		row := b.Row(i)
		c := b.Change[row]
		if !r.cfg.Upsert && c != batch.Insert {
			return job.AsFatal(fmt.Errorf("topic %q: a sink without upsert takes inserts only, there is a %s", r.cfg.Topic, c))
		}
		if c == batch.UpdateBefore {
			continue
		}
		r.kept = append(r.kept, int32(row))
		if c != batch.Delete {
			r.put = append(r.put, int32(row))
		}
	}
	return nil
}

var errRecordTooLarge = errors.New("record is too large")

// fill makes the records of the encoded keys and values.
func (r *rows) fill(s *slab, b, kept *batch.Batch) error {
	now := time.Now()
	s.records = slices.Grow(s.records, kept.Len())
	value := 0
	for i, n := 0, kept.Len(); i < n; i++ {
		row := kept.Row(i)
		s.records = append(s.records, kgo.Record{Timestamp: now})
		rec := &s.records[i]
		if r.keys != nil {
			rec.Key = s.keys.At(i)
		}
		if b.ChangeAt(row) != batch.Delete {
			rec.Value = s.values.At(value)
			value++
		}
		if size := len(rec.Key) + len(rec.Value) + recordOverhead; size > r.maxRecord {
			return &batch.RowError{Row: row, Place: fmt.Sprintf("topic %q", r.cfg.Topic), Err: job.AsFatal(fmt.Errorf(
				"%w: %d bytes, the topic's max.message.bytes is %d", errRecordTooLarge, size, r.maxRecord))}
		}
	}
	return nil
}
