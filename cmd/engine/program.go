package engine

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/node"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/row"
	"github.com/weirstream/weir/dataplane/plan"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/memory"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/task"
)

// Compile makes the program of a deployment on this node, secrets resolved.
func (e *Engine) Compile(_ context.Context, dep job.Deployment) (node.Compiled, error) {
	p, err := Parse("", dep.Spec)
	if err != nil {
		return node.Compiled{}, job.AsFatal(err)
	}
	return e.program(p, dep)
}

// program makes everything that a plan describes. Connectors are opened when subtasks start.
func (e *Engine) program(p *plan.Plan, dep job.Deployment) (node.Compiled, error) {
	prog := &task.Program{Graph: p.Graph, EdgeSchemas: p.EdgeSchemas, EdgeKeys: p.EdgeKeys}
	for i := range p.Vertices {
		v, err := e.vertex(p, &p.Vertices[i], dep)
		if err != nil {
			return node.Compiled{}, job.AsFatal(err)
		}
		prog.Vertices = append(prog.Vertices, v)
	}
	return node.Compiled{Program: prog, NewState: stateOf(p), Close: func() {}}, nil
}

// stateOf opens the states of a job.
func stateOf(p *plan.Plan) func(state.Config) (state.Backend, error) {
	if p.Job.State.Memory != nil {
		return func(c state.Config) (state.Backend, error) { return memory.Open(c) }
	}
	cache := cacheBytes(p)
	return func(c state.Config) (state.Backend, error) {
		c.CacheBytes = cache
		return pebble.Open(c)
	}
}

// cacheBytes is what each keyed operator gets of the cache of a slot, in which there may be a subtask of each.
func cacheBytes(p *plan.Plan) int64 {
	keyed := int64(0)
	for _, v := range p.Vertices {
		for _, s := range v.Stages {
			if s.Aggregate != nil {
				keyed++
			}
		}
	}
	return int64(p.Job.State.Pebble.Cache) / max(keyed, 1)
}

func (e *Engine) vertex(p *plan.Plan, v *plan.Vertex, dep job.Deployment) (task.Vertex, error) {
	t := task.Vertex{Inputs: v.Inputs, Outputs: v.Outputs}
	var err error
	if v.Source != nil {
		if t.Source, err = e.source(p, v.Source, dep.JobName); err != nil {
			return t, err
		}
	}
	for i := range v.Stages {
		s := &v.Stages[i]
		st := task.Stage{UID: s.UID, Out: s.Out, OnError: onError(s.OnError), Keyed: s.Aggregate != nil}
		if s.Row != nil {
			st.New = func() (operator.Operator, error) { return newRow(s.Row) }
		} else {
			st.New = func() (operator.Operator, error) { return newAggregate(s.Aggregate) }
		}
		t.Stages = append(t.Stages, st)
	}
	for i := range v.Sinks {
		s, err := e.sink(p.Job, &v.Sinks[i])
		if err != nil {
			return t, fmt.Errorf("sink %s: %w", v.Sinks[i].Spec.Name, err)
		}
		t.Sinks = append(t.Sinks, task.Sink{UID: v.Sinks[i].Spec.UID, Connector: s, OnError: onError(v.Sinks[i].Spec.OnError)})
	}
	return t, nil
}

func onError(o config.OnError) operator.OnError {
	switch o {
	case config.Skip:
		return operator.Skip
	case config.Divert:
		return operator.Divert
	}
	return operator.Fail
}

// newRow makes a filter and projection.
func newRow(r *plan.Row) (operator.Operator, error) {
	cfg := row.Config{Out: r.Out}
	if r.Where != nil {
		pred, err := predicate(r.Where, r.In, r.WherePlace)
		if err != nil {
			return nil, err
		}
		cfg.Where = pred
	}
	for _, c := range r.Columns {
		if i := plan.PlainColumn(c.Expr, r.In); i >= 0 {
			cfg.Columns = append(cfg.Columns, row.Column{Index: i})
			continue
		}
		prog, err := program(c.Expr, r.In, c.Place)
		if err != nil {
			return nil, err
		}
		cfg.Columns = append(cfg.Columns, row.Column{Program: prog})
	}
	return row.New(cfg)
}
