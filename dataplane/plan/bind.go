package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
)

// parse parses an expression; nil after a problem.
func (p *planner) parse(e config.Expr) expr.Node {
	n, err := expr.Parse(e.Text)
	if err != nil {
		p.mistake(e, err)
		return nil
	}
	return n
}

func (p *planner) mistake(e config.Expr, err error) {
	var m *expr.Error
	if errors.As(err, &m) {
		p.problems.Add(e.Place(m.Offset), m.Msg, m.Hint)
		return
	}
	p.problems.Add(e.At, err.Error(), "")
}

// bind parses and types an expression over a schema; nils after a problem.
func (p *planner) bind(e config.Expr, s *batch.Schema, of string) (*expr.Typed, expr.Node) {
	n := p.parse(e)
	if n == nil {
		return nil, nil
	}
	t, err := expr.Bind(n, newScope(s, of))
	if err != nil {
		p.mistake(e, err)
		return nil, nil
	}
	return t, n
}

// scope adds to a schema's scope the words for a path that names a struct.
type scope struct {
	expr.Scope
	of     string
	schema *batch.Schema
}

func newScope(s *batch.Schema, of string) scope {
	return scope{Scope: expr.SchemaScope(s), of: of, schema: s}
}

// Lookup implements expr.Scope.
func (s scope) Lookup(path []string) (expr.Ref, error) {
	ref, err := s.Scope.Lookup(path)
	if !errors.Is(err, expr.ErrNoColumn) {
		return ref, err
	}
	prefix := strings.Join(path, ".") + "."
	for _, f := range s.schema.Fields {
		if strings.HasPrefix(f.Name, prefix) {
			return ref, fmt.Errorf("%q is a struct; name one of its fields, such as %s", strings.Join(path, "."), f.Name)
		}
	}
	return ref, err
}
