package expr

import (
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

// Node is a parsed expression. Nodes are immutable.
type Node interface {
	// Offset is the byte of the source at which the node's operator, name or value stands.
	Offset() int
	// String is the node as SQL; equal strings mean equal expressions.
	String() string
}

// at is the offset of a node.
type at int

// Offset implements Node.
func (a at) Offset() int { return int(a) }

// Literal is a constant.
type Literal struct {
	at
	Value Const
}

// Column is a reference to a column by its path.
type Column struct {
	at
	Path []string
	// Quoted says that the first part was written in double quotes.
	Quoted bool
}

// Unary is "-" or "not".
type Unary struct {
	at
	Op string
	X  Node
}

// Binary is an arithmetic, comparing or logical operator: + - * / % || = <> < <= > >= and or.
type Binary struct {
	at
	Op   string
	X, Y Node
}

// Is is X IS [NOT] NULL, TRUE or FALSE; What is the word in lower case.
type Is struct {
	at
	X    Node
	Not  bool
	What string
}

// When is a branch of a Case.
type When struct{ Cond, Then Node }

// Case is CASE [Of] WHEN … THEN … ELSE … END; Of and Else may be nil.
type Case struct {
	at
	Of    Node
	Whens []When
	Else  Node
}

// Cast is CAST(X AS Type), or TRY_CAST, which is null where CAST fails.
type Cast struct {
	at
	X    Node
	Type batch.Type
	// Narrow is the width in bits of an integer type below bigint (int: 32), else 0.
	Narrow int
	Try    bool
}

// In is X [NOT] IN (List).
type In struct {
	at
	X    Node
	List []Node
	Not  bool
}

// Between is X [NOT] BETWEEN Low AND High.
type Between struct {
	at
	X, Low, High Node
	Not          bool
}

// Like is X [NOT] LIKE Pattern [ESCAPE Escape]; Escape may be nil.
type Like struct {
	at
	X, Pattern, Escape Node
	Not                bool
}

// Call is a function or an aggregate. Name is in lower case.
type Call struct {
	at
	Name string
	Args []Node
	// Star is count(*), Distinct count(distinct x), Filter FILTER (WHERE …): aggregates only.
	Star, Distinct bool
	Filter         Node
}

func (n *Literal) String() string { return n.Value.String() }

func (n *Column) String() string {
	parts := make([]string, len(n.Path))
	for i, p := range n.Path {
		parts[i] = quoteName(p)
	}
	return strings.Join(parts, ".")
}

func (n *Unary) String() string {
	if n.Op == "not" {
		return "(not " + n.X.String() + ")"
	}
	return "(" + n.Op + n.X.String() + ")"
}

func (n *Binary) String() string { return "(" + n.X.String() + " " + n.Op + " " + n.Y.String() + ")" }

func (n *Is) String() string { return "(" + n.X.String() + " is " + not(n.Not) + n.What + ")" }

func (n *Case) String() string {
	var b strings.Builder
	b.WriteString("case")
	if n.Of != nil {
		b.WriteString(" " + n.Of.String())
	}
	for _, w := range n.Whens {
		b.WriteString(" when " + w.Cond.String() + " then " + w.Then.String())
	}
	if n.Else != nil {
		b.WriteString(" else " + n.Else.String())
	}
	return b.String() + " end"
}

func (n *Cast) String() string {
	name, typ := "cast(", n.Type.String()
	if n.Try {
		name = "try_cast("
	}
	if n.Narrow == 32 {
		typ = "int"
	}
	return name + n.X.String() + " as " + typ + ")"
}

func (n *In) String() string {
	return "(" + n.X.String() + " " + not(n.Not) + "in (" + list(n.List) + "))"
}

func (n *Between) String() string {
	return "(" + n.X.String() + " " + not(n.Not) + "between " + n.Low.String() + " and " + n.High.String() + ")"
}

func (n *Like) String() string {
	s := "(" + n.X.String() + " " + not(n.Not) + "like " + n.Pattern.String()
	if n.Escape != nil {
		s += " escape " + n.Escape.String()
	}
	return s + ")"
}

func (n *Call) String() string {
	args := list(n.Args)
	switch {
	case n.Star:
		args = "*"
	case n.Distinct:
		args = "distinct " + args
	}
	s := n.Name + "(" + args + ")"
	if n.Filter != nil {
		s += " filter (where " + n.Filter.String() + ")"
	}
	return s
}

func not(n bool) string {
	if n {
		return "not "
	}
	return ""
}

func list(nodes []Node) string {
	parts := make([]string, len(nodes))
	for i, n := range nodes {
		parts[i] = n.String()
	}
	return strings.Join(parts, ", ")
}

func quoteName(s string) string {
	plain := s != "" && nameStart(s[0]) && !reserved[strings.ToLower(s)]
	for i := 1; plain && i < len(s); i++ {
		plain = nameStart(s[i]) || digit(s[i])
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// children lists the direct operands of n in the order of the source.
func children(n Node) []Node {
	switch n := n.(type) {
	case *Unary:
		return []Node{n.X}
	case *Binary:
		return []Node{n.X, n.Y}
	case *Is:
		return []Node{n.X}
	case *Case:
		var c []Node
		if n.Of != nil {
			c = append(c, n.Of)
		}
		for _, w := range n.Whens {
			c = append(c, w.Cond, w.Then)
		}
		if n.Else != nil {
			c = append(c, n.Else)
		}
		return c
	case *Cast:
		return []Node{n.X}
	case *In:
		return append([]Node{n.X}, n.List...)
	case *Between:
		return []Node{n.X, n.Low, n.High}
	case *Like:
		c := []Node{n.X, n.Pattern}
		if n.Escape != nil {
			c = append(c, n.Escape)
		}
		return c
	case *Call:
		c := append([]Node(nil), n.Args...)
		if n.Filter != nil {
			c = append(c, n.Filter)
		}
		return c
	}
	return nil
}

// Columns lists the distinct paths that n refers to, in the order of the source.
func Columns(n Node) [][]string {
	var out [][]string
	seen := map[string]bool{}
	var walk func(Node)
	walk = func(n Node) {
		if c, ok := n.(*Column); ok && !seen[c.String()] {
			seen[c.String()] = true
			out = append(out, c.Path)
		}
		for _, c := range children(n) {
			walk(c)
		}
	}
	walk(n)
	return out
}

// UsesEventTime reports whether n calls event_time().
func UsesEventTime(n Node) bool {
	if c, ok := n.(*Call); ok && c.Name == "event_time" {
		return true
	}
	for _, c := range children(n) {
		if UsesEventTime(c) {
			return true
		}
	}
	return false
}
