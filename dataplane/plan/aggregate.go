package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
)

// aggregate plans key_by, the aggregate calls and what is computed from them.
func (p *planner) aggregate(s *stepNode) {
	spec := s.spec
	for _, in := range s.inputs {
		if in.mode != Append {
			p.problems.Add(spec.Aggregate.At, fmt.Sprintf("reads inserts only, %s", updates(in)), "aggregate before the updates, or in a window")
		}
	}
	if spec.Window != nil && !s.in.HasTime {
		p.problems.Add(spec.Window.At, fmt.Sprintf("%q has no event_time", s.inputs[0].name), "add it")
	}
	s.mid = &batch.Schema{HasTime: s.in.HasTime}
	var keyNames []string
	for _, k := range spec.KeyBy {
		t, n := p.bind(k.Expr, s.in, spec.Name)
		if t == nil {
			continue
		}
		s.keys = append(s.keys, output{name: k.Name, node: n, at: k.At, typ: t.Type(), null: t.Nullable()})
		s.mid.Fields = append(s.mid.Fields, batch.Field{Name: k.Name, Type: t.Type(), Nullable: t.Nullable()})
		keyNames = append(keyNames, k.Name)
	}
	if spec.Window != nil {
		s.mid.Fields = append(s.mid.Fields, batch.Field{Name: "window_start", Type: windowTime}, batch.Field{Name: "window_end", Type: windowTime})
	}
	visible := len(s.mid.Fields)
	rests := p.calls(s)
	op := allColumns(&batch.Schema{Fields: s.mid.Fields[:visible]}, "", "", spec.At)
	for i, n := range rests {
		if n == nil {
			continue
		}
		e := spec.Aggregate.Columns[i].Expr
		t, err := expr.Bind(n, newScope(s.mid, spec.Name))
		if err != nil {
			p.mistake(e, err)
			continue
		}
		op = append(op, output{name: spec.Aggregate.Columns[i].Name, node: n, at: e.At, typ: t.Type(), null: t.Nullable()})
	}
	p.doubles(op)
	s.columns = op
	opSchema := outputSchema(op, s.in.HasTime)
	s.out = p.projection(s, opSchema)
	s.rel.schema = outputSchema(s.out, s.in.HasTime)
	if spec.Window == nil {
		s.rel.mode, s.rel.keys = renamed(Upsert, keyNames, s.out)
		if !spec.KeepForever {
			p.warnings = append(p.warnings, fmt.Sprintf("%s: ttl (warning): keeps a row per %s for ever; add a window, or ttl: none if that is meant",
				p.job.PlaceOf("steps."+spec.Name), strings.Join(keyNames, ", ")))
		}
	}
}

// calls splits the aggregate expressions into calls, whose results join s.mid as $0, $1, …, and what is
// computed from those. A nil rest has been reported.
func (p *planner) calls(s *stepNode) []expr.Node {
	var rests []expr.Node
	for _, c := range s.spec.Aggregate.Columns {
		n := p.parse(c.Expr)
		if n == nil {
			rests = append(rests, nil)
			continue
		}
		calls, rest, err := expr.SplitAggregates(n, len(s.calls))
		if err != nil {
			p.mistake(c.Expr, err)
			rest = nil
		}
		for _, k := range calls {
			p.call(s, c.Expr, k)
		}
		rests = append(rests, rest)
	}
	return rests
}

// call types one aggregate call of e and adds its result to s.mid, whatever is wrong with it.
func (p *planner) call(s *stepNode, e config.Expr, c expr.AggregateCall) {
	f := batch.Field{Name: expr.ReferenceName(len(s.calls))}
	s.calls = append(s.calls, c)
	sc := newScope(s.in, s.spec.Name)
	err := func() (err error) {
		var arg batch.Type
		if c.Arg != nil {
			t, err := expr.Bind(c.Arg, sc)
			if err != nil {
				return err
			}
			arg = t.Type()
		}
		if c.Filter != nil {
			t, err := expr.Bind(c.Filter, sc)
			if err != nil {
				return err
			}
			if t.Type().Kind != batch.Bool {
				return &expr.Error{Offset: c.Filter.Offset(), Msg: fmt.Sprintf("filter must be a condition, but is %s", t.Type()), Hint: "compare it with something"}
			}
		}
		f.Type, f.Nullable, err = c.Result(arg)
		return err
	}()
	if err != nil {
		p.mistake(e, err)
	}
	s.mid.Fields = append(s.mid.Fields, f)
}

// callText is a call as SQL.
func callText(c expr.AggregateCall) string {
	arg := "*"
	if c.Arg != nil {
		arg = c.Arg.String()
	}
	text := c.Func + "(" + arg + ")"
	if c.Filter != nil {
		text += " filter (where " + c.Filter.String() + ")"
	}
	return text
}

// updates says in words how a relation that is no append changes.
func updates(r *relation) string {
	if r.mode == Upsert {
		return fmt.Sprintf("%q updates by [%s]", r.name, strings.Join(r.keys, ", "))
	}
	return fmt.Sprintf("%q updates without a key", r.name)
}
