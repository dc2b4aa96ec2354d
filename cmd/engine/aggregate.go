package engine

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/operator/accumulate"
	"github.com/weirstream/weir/dataplane/operator/aggregate"
	"github.com/weirstream/weir/dataplane/operator/window"
	"github.com/weirstream/weir/dataplane/plan"
)

// newAggregate makes a running or a windowed aggregate.
func newAggregate(a *plan.Aggregate) (operator.Operator, error) {
	shape, err := shapeOf(a)
	if err != nil {
		return nil, err
	}
	if a.Window > 0 {
		return window.New(window.Config{Shape: shape, Size: a.Window})
	}
	return aggregate.New(aggregate.Config{Shape: shape})
}

// shapeOf compiles the calls and what is computed from them, for one subtask.
func shapeOf(a *plan.Aggregate) (accumulate.Shape, error) {
	s := accumulate.Shape{Mid: a.Mid, Out: a.Out, Hashed: true}
	for i := range a.Keys {
		s.Keys = append(s.Keys, i)
	}
	results := len(a.Mid.Fields) - len(a.Calls)
	for i, c := range a.Calls {
		call := accumulate.Call{Func: c.Func, Result: a.Mid.Fields[results+i].Type, Place: fmt.Sprintf("%s, %s", a.Place, c.Func)}
		var err error
		if c.Arg != nil {
			if call.Arg, err = program(c.Arg, a.In, call.Place); err != nil {
				return s, err
			}
		}
		if c.Filter != nil {
			if call.Filter, err = predicate(c.Filter, a.In, call.Place+" filter"); err != nil {
				return s, err
			}
		}
		s.Calls = append(s.Calls, call)
	}
	for _, c := range a.Columns {
		p, err := program(c.Expr, a.Mid, c.Place)
		if err != nil {
			return s, err
		}
		s.Columns = append(s.Columns, p)
	}
	return s, nil
}
