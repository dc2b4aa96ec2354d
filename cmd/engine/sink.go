package engine

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/discard"
	"github.com/weirstream/weir/dataplane/connector/files"
	"github.com/weirstream/weir/dataplane/connector/kafka"
	"github.com/weirstream/weir/dataplane/connector/print"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/format/json"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/plan"
)

// sink makes the end of a pipeline.
func (e *Engine) sink(j *config.Job, s *plan.Sink) (connector.Sink, error) {
	switch {
	case s.Spec.Discard:
		return discard.New(), nil
	case s.Spec.Print:
		return print.New(print.Config{NewEncoder: encoder(s.Spec.Format, s.In)}), nil
	case s.Spec.Kafka != nil:
		return e.kafkaSink(j, s)
	}
	path, err := s.Spec.Files.Path.Resolve()
	if err != nil {
		return nil, err
	}
	return files.NewSink(files.SinkConfig{
		Dir: path, NewEncoder: encoder(s.Spec.Format, s.In),
	}), nil
}

// encoder returns a maker of encoders for one schema. The planner has checked the schema.
func encoder(f *config.Format, s *batch.Schema) func() (format.Encoder, error) {
	return func() (format.Encoder, error) { return json.NewEncoder(outputOptions(f), s) }
}

// outputOptions are jsonOptions but for print without a format, which writes ISO timestamps.
func outputOptions(f *config.Format) json.Options {
	if f == nil {
		return json.Options{Timestamps: json.ISO}
	}
	return jsonOptions(f)
}

func (e *Engine) kafkaSink(j *config.Job, s *plan.Sink) (*kafka.Sink, error) {
	k := s.Spec.Kafka
	conn, err := kafkaConn(j, k.KafkaEndpoint)
	if err != nil {
		return nil, err
	}
	topic, err := k.Topic.Resolve()
	if err != nil {
		return nil, err
	}
	cfg := kafka.SinkConfig{
		Conn: conn, Resource: k.Connection.Text, Topic: topic, Prefix: e.TransactionPrefix, Upsert: s.Upsert,
		AtLeastOnce: s.Spec.Delivery == config.AtLeastOnce, TxTimeout: k.TransactionTimeout,
	}
	if cfg.Values, err = made(s.Spec.Format, s.In); err != nil {
		return nil, err
	}
	for i := range s.In.Fields {
		cfg.ValueColumns = append(cfg.ValueColumns, i)
	}
	if len(s.Key) > 0 {
		keys := s.Spec.KeyFormat
		if keys == nil {
			keys = s.Spec.Format
		}
		if cfg.Keys, err = made(keys, s.In); err != nil {
			return nil, err
		}
		cfg.KeyColumns = s.Key
	}
	return kafka.NewSink(cfg), nil
}

// made is encoder for callers whose makers cannot fail: the first one is made now to prove it.
func made(f *config.Format, s *batch.Schema) (func() format.Encoder, error) {
	if _, err := json.NewEncoder(outputOptions(f), s); err != nil {
		return nil, err
	}
	return func() format.Encoder {
		enc, err := json.NewEncoder(outputOptions(f), s)
		if err != nil {
			panic(fmt.Sprintf("engine: encoder of a checked schema: %v", err))
		}
		return enc
	}, nil
}

// checkSink proves, when a job starts, that a sink can be reached and that its transactions live long enough.
func (e *Engine) checkSink(ctx context.Context, p *plan.Plan, s *plan.Sink) error {
	if s.Spec.Kafka == nil {
		return nil
	}
	k, err := e.kafkaSink(p.Job, s)
	if err != nil {
		return job.AsFatal(err)
	}
	timeout, err := k.Check(ctx)
	if err != nil || timeout == 0 {
		return err
	}
	c := p.Job.Checkpoint
	if err := config.CheckTransactionTimeout(c.Interval, c.Timeout, timeout); err != nil {
		return job.AsFatal(err)
	}
	return nil
}

// committer returns how to open what ends the transactions of a sink; the same key reaches the same system in the same
// way.
func (e *Engine) committer(j *config.Job, s *config.Sink) (key string, dial func() (connector.Committer, error), err error) {
	if s.Kafka != nil {
		conn, err := kafkaConn(j, s.Kafka.KafkaEndpoint)
		if err != nil {
			return "", nil, job.AsFatal(err)
		}
		return connectionKey(conn), func() (connector.Committer, error) {
			c, err := kafka.NewCommitter(conn, e.TransactionPrefix)
			if err != nil {
				return nil, fmt.Errorf("sink %s: %w", s.Name, err)
			}
			return c, nil
		}, nil
	}
	if s.Files != nil {
		path, err := s.Files.Path.Resolve()
		if err != nil {
			return "", nil, job.AsFatal(err)
		}
		return "files " + path, func() (connector.Committer, error) { return files.NewCommitter(path), nil }, nil
	}
	return "", nil, job.AsFatal(errNoSink)
}
