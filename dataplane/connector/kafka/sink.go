package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// Connector is the kind that this package's transactions carry (checkpoint.Transaction.Connector).
const Connector = "kafka"

// SinkConfig are the settings of a sink. Zero values mean the defaults.
type SinkConfig struct {
	Conn ConnConfig
	// Resource goes into the transactions, so that a committer finds the connection: its name in the spec.
	Resource string
	Topic    string
	// Prefix starts transactional ids: transaction.DefaultPrefix.
	Prefix string
	// Values makes the encoder of record values, which are made of ValueColumns.
	Values       func() format.Encoder
	ValueColumns []int
	// Keys makes the encoder of record keys; nil: no key, records go to any partition.
	Keys       func() format.Encoder
	KeyColumns []int
	// Upsert writes a Delete as a tombstone and leaves UpdateBefore out; it needs Keys. Otherwise only inserts
	// are taken.
	Upsert bool
	// AtLeastOnce writes without transactions; a barrier only waits until everything is acknowledged.
	AtLeastOnce bool
	// TxTimeout is the transactions' timeout: the broker's transaction.max.timeout.ms.
	TxTimeout time.Duration
	// BufferBytes bounds the encoded rows that wait to be handed to the client, and what the client holds
	// itself: 32 MiB each.
	BufferBytes int
}

// Sink is a connector.Sink over one topic.
type Sink struct{ cfg SinkConfig }

var _ connector.Sink = (*Sink)(nil)

// NewSink returns a sink; nothing is dialled.
func NewSink(cfg SinkConfig) *Sink {
	cfg.Prefix = orDefault(cfg.Prefix, transaction.DefaultPrefix)
	cfg.BufferBytes = orDefault(cfg.BufferBytes, 32<<20)
	return &Sink{cfg: cfg}
}

// Open checks the topic, the transactions' timeout and the right to use transactional ids.
//
// The writer's Write takes a batch as a whole or not at all: a row that cannot be encoded, or whose record is
// larger than the topic allows, is a *batch.RowError and nothing of the batch is written, so that the caller
// may leave the row out and write the rest.
func (s *Sink) Open(ctx context.Context, cfg connector.WriterConfig) (connector.Writer, error) {
	who := fmt.Sprintf("open sink %s[%d]", cfg.Operator, cfg.Index)
	var facts topicFacts
	err := s.cfg.Conn.with(ctx, func(ctx context.Context, cl *kgo.Client) (err error) {
		facts, err = s.facts(ctx, cl)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	w := newWriter(s.cfg, cfg, facts)
	if s.cfg.AtLeastOnce {
		w.plain, err = s.cfg.Conn.client(s.plainOptions(facts)...)
	} else {
		w.txs, err = s.openTransactions(ctx, w.ctx, facts, cfg)
	}
	if err != nil {
		w.cancel(errClosed)
		if w.txs != nil {
			_ = w.txs.close(ctx) // nothing was begun
		}
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	w.background.Go(w.run)
	return w, nil
}

// openTransactions takes the first producer id within ctx; life is the writer's. What it returns is to be closed
// even with an error, if it is not nil.
func (s *Sink) openTransactions(ctx, life context.Context, f topicFacts, cfg connector.WriterConfig) (*transactions, error) {
	base := transaction.ID{Prefix: s.cfg.Prefix, UID: cfg.Ref.UID, Sink: cfg.Operator, Attempt: cfg.Ref.Attempt, Subtask: cfg.Index}
	if err := base.Validate(); err != nil {
		return nil, job.AsFatal(err)
	}
	t := newTransactions(s, f, base)
	t.warmUp(life)
	return t, t.ready(ctx, life)
}

// producerOptions are the client options of everything that produces.
func (s *Sink) producerOptions(f topicFacts) []kgo.Opt {
	return []kgo.Opt{
		kgo.DefaultProduceTopic(s.cfg.Topic),
		kgo.ProducerBatchMaxBytes(int32(f.maxRecord)),
		kgo.MaxBufferedBytes(s.cfg.BufferBytes),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// Records with a key go where Java's default partitioner puts them.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.BrokerMaxWriteBytes(int32(max(100<<20, f.maxRecord+1<<20))),
	}
}

// plainOptions are those of a client at least once. Readers wait for its records, so none waits for others to keep it
// company: those that come while requests are under way go together.
func (s *Sink) plainOptions(f topicFacts) []kgo.Opt {
	return append(s.producerOptions(f), kgo.ProducerLinger(0))
}

// txOptions are those of a client that holds one transaction, of which nobody reads anything before its end: full batches
// are worth a wait.
func (s *Sink) txOptions(f topicFacts, id string) []kgo.Opt {
	opts := append(s.producerOptions(f), kgo.ProducerLinger(5*time.Millisecond), kgo.TransactionalID(id),
		kgo.TransactionTimeout(f.txTimeout), kgo.RetryTimeoutFn(askOnce))
	if f.protocol < 2 {
		opts = append(opts, kgo.MaxVersions(protocol1()))
	}
	return opts
}

// protocol1 are the newest request versions with which a transaction stays one of transaction.version 1,
// whatever the cluster is upgraded to meanwhile: EndTxn 5 would raise the epoch.
func protocol1() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	return v
}
