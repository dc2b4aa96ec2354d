package expr

import (
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

// function is a scalar function: how many arguments it takes (max −1: any number) and how a call with bound
// arguments is typed.
type function struct {
	min, max int
	bind     func(c *Call, args []*Typed) (*Typed, error)
}

// functions are the scalar functions by name.
var functions = func() map[string]function {
	all := map[string]function{}
	for _, family := range []map[string]function{textFunctions, numberFunctions, timeFunctions, nullFunctions} {
		for name, f := range family {
			all[name] = f
		}
	}
	for alias, name := range map[string]string{
		"char_length": "length", "character_length": "length", "substr": "substring", "strpos": "instr",
		"pow": "power", "ceiling": "ceil", "startswith": "starts_with", "endswith": "ends_with", "ucase": "upper", "lcase": "lower",
	} {
		all[alias] = all[name]
	}
	return all
}()

// Aggregate functions are no scalar functions; SplitAggregates takes them out first.
var aggregates = map[string]bool{"count": true, "sum": true, "min": true, "max": true, "avg": true}

func (b *binder) call(n *Call) (*Typed, error) {
	if aggregates[n.Name] {
		return nil, errAt(n.Offset(), "%s is an aggregate", n.Name).hint("it belongs into aggregate: {name: %s}", n)
	}
	if n.Star || n.Distinct || n.Filter != nil {
		return nil, errAt(n.Offset(), "%s is no aggregate", n.Name)
	}
	if n.Name == "event_time" && len(n.Args) == 0 {
		if !b.scope.HasTime() {
			return nil, errAt(n.Offset(), "the rows have no event time").hint("add event_time to the source")
		}
		return &Typed{typ: timestampType, at: n.Offset(), op: opTime}, nil
	}
	f, ok := functions[n.Name]
	if !ok {
		e := errAt(n.Offset(), "no function %q", n.Name)
		if s := suggest(n.Name, append(sortedKeys(functions), sortedKeys(aggregates)...)); s != "" {
			e = e.hint("did you mean %s?", s)
		}
		return nil, e
	}
	if len(n.Args) < f.min || f.max >= 0 && len(n.Args) > f.max {
		return nil, errAt(n.Offset(), "%s takes %s, not %d", n.Name, arity(f), len(n.Args))
	}
	args, err := b.bindAll(n.Args)
	if err != nil {
		return nil, err
	}
	t, err := f.bind(n, args)
	if err != nil {
		return nil, err
	}
	return fold(t), nil
}

func arity(f function) string {
	count := func(n int) string {
		return [...]string{"no arguments", "one argument", "two arguments", "three arguments", "four arguments"}[n]
	}
	switch {
	case f.max < 0:
		return "at least " + count(f.min)
	case f.max == f.min:
		return count(f.min)
	}
	return strings.TrimSuffix(strings.TrimSuffix(count(f.min), " arguments"), " argument") + " to " + count(f.max)
}

// simple is a function whose parameters have fixed types; parameters beyond min are optional, and the last
// one repeats if max is −1.
func simple(result batch.Type, min int, k *kernel, params ...batch.Type) function {
	return function{min: min, max: len(params), bind: func(c *Call, args []*Typed) (*Typed, error) {
		for i := range args {
			t, err := argument(c, args, i, params[i])
			if err != nil {
				return nil, err
			}
			args[i] = t
		}
		return apply(c, result, k, args), nil
	}}
}

// apply is the call of a kernel.
func apply(c *Call, result batch.Type, k *kernel, args []*Typed) *Typed {
	return &Typed{typ: result, nullable: k.nulls || !k.lenient && anyNullable(args), at: c.Offset(), op: opCall, args: args, fn: k}
}

// argument is args[i] as a parameter of type want: of its kind, or implicitly converted.
func argument(c *Call, args []*Typed, i int, want batch.Type) (*Typed, error) {
	t := args[i]
	switch {
	case t.isNullLiteral():
		return constant(t.at, Const{Type: want, Null: true}), nil
	case t.typ.Kind == want.Kind:
		return t, nil
	case want.Kind == batch.Float64 && numeric(t.typ):
		return implicit(t, want), nil
	}
	return nil, argumentError(c, i, t, typeName(want))
}

func argumentError(c *Call, i int, t *Typed, want string) error {
	e := errAt(c.Args[i].Offset(), "argument %d of %s is %s, not %s", i+1, c.Name, want, typeName(t.typ))
	if want == "string" && t.typ.Kind != kindInterval {
		e = e.hint("write cast(… as string)")
	}
	return e
}

// literal is args[i] as a constant text, which is compiled once.
func literal(c *Call, args []*Typed, i int) (string, error) {
	if v, ok := args[i].Const(); ok && !v.Null && v.Type.Kind == batch.String {
		return v.Text, nil
	}
	return "", errAt(c.Args[i].Offset(), "argument %d of %s must be a text literal", i+1, c.Name)
}

var nullFunctions = map[string]function{
	"coalesce": {1, -1, func(c *Call, args []*Typed) (*Typed, error) {
		typ, ok := commonType(args)
		if !ok || typ.Kind == kindInterval {
			return nil, mixed(c.Offset(), "the arguments of coalesce", args)
		}
		if typ.Kind == batch.Invalid {
			return constant(c.Offset(), Const{Null: true}), nil
		}
		t := &Typed{typ: typ, nullable: true, at: c.Offset(), op: opCoalesce}
		for _, a := range args {
			if a.isNullLiteral() {
				continue
			}
			t.args = append(t.args, implicit(a, typ))
			if !a.nullable {
				t.nullable = false
				break // what follows is never reached
			}
		}
		if len(t.args) == 1 {
			return t.args[0], nil
		}
		return t, nil
	}},
	"nullif": {2, 2, func(c *Call, args []*Typed) (*Typed, error) {
		b := &binder{}
		eq, err := b.compare(c, "=", args[0], args[1])
		if err != nil {
			return nil, err
		}
		null := constant(c.Offset(), Const{Null: true})
		return b.choice(&Typed{at: c.Offset(), op: opCase}, "the arguments of nullif", []*Typed{eq}, []*Typed{null, args[0]})
	}},
	"if": {3, 3, func(c *Call, args []*Typed) (*Typed, error) {
		b := &binder{}
		cond, err := b.condition(c.Args[0], args[0])
		if err != nil {
			return nil, err
		}
		return b.choice(&Typed{at: c.Offset(), op: opCase}, "the branches of if", []*Typed{cond}, args[1:])
	}},
}
