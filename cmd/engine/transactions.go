package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

var _ activities.Transactions = (*Engine)(nil)

// Commit implements activities.Transactions.
func (e *Engine) Commit(ctx context.Context, spec json.RawMessage, t checkpoint.Transaction) (activities.Outcome, error) {
	return e.decide(spec, t, func(c connector.Committer) (connector.Outcome, error) { return c.Commit(ctx, t) })
}

// Abort implements activities.Transactions.
func (e *Engine) Abort(ctx context.Context, spec json.RawMessage, t checkpoint.Transaction) (activities.Outcome, error) {
	return e.decide(spec, t, func(c connector.Committer) (connector.Outcome, error) { return c.Abort(ctx, t) })
}

func (e *Engine) decide(spec json.RawMessage, t checkpoint.Transaction, do func(connector.Committer) (connector.Outcome, error)) (activities.Outcome, error) {
	var out activities.Outcome
	err := e.withCommitter(spec, t.Sink, func(c connector.Committer) error {
		o, err := do(c)
		switch {
		case err != nil:
			return err
		case o == connector.Committed:
			out = activities.Committed
		case o == connector.Lost:
			out = activities.Lost
		default:
			return fmt.Errorf("transaction %s: outcome %v", t.ID, o)
		}
		return nil
	})
	return out, err
}

// Open implements activities.Transactions.
func (e *Engine) Open(ctx context.Context, spec json.RawMessage, uid job.UID) ([]activities.OpenTransaction, error) {
	j, err := config.ParseJob("", spec)
	if err != nil {
		return nil, job.AsFatal(err)
	}
	var out []activities.OpenTransaction
	seen := map[string]bool{}
	for i := range j.Sinks {
		s := &j.Sinks[i]
		if s.Delivery != config.ExactlyOnce || seen[systemOf(j, s)] {
			continue
		}
		seen[systemOf(j, s)] = true
		err := e.withCommitter(spec, s.UID, func(c connector.Committer) error {
			open, err := c.Open(ctx, uid)
			for _, o := range open {
				out = append(out, activities.OpenTransaction{Transaction: o.Transaction, Attempt: o.Attempt})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list open transactions of sink %s: %w", s.Name, err)
		}
	}
	return out, nil
}

// systemOf names the system that holds a sink's transactions: listing it once shows those of all its sinks.
func systemOf(j *config.Job, s *config.Sink) string {
	if s.Kafka == nil {
		return "files " + string(s.Files.Path)
	}
	return fmt.Sprint("kafka ", j.Cluster(s.Kafka.KafkaEndpoint).Brokers)
}

// AbortOpen implements activities.Transactions.
func (e *Engine) AbortOpen(ctx context.Context, spec json.RawMessage, t activities.OpenTransaction) error {
	return e.withCommitter(spec, t.Sink, func(c connector.Committer) error {
		return c.AbortOpen(ctx, connector.Open{Transaction: t.Transaction, Attempt: t.Attempt})
	})
}

// errNoSink says that a transaction's sink is not in the spec.
var errNoSink = errors.New("the spec has no such sink with transactions")

// withCommitter calls do with the committer of the sink called uid.
func (e *Engine) withCommitter(spec json.RawMessage, uid string, do func(connector.Committer) error) error {
	j, err := config.ParseJob("", spec)
	if err != nil {
		return job.AsFatal(err)
	}
	for i := range j.Sinks {
		if j.Sinks[i].UID != uid {
			continue
		}
		key, dial, err := e.committer(j, &j.Sinks[i])
		if err != nil {
			return fmt.Errorf("sink %s: %w", j.Sinks[i].Name, err)
		}
		return e.committers.with(key, dial, do)
	}
	return job.AsFatal(fmt.Errorf("sink %s: %w", uid, errNoSink))
}
