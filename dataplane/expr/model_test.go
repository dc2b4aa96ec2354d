package expr

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"pgregory.net/rapid"
)

// The oracle: a row at a time over the syntax tree, with nil for null and big integers for numbers.
type oracle struct {
	row map[string]any
}

var errOracle = errors.New("row fails")

func (o *oracle) eval(n Node) (any, error) {
	switch n := n.(type) {
	case *Literal:
		switch {
		case n.Value.Null:
			return nil, nil
		case n.Value.Type.Kind == batch.Bool:
			return n.Value.Bool, nil
		case n.Value.Type.Kind == batch.String:
			return n.Value.Text, nil
		}
		return n.Value.Int, nil
	case *Column:
		return o.row[n.Path[0]], nil
	case *Unary:
		x, err := o.eval(n.X)
		if err != nil || x == nil {
			return nil, err
		}
		if n.Op == "not" {
			return !x.(bool), nil
		}
		return fit(new(big.Int).Neg(big.NewInt(x.(int64))))
	case *Binary:
		return o.binary(n)
	case *Is:
		x, err := o.eval(n.X)
		if n.What == "null" {
			return (x == nil) != n.Not, err
		}
		return (x == (n.What == "true")) != n.Not, err
	case *Case:
		for _, w := range n.Whens {
			c, err := o.eval(w.Cond)
			if err != nil {
				return nil, err
			}
			if c == true {
				return o.eval(w.Then)
			}
		}
		return o.eval(n.Else)
	case *In:
		found, null := any(false), false
		x, err := o.eval(n.X)
		for _, item := range n.List {
			y, err := o.eval(item)
			if err != nil {
				return nil, err
			}
			if null = null || y == nil; y != nil && y == x {
				found = true
			}
		}
		if err != nil || x == nil || found == false && null {
			return nil, err
		}
		return found.(bool) != n.Not, nil
	case *Call: // coalesce
		for _, a := range n.Args {
			if x, err := o.eval(a); err != nil || x != nil {
				return x, err
			}
		}
		return nil, nil
	}
	return nil, fmt.Errorf("oracle: %T", n)
}

func fit(b *big.Int) (any, error) {
	if !b.IsInt64() {
		return nil, errOracle
	}
	return b.Int64(), nil
}

func (o *oracle) binary(n *Binary) (any, error) {
	x, err := o.eval(n.X)
	if err != nil {
		return nil, err
	}
	if n.Op == "and" || n.Op == "or" {
		decider := n.Op == "or"
		if x == decider {
			return decider, nil
		}
		y, err := o.eval(n.Y)
		if err != nil || y == decider {
			return y, err
		}
		if x == nil || y == nil {
			return nil, nil
		}
		return !decider, nil
	}
	y, err := o.eval(n.Y)
	if err != nil || x == nil || y == nil {
		return nil, err
	}
	if s, ok := x.(string); ok {
		if n.Op == "||" {
			return s + y.(string), nil
		}
		return compared(n.Op, strings.Compare(s, y.(string))), nil
	}
	a, b := big.NewInt(x.(int64)), big.NewInt(y.(int64))
	switch n.Op {
	case "+":
		return fit(a.Add(a, b))
	case "-":
		return fit(a.Sub(a, b))
	case "*":
		return fit(a.Mul(a, b))
	case "/", "%":
		if b.Sign() == 0 {
			return nil, errOracle
		}
		q, r := new(big.Int).QuoRem(a, b, new(big.Int))
		if n.Op == "%" {
			return fit(r)
		}
		return fit(q)
	}
	return compared(n.Op, a.Cmp(b)), nil
}

func compared(op string, c int) bool {
	switch op {
	case "=":
		return c == 0
	case "<>":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// generator draws expressions over the columns a, b (bigint), p (boolean), s (text), and with nulls also
// na, np, ns.
type generator struct {
	t     *rapid.T
	nulls bool
}

func (g *generator) pick(options ...string) string {
	return rapid.SampledFrom(options).Draw(g.t, "pick")
}

func (g *generator) column(names ...string) string {
	if g.nulls {
		for _, n := range names {
			names = append(names, "n"+n)
		}
	}
	return g.pick(names...)
}

func (g *generator) number(depth int) string {
	if depth == 0 {
		return g.pick(g.column("a", "b"), g.column("a", "b"), "0", "1", "-1", "3", "9223372036854775807", "-9223372036854775808")
	}
	x, y := g.number(depth-1), g.number(depth-1)
	switch rapid.IntRange(0, 7).Draw(g.t, "number") {
	case 0, 1:
		return "(" + x + g.pick(" + ", " - ", " * ") + y + ")"
	case 2:
		return "(" + x + g.pick(" / ", " % ") + y + ")"
	case 3:
		return "(- " + x + ")"
	case 4:
		return "case when " + g.condition(depth-1) + " then " + x + " else " + y + " end"
	case 5:
		if g.nulls {
			return "coalesce(" + x + ", " + y + ")"
		}
	}
	return x
}

func (g *generator) text(depth int) string {
	if depth == 0 {
		return g.pick(g.column("s"), g.column("s"), "''", "'abc'", "'a text of more than twelve bytes'")
	}
	x, y := g.text(depth-1), g.text(depth-1)
	switch rapid.IntRange(0, 3).Draw(g.t, "text") {
	case 0:
		return "(" + x + " || " + y + ")"
	case 1:
		return "case when " + g.condition(depth-1) + " then " + x + " else " + y + " end"
	}
	return x
}

func (g *generator) condition(depth int) string {
	if depth == 0 {
		return g.pick(g.column("p"), g.column("p"), "true", "false", "a > 0", "b = 3", "s = 'abc'")
	}
	x, y := g.condition(depth-1), g.condition(depth-1)
	switch rapid.IntRange(0, 7).Draw(g.t, "condition") {
	case 0, 1:
		return "(" + x + g.pick(" and ", " or ") + y + ")"
	case 2:
		return "(not " + x + ")"
	case 3:
		return "(" + x + " is " + g.pick("", "not ") + g.pick("true", "false", "null") + ")"
	case 4:
		return "(" + g.number(depth-1) + g.pick(" = ", " <> ", " < ", " <= ", " > ", " >= ") + g.number(depth-1) + ")"
	case 5:
		return "(" + g.text(depth-1) + g.pick(" = ", " <> ", " < ", " >= ") + g.text(depth-1) + ")"
	case 6:
		return "(" + g.number(depth-1) + g.pick(" in (0, 3, 7)", " not in (1, 2, 3)", " in (1, a)") + ")"
	}
	return "(" + g.text(depth-1) + " in ('abc', '', 'x'))"
}

// drawBatch draws rows of the generator's columns.
func drawBatch(t *rapid.T) (*batch.Batch, []map[string]any) {
	schema := &batch.Schema{}
	for _, c := range []batch.Field{{Name: "a", Type: intType}, {Name: "b", Type: intType}, {Name: "p", Type: boolType}, {Name: "s", Type: textType}} {
		schema.Fields = append(schema.Fields, c, batch.Field{Name: "n" + c.Name, Type: c.Type, Nullable: true})
	}
	n := rapid.IntRange(1, 70).Draw(t, "rows")
	b, rows := &batch.Batch{Schema: schema, Rows: n}, make([]map[string]any, n)
	numbers := rapid.OneOf(rapid.Int64Range(-4, 4), rapid.Int64())
	texts := rapid.SampledFrom([]string{"", "abc", "x", "a text of more than twelve bytes", "another long text, with an é"})
	for _, f := range schema.Fields {
		c := batch.NewColumn(f.Type, n)
		for i := range n {
			if rows[i] == nil {
				rows[i] = map[string]any{}
			}
			if f.Nullable && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				c.SetNull(i, n)
				continue
			}
			switch f.Type.Kind {
			case batch.Bool:
				v := rapid.Bool().Draw(t, "bool")
				c.Bools.SetTo(i, v)
				rows[i][f.Name] = v
			case batch.String:
				v := texts.Draw(t, "text")
				c.SetBytes(i, []byte(v))
				rows[i][f.Name] = v
			default:
				c.Ints[i] = numbers.Draw(t, "int")
				rows[i][f.Name] = c.Ints[i]
			}
		}
		b.Cols = append(b.Cols, c)
	}
	return b, rows
}

// Kernels under selections and the oracle agree: on values, and on which rows fail. With nulls a row may be
// spared a failure by the side that is evaluated less (null and 1/0 is not true either way), so there only
// the values and "no failure that the oracle does not have" are checked.
func TestProgramsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t, rapid.Bool().Draw(t, "nulls")}
		var src string
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			src = g.number(rapid.IntRange(0, 4).Draw(t, "depth"))
		case 1:
			src = g.text(rapid.IntRange(0, 4).Draw(t, "depth"))
		default:
			src = g.condition(rapid.IntRange(0, 4).Draw(t, "depth"))
		}
		node, err := Parse(src)
		if err != nil {
			t.Fatalf("Parse(%s): %v", src, err)
		}
		var p *Program
		for range 2 { // the second batch finds the first one's scratch memory
			b, rows := drawBatch(t)
			if p == nil {
				typed, err := Bind(node, SchemaScope(b.Schema))
				if err != nil {
					t.Fatalf("Bind(%s): %v", src, err)
				}
				if p, err = Compile(typed, nil); err != nil {
					t.Fatal(err)
				}
			}
			checkProgram(t, g, src, node, p, b, rows)
		}
	})
}

func checkProgram(t *rapid.T, g *generator, src string, node Node, p *Program, b *batch.Batch, rows []map[string]any) {
	sel := []int32{}
	for i := range rows {
		if rapid.IntRange(0, 4).Draw(t, "selected") > 0 {
			sel = append(sel, int32(i))
		}
	}
	col, sel := evalOthers(t, src, node, p, b, rows, sel)
	for _, r := range sel {
		want, err := (&oracle{rows[r]}).eval(node)
		if err != nil {
			// "x is null" of an x that cannot be null is decided without evaluating x.
			if !g.nulls && !strings.Contains(src, " is ") {
				t.Fatalf("%s on %v succeeds, want a failure", src, rows[r])
			}
			continue
		}
		if got := value(&col, int(r)); got != want {
			t.Fatalf("%s on %v = %v, want %v", src, rows[r], got, want)
		}
	}
	if p.Type().Kind != batch.Bool {
		return
	}
	q, err := NewPredicate(p)
	if err != nil {
		t.Fatal(err)
	}
	picked, err := q.Select(b, sel, []int32{99})
	if err != nil {
		t.Fatalf("Select(%s): %v after Eval succeeded", src, err)
	}
	want := []int32{99}
	for _, r := range sel {
		if value(&col, int(r)) == true {
			want = append(want, r)
		}
	}
	if !slices.Equal(picked, want) {
		t.Fatalf("Select(%s)=%v, want %v", src, picked, want)
	}
}

// evalOthers evaluates and leaves out failing rows, which must fail in the oracle too, until none fails.
func evalOthers(t *rapid.T, src string, node Node, p *Program, b *batch.Batch, rows []map[string]any, sel []int32) (batch.Column, []int32) {
	for {
		col, err := p.Eval(b, sel)
		if err == nil {
			return col, sel
		}
		var re *batch.RowError
		if !errors.As(err, &re) {
			t.Fatalf("%s: %v", src, err)
		}
		i := slices.Index(sel, int32(re.Row))
		if i < 0 {
			t.Fatalf("%s: row %d failed but is not selected", src, re.Row)
		}
		if v, err := (&oracle{rows[re.Row]}).eval(node); err == nil {
			t.Fatalf("%s on %v fails (%v), want %v", src, rows[re.Row], re, v)
		}
		sel = slices.Delete(sel, i, i+1)
	}
}

func value(c *batch.Column, i int) any {
	v := constAt(c, i)
	switch {
	case v.Null:
		return nil
	case v.Type.Kind == batch.Bool:
		return v.Bool
	case v.Type.Kind == batch.String:
		return v.Text
	}
	return v.Int
}

// Results of Eval keep their values while the program goes on.
func TestEvalGivesItsMemoryAway(t *testing.T) {
	for _, src := range []string{"i + 1", "s || s || s", "case when b then s || '-a long enough suffix' else s end", "coalesce(ns, s || s)", "i > 0", "substring(upper(s), 2)"} {
		p := mustCompile(t, mustBind(t, src))
		first, err := p.Eval(testBatch(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 3 {
			want = append(want, show(&first, i))
		}
		other := testBatch()
		for i := range other.Cols {
			other.Cols[i].Ints = []int64{40, 41, 42}
			if other.Cols[i].Type.Kind == batch.String {
				other.Cols[i] = batch.NewColumn(textType, 3)
				for r := range 3 {
					other.Cols[i].SetBytes(r, []byte("something else that is long"))
				}
			}
		}
		if _, err := p.Eval(other, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if got := show(&first, i); got != want[i] {
				t.Errorf("%s: row %d is %q after another batch, want %q", src, i, got, want[i])
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"price > 100 and auction % 123 = 0", "case a when 1 then 'x' else null end", "cast(a as decimal(12,2))", "a.b in (1, 2.5, 1e3)",
		"substring(s from 2 for 3) like '%_$%' escape '$'", "count(*) filter (where x is not null)", "ts + interval '1h30m' >= timestamp '2026-01-01'", `"a""b" between -1 and +1`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		n, err := Parse(src)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(src) {
				t.Fatalf("Parse(%q): %v has no place in the source", src, err)
			}
			return
		}
		again, err := Parse(n.String())
		if err != nil {
			t.Fatalf("String of %q, %q, does not parse: %v", src, n.String(), err)
		}
		if again.String() != n.String() {
			t.Fatalf("String of %q changes from %q to %q", src, n.String(), again.String())
		}
		if typed, err := Bind(n, SchemaScope(testSchema)); err == nil {
			p, err := Compile(typed, nil)
			if err != nil {
				t.Fatalf("Compile(%q): %v", src, err)
			}
			var re *batch.RowError
			if _, err := p.Eval(testBatch(), nil); err != nil && !errors.As(err, &re) {
				t.Fatalf("Eval(%q): %v", src, err)
			}
		}
	})
}
