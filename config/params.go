package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var paramPattern = regexp.MustCompile(`\$\{param:([^}]*)\}`)

const (
	// maxText bounds an expression, and text with its params, in bytes.
	maxText = 16 << 10
	// maxLocate bounds the lines in which expressions are looked for, in bytes.
	maxLocate = 4 << 10
)

// param is a declared param with the value that holds in this parse.
type param struct {
	value scalar
	// missing says that neither a default nor a value was given; this is reported once, where it is declared.
	missing bool
}

// readParams reads the params section and the values given beside the document.
func (d *decoder) readParams(n *yaml.Node, at Place, given map[string]string) {
	if n != nil && n.Kind == yaml.MappingNode {
		for _, p := range d.pairs(n, at) {
			if d.checkName(p.key, p.keyPlace()) {
				value, ok := given[p.key]
				d.params[p.key] = d.readParam(p, value, ok)
			}
		}
	} else if n != nil && n.Kind != yaml.AliasNode {
		d.failf(at, "write {name: default}", "must be a map of names, not a %s", kindName(n))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if d.params[name] == nil {
			d.failf(Place{File: d.file, Path: "params." + name}, hintFor(name, slices.Sorted(maps.Keys(d.params))),
				"a value is given, but the spec declares no such param")
		}
	}
}

func (d *decoder) readParam(p pair, given string, isGiven bool) *param {
	if p.value.Kind != yaml.ScalarNode {
		if p.value.Kind != yaml.AliasNode {
			d.failf(p.at, "give a single value", "a default cannot be a %s", kindName(p.value))
		}
		return &param{missing: true}
	}
	value := scalar{text: p.value.Value}
	if p.value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		value = classify(p.value.Value)
	}
	if isGiven {
		declaredText := value.kind == textScalar
		value = scalar{text: given}
		if !declaredText && given != "" {
			value = classify(given)
		}
	}
	switch {
	case value.kind == nullScalar:
		d.failf(p.at, "give it a default, or a value at render", "has no value")
		return &param{missing: true}
	case value.kind == badNumberScalar:
		value.kind = textScalar
	}
	if strings.Contains(value.text, "${") {
		d.failf(p.at, "write ${env:X} where it is used", "a param holds a plain value, no reference")
		return &param{missing: true}
	}
	return &param{value: value}
}

// param returns the param of that name, or nil after having reported that there is none.
func (d *decoder) param(name string, at Place) *param {
	p := d.params[name]
	if p == nil {
		d.failf(at, hintFor(name, slices.Sorted(maps.Keys(d.params))), "no param %q", name)
		return nil
	}
	if p.missing {
		return nil
	}
	return p
}

// hintFor is "did you mean …?" or "".
func hintFor(word string, candidates []string) string {
	if s := suggest(word, candidates); s != "" {
		return "did you mean " + s + "?"
	}
	return ""
}

// splice replaces the params in text by their values.
func (d *decoder) splice(text string, at Place) (string, bool) {
	return d.replaceParams(text, at, func(p *param, _ int) (string, bool) { return p.value.text, true })
}

func (d *decoder) replaceParams(text string, at Place, value func(p *param, offset int) (string, bool)) (string, bool) {
	if !strings.Contains(text, "${param:") {
		return text, true
	}
	var b strings.Builder
	ok, last := true, 0
	for _, m := range paramPattern.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[last:m[0]])
		last = m[1]
		p := d.param(text[m[2]:m[3]], at)
		if p == nil {
			ok = false
			continue
		}
		v, good := value(p, m[0])
		b.WriteString(v)
		ok = ok && good
		if b.Len() > maxText {
			d.failf(at, "", "longer than %d bytes with its params", maxText)
			return "", false
		}
	}
	b.WriteString(text[last:])
	return b.String(), ok
}

// checkRefs reports references of an unknown kind or without a name in connector text.
func (d *decoder) checkRefs(s string, at Place) bool {
	ok := true
	for _, m := range refPattern.FindAllStringSubmatch(s, -1) {
		switch {
		case m[1] != "env" && m[1] != "file" || !strings.Contains(m[0], ":"):
			d.failf(at, "use ${env:X}, ${file:/p} or ${param:x}", "unknown reference %s", m[0])
			ok = false
		case m[2] == "":
			d.failf(at, "", "%s names nothing", m[0])
			ok = false
		}
	}
	if strings.Count(s, "${") != len(refPattern.FindAllString(s, -1)) {
		d.failf(at, "close it with }", "a ${ has no end")
		ok = false
	}
	return ok
}

// literal is the param as a SQL literal: a number as it is (in parentheses if negative, since two minus
// signs start a comment), text in quotes.
func (p *param) literal() string {
	switch p.value.kind {
	case numberScalar:
		if strings.HasPrefix(p.value.text, "-") {
			return "(" + p.value.text + ")"
		}
		return p.value.text
	case boolScalar:
		return p.value.text
	}
	return "'" + strings.ReplaceAll(p.value.text, "'", "''") + "'"
}

// expression is the codec of a SQL scalar expression.
func expression() codec[Expr] {
	return codec[Expr]{
		shape: scalarShape("expr", "string"),
		read: func(d *decoder, n *yaml.Node, at Place) (Expr, bool) {
			return d.expr(n, at)
		},
		write: func(e Expr) any { return e.Text },
	}
}

func (d *decoder) expr(n *yaml.Node, at Place) (Expr, bool) {
	s, ok := d.scalar(n, at, "an expression")
	switch {
	case !ok:
		return Expr{}, false
	case s.kind != textScalar && !s.free:
		d.failf(at, fmt.Sprintf("an expression is SQL in a string; write %q", s.text), "must be text")
		return Expr{}, false
	case len(n.Value) > maxText:
		d.failf(at, "divide it over several steps", "longer than %d bytes", maxText)
		return Expr{}, false
	}
	text, ok := d.exprParams(n.Value, at)
	switch {
	case !ok:
		return Expr{}, false
	case strings.TrimSpace(text) == "":
		d.failf(at, "", "empty expression")
		return Expr{}, false
	case strings.Contains(n.Value, "${env:") || strings.Contains(n.Value, "${file:"):
		d.failf(at, "use ${param:x}", "references to the environment and files work in connector and format settings only")
		return Expr{}, false
	}
	e := Expr{Text: text, At: at}
	if text == n.Value {
		d.locate(&e, n)
	}
	return e, true
}

// exprParams replaces the params in an expression by literals.
func (d *decoder) exprParams(text string, at Place) (string, bool) {
	return d.replaceParams(text, at, func(p *param, offset int) (string, bool) {
		if insideQuotes(text[:offset]) {
			d.failf(at, "write it without quotes; it becomes a literal", "a param inside quotes")
			return "", false
		}
		return p.literal(), true
	})
}

// locate finds the text in the document, so that offsets into it become columns.
func (d *decoder) locate(e *Expr, n *yaml.Node) {
	if n.Line < 1 || n.Line > len(d.lines) {
		return
	}
	if len(d.lines[n.Line-1]) > maxLocate {
		return // one long line of JSON: the start of the expression must do
	}
	line := []rune(d.lines[n.Line-1])
	column := n.Column
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		column++
	}
	if column < 1 || column > len(line)+1 {
		return
	}
	if strings.HasPrefix(string(line[column-1:]), e.Text) {
		e.At.Column, e.exact = column, true
	}
}

// insideQuotes says whether a SQL text or quoted name is still open at the end of s. A doubled quote closes
// and opens again.
func insideQuotes(s string) bool {
	var open rune
	for _, r := range s {
		switch {
		case open == 0 && (r == '\'' || r == '"'):
			open = r
		case r == open:
			open = 0
		}
	}
	return open != 0
}
