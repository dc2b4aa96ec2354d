// Package engine is the registry of implementations: it makes running programs out of plans, opens snapshot
// stores by their URLs and gives the control plane and the nodes what they need of both. It is the one place
// that knows every connector, format, operator and state backend.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/plan"
	"github.com/weirstream/weir/dataplane/task"
)

// Engine makes programs. It is safe for concurrent use.
type Engine struct {
	Log *slog.Logger
	// TransactionPrefix begins every transactional id, for brokers with prefix ACLs; "weir" if empty.
	TransactionPrefix string

	committers committers
}

// Close closes what is kept open between calls. What is called meanwhile or later still works.
func (e *Engine) Close() { e.committers.close() }

// Parse reads and plans a spec. name is what the document is called in messages. The error is a
// config.Problems.
func Parse(name string, spec []byte) (*plan.Plan, error) {
	return plan.Parse(name, spec, nil)
}

// Plan implements activities.Planner.
func (e *Engine) Plan(_ context.Context, spec json.RawMessage) (activities.Plan, error) {
	p, err := Parse("", spec)
	if err != nil {
		return activities.Plan{}, specError(err)
	}
	return activities.Plan{
		Graph: p.Graph, Name: p.Job.Name, Bounded: p.Job.Bounded(), Warnings: p.Warnings,
		Options: options(p.Job), Summary: plan.Summary(p),
	}, nil
}

func specError(err error) error {
	var ps config.Problems
	if errors.As(err, &ps) {
		return &activities.SpecError{Problems: ps.Strings()}
	}
	return &activities.SpecError{Problems: []string{err.Error()}}
}

func options(j *config.Job) activities.Options {
	o := activities.Options{
		Interval: j.Checkpoint.Interval, Timeout: j.Checkpoint.Timeout, MinPause: j.Checkpoint.MinPause,
		Keep: j.Checkpoint.Keep, Aligned: j.Checkpoint.Mode == config.ExactlyOnce, Storage: j.Checkpoint.Storage,
	}
	switch r := j.Restart; {
	case r.Fixed != nil:
		o.Restart = activities.Restart{Kind: "fixed", Delay: r.Fixed.Delay, Attempts: r.Fixed.Attempts}
	case r.Rate != nil:
		o.Restart = activities.Restart{Kind: "rate", Failures: r.Rate.Failures, Per: r.Rate.Per, Delay: r.Rate.Delay}
	case r.None:
		o.Restart = activities.Restart{Kind: "none"}
	default:
		o.Restart = activities.Restart{Kind: "backoff", Initial: r.Backoff.Initial, Max: r.Backoff.Max, ResetAfter: r.Backoff.ResetAfter}
	}
	for i := range j.Sinks {
		s := &j.Sinks[i]
		if s.Kafka == nil || s.Delivery != config.ExactlyOnce {
			continue
		}
		if t := s.Kafka.TransactionTimeout; t > 0 && (o.TxTimeout == 0 || t < o.TxTimeout) {
			o.TxTimeout = t
		}
	}
	return o
}

// startTimeout bounds how long one source or sink may take to answer when a job starts.
const startTimeout = 15 * time.Second

// Start implements activities.Planner: the positions of every source, and proof that every sink can be reached.
func (e *Engine) Start(ctx context.Context, spec json.RawMessage) ([]checkpoint.OperatorState, error) {
	p, err := Parse("", spec)
	if err != nil {
		return nil, specError(err)
	}
	prog, err := e.program(p, job.Deployment{})
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	for v := range p.Vertices {
		for i := range p.Vertices[v].Sinks {
			s := &p.Vertices[v].Sinks[i]
			if err := e.checkSink(ctx, p, s); err != nil {
				return nil, fmt.Errorf("sink %s: %w", s.Spec.Name, err)
			}
		}
	}
	var states []checkpoint.OperatorState
	for _, v := range prog.Program.Vertices {
		if v.Source == nil {
			continue
		}
		st, err := startState(ctx, v.Source)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", v.Source.UID, err)
		}
		states = append(states, st)
	}
	return states, nil
}

func startState(ctx context.Context, s *task.Source) (checkpoint.OperatorState, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	splits, err := s.Connector.Resolve(ctx)
	if err != nil {
		return checkpoint.OperatorState{}, err
	}
	return task.StartState(s.UID, splits)
}
