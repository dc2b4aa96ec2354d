// Package activitiestest has in-memory twins of what the control plane's activities talk to: a cluster of
// nodes, a planner and a system behind transactional sinks. They keep the contracts of package activities
// closely enough to run whole jobs on a real Temporal server without a data plane.
package activitiestest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Spec is the job spec that the Planner understands: a source, a keyed exchange and a sink.
type Spec struct {
	Parallelism   int                `json:"parallelism"`
	Bounded       bool               `json:"bounded,omitempty"`
	Transactional bool               `json:"transactional,omitempty"`
	Interval      time.Duration      `json:"interval"`
	Timeout       time.Duration      `json:"timeout"`
	Keep          int                `json:"keep,omitempty"`
	Restart       activities.Restart `json:"restart"`
	// Problems make the spec invalid.
	Problems []string `json:"problems,omitempty"`
}

// JSON is the spec as a StreamJob takes it.
func (s Spec) JSON() json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain fields always marshal
	}
	return b
}

// Graph is the job graph of the spec.
func (s Spec) Graph() job.Graph {
	return job.Graph{
		MaxParallelism: job.DefaultMaxParallelism,
		Vertices: []job.Vertex{
			{UID: "src", Parallelism: s.Parallelism, Operators: []job.Operator{{UID: "src", Kind: "test source"}}},
			{UID: "out", Parallelism: s.Parallelism, Operators: []job.Operator{{UID: "out", Kind: "test sink"}}},
		},
		Edges: []job.Edge{{From: 0, To: 1, Exchange: job.Hash, Keys: []string{"k"}}},
	}
}

// Planner plans Specs. Down, if set, is what Start answers: a broker that cannot be reached.
type Planner struct {
	mu     sync.Mutex
	down   error
	starts int
}

var _ activities.Planner = (*Planner)(nil)

// SetDown makes Start fail with err until it is nil again.
func (p *Planner) SetDown(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

// Starts is how often start positions were resolved.
func (p *Planner) Starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// Plan implements activities.Planner.
func (p *Planner) Plan(_ context.Context, raw json.RawMessage) (activities.Plan, error) {
	s, err := parse(raw)
	if err != nil {
		return activities.Plan{}, &activities.SpecError{Problems: []string{err.Error()}}
	}
	if len(s.Problems) > 0 {
		return activities.Plan{}, &activities.SpecError{Problems: s.Problems}
	}
	o := activities.Options{Interval: s.Interval, Timeout: s.Timeout, Keep: max(s.Keep, 1), Aligned: true, Restart: s.Restart}
	if s.Transactional {
		o.TxTimeout = TxTimeout
	}
	return activities.Plan{
		Graph: s.Graph(), Name: "test", Bounded: s.Bounded, Options: o,
		Summary: fmt.Sprintf("src → out, parallelism %d", s.Parallelism),
	}, nil
}

// Start implements activities.Planner.
func (p *Planner) Start(_ context.Context, raw json.RawMessage) ([]checkpoint.OperatorState, error) {
	s, err := parse(raw)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	p.starts++
	var states []checkpoint.OperatorState
	for i := range s.Parallelism {
		states = append(states, checkpoint.OperatorState{Operator: "src", Subtask: i, Inline: json.RawMessage(`{"offset":0}`)})
	}
	return states, nil
}

func parse(raw json.RawMessage) (s Spec, err error) {
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, err
	}
	if s.Parallelism < 1 {
		return s, errors.New("parallelism: must be at least 1")
	}
	return s, nil
}
