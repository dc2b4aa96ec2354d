package plan

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/expr"
)

// Filter is a predicate with its place, for messages.
type Filter struct {
	Expr  expr.Node
	Place string
}

func (s *stepNode) wherePlace() string { return s.spec.Name + ".where" }

// lower moves filters of later steps to the steps that read the sources, from where they go into the decoders: of a
// record that any of them rejects no more is read than they need. A filter moves through steps that only select, whose
// rows nobody else reads, as long as it reads columns that they pass on. Errors are the limit: where a bad row is not
// fatal everything stays where it is counted.
func (p *planner) lower() {
	readers := map[*relation]int{}
	count := func(inputs []*relation) {
		for _, in := range inputs {
			readers[in]++
		}
	}
	for _, s := range p.steps {
		count(s.inputs)
	}
	for _, s := range p.sinks {
		count(s.inputs)
	}
	for _, s := range p.steps { // in topological order: filters keep theirs
		if s.where == nil || s.spec.OnError != config.Fail {
			continue
		}
		if to, n := s.bottom(readers); to != nil {
			to.below = append(to.below, Filter{n, s.wherePlace()})
			s.lowered, s.where = s.where, nil
		}
	}
}

// bottom finds the step over sources to which the filter of s can move, and the filter in terms of its inputs. nil
// if there is none.
func (s *stepNode) bottom(readers map[*relation]int) (*stepNode, expr.Node) {
	n := s.where
	for at := s; len(at.inputs) == 1 && at.inputs[0].step != nil && readers[at.inputs[0]] == 1; {
		at = at.inputs[0].step
		if at.spec.Aggregate != nil || at.spec.OnError != config.Fail {
			break
		}
		if n = at.under(n); n == nil {
			break
		}
		if at.decodes(n) && (at.where == nil || at.pushed()) {
			return at, n
		}
		if at.where != nil {
			break // it comes first, and stays
		}
	}
	return nil, nil
}

// under turns an expression over the step's output into one over its input; nil if it reads computed columns.
func (s *stepNode) under(n expr.Node) expr.Node {
	plain := map[string]*expr.Column{}
	for _, o := range s.out {
		if c, ok := o.node.(*expr.Column); ok {
			plain[o.name] = c
		}
	}
	name := func(path []string) *expr.Column { return plain[strings.Join(path, ".")] }
	if slices.ContainsFunc(expr.Columns(n), func(path []string) bool { return name(path) == nil }) {
		return nil
	}
	return expr.Rename(n, name)
}

// pushed reports whether the sources that the step reads apply its filter.
func (s *stepNode) pushed() bool {
	return s.where != nil && s.spec.OnError == config.Fail && s.decodes(s.where)
}

// decodes reports whether the sources that the step reads can apply a filter while they decode: an error in it must
// mean the same there, and they know nothing but the record.
func (s *stepNode) decodes(n expr.Node) bool {
	if expr.UsesEventTime(n) {
		return false
	}
	for _, in := range s.inputs {
		if in.source == nil || in.errors || in.source.spec.OnError != config.Fail {
			return false
		}
		used := make([]bool, len(in.schema.Fields))
		refs(n, in.schema, used)
		for i := range used {
			if used[i] && in.source.leaves[i].meta != nil {
				return false
			}
		}
	}
	return true
}

// whereText describes the step's filter; "" if it has none.
func (s *stepNode) whereText() string {
	switch {
	case s.lowered != nil:
		return "where " + s.lowered.String() + " (while decoding)"
	case s.where == nil:
		return ""
	case s.pushed():
		return "where " + s.where.String() + " (while decoding)"
	}
	return "where " + s.where.String()
}
