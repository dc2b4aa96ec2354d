package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ParsePath reads a, a.b or "user-id".b: names divided by dots, quoted as in SQL where they are not plain.
func ParsePath(s string) (Path, error) {
	var p Path
	rest := s
	for {
		part, tail, err := pathPart(rest)
		if err != nil {
			return nil, fmt.Errorf("%q is no column path: %w", s, err)
		}
		p = append(p, part)
		if tail == "" {
			return p, nil
		}
		if tail[0] != '.' {
			return nil, fmt.Errorf("%q is no column path: unexpected %q", s, tail)
		}
		rest = tail[1:]
	}
}

func pathPart(s string) (part, tail string, err error) {
	if !strings.HasPrefix(s, `"`) {
		i := strings.IndexFunc(s, func(r rune) bool { return !isNameRune(r) })
		if i < 0 {
			i = len(s)
		}
		if !namePattern.MatchString(s[:i]) {
			return "", "", fmt.Errorf("a name is missing at %q", s)
		}
		return s[:i], s[i:], nil
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		part = strings.ReplaceAll(s[1:i], `""`, `"`)
		if part == "" {
			return "", "", fmt.Errorf("an empty name")
		}
		return part, s[i+1:], nil
	}
	return "", "", fmt.Errorf("a quote is open")
}

func isNameRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// String is the path as SQL.
func (p Path) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		if !namePattern.MatchString(s) {
			s = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
		parts[i] = s
	}
	return strings.Join(parts, ".")
}

// columnRules says which items a column list may hold.
type columnRules struct {
	stars, named bool
}

// columnsOf is a list of columns, or (if named) one map of them.
func columnsOf(rules columnRules) codec[[]Column] {
	items := []any{map[string]any{"type": "string"}}
	kind := "list of paths"
	if rules.named {
		items = append(items, map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": "string"}})
		kind = "columns"
	}
	sh := &shape{form: scalarForm, kind: kind, json: map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"anyOf": items}},
	}}}
	if rules.named {
		sh.json["anyOf"] = append(sh.json["anyOf"].([]any), items[1])
	}
	return codec[[]Column]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) ([]Column, bool) {
			before := len(d.problems)
			out := d.columns(n, at, rules)
			d.checkDoubles(out, at)
			return out, len(d.problems) == before && len(out) > 0
		},
		write: writeColumns,
	}
}

func (d *decoder) columns(n *yaml.Node, at Place, rules columnRules) []Column {
	switch {
	case n.Kind == yaml.MappingNode && rules.named && len(n.Content) > 0:
		return d.namedColumns(n, at, rules)
	case n.Kind == yaml.AliasNode:
		return nil
	case n.Kind != yaml.SequenceNode:
		d.failf(at, fmt.Sprintf("write [%s]", abbreviate(n)), "must be a list of columns, not a %s", kindName(n))
		return nil
	case len(n.Content) == 0:
		d.failf(at, "name a column, or remove the key", "must not be empty")
		return nil
	}
	var out []Column
	for i, c := range n.Content {
		where := d.item(c, at, i)
		switch {
		case c.Kind == yaml.MappingNode && rules.named:
			out = append(out, d.namedColumns(c, where, rules)...)
		default:
			if s, ok := d.plainText(c, where, "a column"); ok {
				if col, ok := d.pathColumn(s, where, rules); ok {
					d.locate(&col.Expr, c)
					out = append(out, col)
				}
			}
		}
	}
	return out
}

// pathColumn is the item path, "*" or path.*.
func (d *decoder) pathColumn(s string, at Place, rules columnRules) (Column, bool) {
	if star, of := cutStar(s); star {
		if !rules.stars {
			d.failf(at, "name the columns", "%s cannot stand here", s)
			return Column{}, false
		}
		return d.star(of, "", at)
	}
	p, err := ParsePath(s)
	if err != nil {
		hint := ""
		if rules.named {
			hint = fmt.Sprintf("name an expression, {name: %q}", s)
		}
		d.failf(at, hint, "%v", err)
		return Column{}, false
	}
	return Column{At: at, Name: p[len(p)-1], Path: p, Expr: Expr{Text: s, At: at}}, true
}

// cutStar splits path.* into its path.
func cutStar(s string) (star bool, of string) {
	if s == "*" {
		return true, ""
	}
	of, star = strings.CutSuffix(s, ".*")
	return star, of
}

func (d *decoder) star(of, prefix string, at Place) (Column, bool) {
	c := Column{At: at, Star: true, Prefix: prefix}
	if of == "" {
		return c, true
	}
	p, err := ParsePath(of)
	if err != nil {
		d.failf(at, "", "%v", err)
		return Column{}, false
	}
	c.Path = p
	return c, true
}

// namedColumns reads {name: expr} and {"prefix*": path.*}.
func (d *decoder) namedColumns(n *yaml.Node, at Place, rules columnRules) []Column {
	var out []Column
	for _, p := range d.pairs(n, at) {
		prefix, isPrefix := strings.CutSuffix(p.key, "*")
		value := ""
		if p.value.Kind == yaml.ScalarNode {
			value = strings.TrimSpace(p.value.Value)
		}
		star, of := cutStar(value)
		switch {
		case !rules.stars && (isPrefix || star):
			d.failf(p.keyPlace(), "name the columns", "a star cannot stand here")
		case isPrefix && !star:
			d.failf(p.at, "write path.* or \"*\"", "%q gives a prefix to many columns, %q is one", p.key, value)
		case !isPrefix && star:
			d.failf(p.at, fmt.Sprintf("write a prefix, {\"%s_*\": %s}", p.key, value), "%s is many columns, %q one name", value, p.key)
		case isPrefix:
			if c, ok := d.star(of, prefix, p.keyPlace()); ok {
				out = append(out, c)
			}
		default:
			if e, ok := d.namedExpr(p); ok {
				out = append(out, Column{At: p.keyPlace(), Name: e.Name, Expr: e.Expr})
			}
		}
	}
	return out
}

func (d *decoder) namedExpr(p pair) (NamedExpr, bool) {
	okName := d.checkColumnName(p.key, p.keyPlace())
	e, ok := d.expr(p.value, p.at)
	return NamedExpr{Name: p.key, Expr: e}, ok && okName
}

func (d *decoder) checkColumnName(name string, at Place) bool {
	switch {
	case name == "":
		d.failf(at, "", "a column needs a name")
	case len(name) > maxName:
		d.failf(at, "", "name longer than %d bytes", maxName)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		d.failf(at, "", "a column's name cannot hold control characters")
	default:
		return true
	}
	return false
}

// checkDoubles reports two columns of one name. What stars bring is the planner's to check.
func (d *decoder) checkDoubles(columns []Column, at Place) {
	seen := map[string]bool{}
	for _, c := range columns {
		if c.Star {
			continue
		}
		if seen[c.Name] {
			d.failf(c.At, fmt.Sprintf("rename one, {%s_2: %s}", c.Name, c.Expr.Text), "two columns %q", c.Name)
		}
		seen[c.Name] = true
	}
}

// writeColumns is the list form, which keeps the order in any JSON tool.
func writeColumns(columns []Column) any {
	if columns == nil {
		return nil
	}
	out := make([]any, len(columns))
	for i, c := range columns {
		star := "*"
		if c.Path != nil {
			star = c.Path.String() + ".*"
		}
		switch {
		case c.Star && c.Prefix == "":
			out[i] = star
		case c.Star:
			out[i] = members{{c.Prefix + "*", star}}
		case c.Path != nil:
			out[i] = c.Expr.Text
		default:
			out[i] = members{{c.Name, c.Expr.Text}}
		}
	}
	return out
}

// namedExprs is {name: expr}; it may be empty.
func namedExprs() codec[Aggregate] {
	sh := &shape{form: scalarForm, kind: "{name: expr}", json: map[string]any{
		"type": "object", "additionalProperties": map[string]any{"type": "string"}}}
	return codec[Aggregate]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) (Aggregate, bool) {
			a := Aggregate{At: at}
			if n.Kind != yaml.MappingNode {
				if n.Kind != yaml.AliasNode {
					d.failf(at, "write {total: sum(amount)}, or {} for the keys alone", "must be a map of {name: expr}, not a %s", kindName(n))
				}
				return a, false
			}
			for _, p := range d.pairs(n, at) {
				if e, ok := d.namedExpr(p); ok {
					a.Columns = append(a.Columns, e)
				}
			}
			return a, true
		},
		write: func(a Aggregate) any {
			ms := members{}
			for _, c := range a.Columns {
				ms = append(ms, member{c.Name, c.Expr.Text})
			}
			return ms
		},
	}
}
