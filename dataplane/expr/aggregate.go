package expr

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/batch"
)

// AggregateCall is an aggregate function taken out of an expression.
type AggregateCall struct {
	// Func is count, sum, min, max or avg.
	Func string
	// Arg is nil for count(*).
	Arg Node
	// Filter is the condition of FILTER (WHERE …), or nil.
	Filter Node
	// At is the offset of the call.
	At int
}

// ReferenceName is the path under which the rest of a split expression refers to aggregate call i. No
// column that users name can be called so.
func ReferenceName(i int) string { return fmt.Sprintf("$%d", i) }

// SplitAggregates takes the aggregate calls out of n: in rest they are columns called ReferenceName(first+i),
// where i is the index in calls and first the number of calls that other expressions of the step have
// already. Equal calls are taken once. Bind the arguments and filters in the scope of the input, rest in one
// of the keys and the results. Errors are *Error.
func SplitAggregates(n Node, first int) (calls []AggregateCall, rest Node, err error) {
	s := &splitter{first: first, seen: map[string]int{}}
	rest, err = s.split(n)
	return s.calls, rest, err
}

type splitter struct {
	first int
	calls []AggregateCall
	seen  map[string]int
}

func (s *splitter) split(n Node) (Node, error) {
	if c, ok := n.(*Call); ok && aggregates[c.Name] {
		return s.take(c)
	}
	var err error
	each := func(n Node) Node {
		if n == nil || err != nil {
			return n
		}
		var r Node
		r, err = s.split(n)
		return r
	}
	return rebuild(n, each), err
}

func (s *splitter) take(c *Call) (Node, error) {
	switch {
	case c.Distinct:
		return nil, errAt(c.Offset(), "%s(distinct …) is not available yet", c.Name)
	case c.Star && c.Name != "count":
		return nil, errAt(c.Offset(), "%s takes one argument", c.Name)
	case !c.Star && len(c.Args) != 1:
		e := errAt(c.Offset(), "%s takes one argument", c.Name)
		if c.Name == "count" && len(c.Args) == 0 {
			e = e.hint("write count(*)")
		}
		return nil, e
	}
	for _, inner := range children(c) {
		if at, name := findAggregate(inner); name != "" {
			return nil, errAt(at, "%s inside an aggregate", name).hint("aggregate again in another step")
		}
	}
	key := c.String()
	i, ok := s.seen[key]
	if !ok {
		i = len(s.calls)
		s.seen[key] = i
		call := AggregateCall{Func: c.Name, Filter: c.Filter, At: c.Offset()}
		if !c.Star {
			call.Arg = c.Args[0]
		}
		s.calls = append(s.calls, call)
	}
	return &Column{at: c.at, Path: []string{ReferenceName(s.first + i)}}, nil
}

func findAggregate(n Node) (at int, name string) {
	if c, ok := n.(*Call); ok && aggregates[c.Name] {
		return c.Offset(), c.Name
	}
	for _, c := range children(n) {
		if at, name := findAggregate(c); name != "" {
			return at, name
		}
	}
	return 0, ""
}

// rebuild returns a copy of n whose operands are replaced by f.
func rebuild(n Node, f func(Node) Node) Node {
	all := func(nodes []Node) []Node {
		out := make([]Node, len(nodes))
		for i, x := range nodes {
			out[i] = f(x)
		}
		return out
	}
	switch n := n.(type) {
	case *Unary:
		return &Unary{n.at, n.Op, f(n.X)}
	case *Binary:
		return &Binary{n.at, n.Op, f(n.X), f(n.Y)}
	case *Is:
		return &Is{n.at, f(n.X), n.Not, n.What}
	case *Case:
		c := &Case{at: n.at, Of: f(n.Of), Else: nil}
		for _, w := range n.Whens {
			c.Whens = append(c.Whens, When{f(w.Cond), f(w.Then)})
		}
		c.Else = f(n.Else)
		return c
	case *Cast:
		return &Cast{n.at, f(n.X), n.Type, n.Narrow, n.Try}
	case *In:
		return &In{n.at, f(n.X), all(n.List), n.Not}
	case *Between:
		return &Between{n.at, f(n.X), f(n.Low), f(n.High), n.Not}
	case *Like:
		return &Like{n.at, f(n.X), f(n.Pattern), f(n.Escape), n.Not}
	case *Call:
		return &Call{n.at, n.Name, all(n.Args), n.Star, n.Distinct, f(n.Filter)}
	}
	return n
}

// Result is the type of the aggregate over arguments of type arg (ignored for count(*)), as in Flink SQL:
// sums and averages of integers are bigint (avg cuts towards zero), of doubles double, of decimals decimals of 38
// digits. Only counts are never null. The error is an *Error.
func (c *AggregateCall) Result(arg batch.Type) (t batch.Type, nullable bool, err error) {
	switch c.Func {
	case "count":
		return intType, false, nil
	case "min", "max":
		if arg.Kind == batch.Bytes || arg.Kind == batch.Invalid {
			return t, false, errAt(c.At, "%s of %s is not defined", c.Func, typeName(arg))
		}
		return arg, true, nil
	}
	switch arg.Kind {
	case batch.Int64:
		return intType, true, nil
	case batch.Float64:
		return floatType, true, nil
	case batch.Decimal:
		scale := arg.Scale
		if c.Func == "avg" {
			scale = max(scale, minScale)
		}
		return batch.Type{Kind: batch.Decimal, Precision: batch.MaxPrecision, Scale: scale}, true, nil
	}
	return t, false, errAt(c.At, "%s needs numbers, not %s", c.Func, typeName(arg))
}
