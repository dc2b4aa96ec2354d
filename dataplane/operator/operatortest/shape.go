package operatortest

import (
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/operator/accumulate"
)

// Shape makes the shape of an aggregate over the columns of in, as a planner does: keys are the names of key
// columns, added the fields that the operator adds, columns the expressions of the output, over keys,
// added fields and aggregate calls.
func Shape(t testing.TB, in *batch.Schema, keys []string, added []batch.Field, columns ...string) accumulate.Shape {
	t.Helper()
	s := accumulate.Shape{Mid: &batch.Schema{HasTime: in.HasTime}, Out: &batch.Schema{HasTime: in.HasTime}}
	for _, k := range keys {
		i := in.Index(k)
		if i < 0 {
			t.Fatalf("no key column %q", k)
		}
		s.Keys = append(s.Keys, i)
		s.Mid.Fields = append(s.Mid.Fields, in.Fields[i])
	}
	s.Mid.Fields = append(s.Mid.Fields, added...)
	var rests []expr.Node
	for _, src := range columns {
		n, err := expr.Parse(src)
		if err != nil {
			t.Fatalf("parse %q: %v", src, err)
		}
		calls, rest, err := expr.SplitAggregates(n, len(s.Calls))
		if err != nil {
			t.Fatalf("split %q: %v", src, err)
		}
		for _, c := range calls {
			call, f := compileCall(t, in, c, len(s.Calls))
			s.Calls = append(s.Calls, call)
			s.Mid.Fields = append(s.Mid.Fields, f)
		}
		rests = append(rests, rest)
	}
	for i, rest := range rests {
		p := Program(t, s.Mid, rest.String())
		s.Columns = append(s.Columns, p)
		s.Out.Fields = append(s.Out.Fields, batch.Field{Name: columns[i], Type: p.Type(), Nullable: p.Nullable()})
	}
	return s
}

func compileCall(t testing.TB, in *batch.Schema, c expr.AggregateCall, i int) (accumulate.Call, batch.Field) {
	t.Helper()
	call := accumulate.Call{Func: c.Func, Place: c.Func}
	var arg batch.Type
	if c.Arg != nil {
		call.Arg = Program(t, in, c.Arg.String())
		arg = call.Arg.Type()
	}
	if c.Filter != nil {
		call.Filter = Predicate(t, in, c.Filter.String())
	}
	result, nullable, err := c.Result(arg)
	if err != nil {
		t.Fatalf("type of %s: %v", c.Func, err)
	}
	call.Result = result
	return call, batch.Field{Name: expr.ReferenceName(i), Type: result, Nullable: nullable}
}
