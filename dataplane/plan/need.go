package plan

import (
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
)

// need is the backward pass: it marks the columns and event times that somebody reads.
func (p *planner) need() {
	for _, s := range p.sinks {
		for _, in := range s.inputs {
			in.needAll()
		}
	}
	for _, s := range slices.Backward(p.steps) {
		if s.rel.used != nil {
			s.need()
		}
	}
}

func (r *relation) read() {
	if r.used == nil {
		r.used = make([]bool, len(r.schema.Fields))
	}
}

func (r *relation) needAll() {
	r.read()
	for i := range r.used {
		r.used[i] = true
	}
}

// needs returns the columns of s.in that the step itself reads, and whether it reads event time.
func (s *stepNode) needs() (used []bool, time bool) {
	used = make([]bool, len(s.in.Fields))
	add := func(n expr.Node) {
		if n != nil {
			refs(n, s.in, used)
			time = time || expr.UsesEventTime(n)
		}
	}
	add(s.where)
	for _, f := range s.below {
		add(f.Expr)
	}
	if s.spec.Aggregate == nil {
		for i, o := range s.out {
			if s.rel.used[i] {
				add(o.node)
			}
		}
		return used, time || s.rel.time
	}
	for _, k := range s.keys {
		add(k.node)
	}
	for _, c := range s.calls {
		add(c.Arg)
		add(c.Filter)
	}
	for _, o := range slices.Concat(s.columns, s.out) { // these read results; only event time comes from s.in
		time = time || expr.UsesEventTime(o.node)
	}
	return used, time || s.rel.time || s.spec.Window != nil
}

// args marks the columns that the aggregate calls read.
func (s *stepNode) args(used []bool) {
	for _, c := range s.calls {
		refs(c.Arg, s.in, used)
		refs(c.Filter, s.in, used)
	}
}

// need marks what the step reads of its inputs.
func (s *stepNode) need() {
	used, time := s.needs()
	for _, in := range s.inputs {
		in.read()
		in.time = in.time || time
		for i, f := range s.in.Fields {
			if used[i] {
				in.used[in.schema.Index(f.Name)] = true
			}
		}
	}
}

// pruned is the schema of what is read of a relation.
func (r *relation) pruned() *batch.Schema { return prune(r.schema, r.used, r.time) }
