package expr

import (
	"errors"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

// ErrNoColumn is returned by a Scope for a path that names nothing. Bind turns it into a message with a
// suggestion.
var ErrNoColumn = errors.New("no such column")

// Ref is what a path refers to.
type Ref struct {
	Index    int // column of the batch
	Type     batch.Type
	Nullable bool
}

// Scope gives paths their columns. Implemented here for schemas; planners have others (sides of a join).
type Scope interface {
	// Lookup returns the column that path names, ErrNoColumn, or an error that says why path names none,
	// which is shown as it is.
	Lookup(path []string) (Ref, error)
	// Names lists all columns as one would write them, for suggestions.
	Names() []string
	// HasTime says whether rows have an event time.
	HasTime() bool
}

// SchemaScope is the scope of the columns of a schema: a path is a field whose name is the path's parts
// joined by dots.
func SchemaScope(s *batch.Schema) Scope { return schemaScope{s} }

type schemaScope struct{ s *batch.Schema }

func (c schemaScope) Lookup(path []string) (Ref, error) {
	i := c.s.Index(strings.Join(path, "."))
	if i < 0 {
		return Ref{}, ErrNoColumn
	}
	f := &c.s.Fields[i]
	return Ref{Index: i, Type: f.Type, Nullable: f.Nullable}, nil
}

func (c schemaScope) Names() []string {
	names := make([]string, len(c.s.Fields))
	for i := range names {
		names[i] = c.s.Fields[i].Name
	}
	return names
}

func (c schemaScope) HasTime() bool { return c.s.HasTime }

type op uint8

const (
	opConst op = iota
	opColumn
	opTime // the row's event time
	opAnd
	opOr
	opNot
	opIsNull
	opIsTrue  // args[0] is true (not null)
	opIsFalse // args[0] is false (not null)
	opCase    // cond, then, cond, then, …, else
	opCoalesce
	opCompare
	opIn // args[0] is one of set
	opCall
)

// Typed is a bound expression: every column has an index, every operation its types. It is immutable and
// can be compiled any number of times.
type Typed struct {
	typ      batch.Type
	nullable bool
	at       int
	op       op
	args     []*Typed
	index    int        // opColumn
	value    Const      // opConst
	cmp      comparison // opCompare
	set      []Const    // opIn
	fn       *kernel    // opCall
}

// Type is the type of the value.
func (t *Typed) Type() batch.Type { return t.typ }

// Nullable says whether the value can be null.
func (t *Typed) Nullable() bool { return t.nullable }

// Const returns the value of a constant expression.
func (t *Typed) Const() (Const, bool) { return t.value, t.op == opConst }

// Column returns the index of the column if the expression is just a column.
func (t *Typed) Column() (int, bool) { return t.index, t.op == opColumn }

// Columns lists the indices of the columns that the expression reads, ascending.
func (t *Typed) Columns() []int {
	var out []int
	t.walk(func(x *Typed) {
		if x.op == opColumn {
			out = append(out, x.index)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// UsesEventTime reports whether the expression reads the row's event time.
func (t *Typed) UsesEventTime() bool {
	uses := false
	t.walk(func(x *Typed) { uses = uses || x.op == opTime })
	return uses
}

// Same reports whether two expressions over the same schema are written alike, so that they have the same value in every
// row. It may miss that two are; what they say of a failure is their own.
func (t *Typed) Same(u *Typed) bool {
	return t.op == u.op && t.typ == u.typ && t.index == u.index && t.value == u.value && t.cmp == u.cmp && t.fn == u.fn &&
		slices.Equal(t.set, u.set) && slices.EqualFunc(t.args, u.args, (*Typed).Same)
}

func (t *Typed) walk(visit func(*Typed)) {
	visit(t)
	for _, a := range t.args {
		a.walk(visit)
	}
}

func constant(at int, v Const) *Typed {
	return &Typed{typ: v.Type, nullable: v.Null, at: at, op: opConst, value: v}
}

func (t *Typed) isNullLiteral() bool { return t.op == opConst && t.typ.Kind == batch.Invalid }

func anyNullable(args []*Typed) bool {
	return slices.ContainsFunc(args, func(t *Typed) bool { return t.nullable })
}
