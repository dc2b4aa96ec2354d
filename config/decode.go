package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder carries what one parse collects.
type decoder struct {
	file     string
	lines    []string
	problems Problems
	// places by path, of everything that was written.
	places map[string]Place
	params map[string]*param
	// owners names, by key, the objects that know it: for the hint at a misplaced key.
	owners map[string][]string
}

func newDecoder(file string, data []byte) *decoder {
	return &decoder{
		file: file, lines: strings.Split(string(data), "\n"),
		places: map[string]Place{}, params: map[string]*param{}, owners: map[string][]string{},
	}
}

// full says that no further mistake will be kept, so that none need be worded.
func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

func (d *decoder) failf(at Place, hint, format string, args ...any) {
	if d.full() {
		return
	}
	d.problems.Add(at, fmt.Sprintf(format, args...), hint)
}

// pair is one key of a mapping. at is the place of a scalar value, or of the key of a collection.
type pair struct {
	key   string
	kn    *yaml.Node
	value *yaml.Node
	at    Place
}

// keyPlace is where the key itself stands.
func (p pair) keyPlace() Place {
	at := p.at
	if p.kn.Line > 0 {
		at.Line, at.Column = p.kn.Line, p.kn.Column
	}
	return at
}

// pairs lists the keys of a mapping in document order, reports doubles and remembers the places.
func (d *decoder) pairs(n *yaml.Node, at Place) []pair {
	out := make([]pair, 0, len(n.Content)/2)
	firstLine := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], n.Content[i+1]
		if kn.Kind != yaml.ScalarNode {
			d.failf(d.nodePlace(kn, at), "", "a key must be text")
			continue
		}
		p := pair{key: kn.Value, kn: kn, value: vn, at: at.Key(kn.Value)}
		where := vn
		if vn.Kind != yaml.ScalarNode || isNull(vn) {
			where = kn
		}
		p.at = d.nodePlace(where, p.at)
		if first, ok := firstLine[p.key]; ok {
			d.failf(p.keyPlace(), "remove one", "written twice, first in line %d", first)
			continue
		}
		firstLine[p.key] = kn.Line
		if kn.Line > 0 {
			d.places[p.at.Path] = p.at
		}
		out = append(out, p)
	}
	return out
}

// nodePlace is at moved to where n stands; defaults have no line and stay at their holder's place.
func (d *decoder) nodePlace(n *yaml.Node, at Place) Place {
	if n.Line > 0 {
		at.Line, at.Column = n.Line, n.Column
	}
	return at
}

// item is the place of element i of a list; it is remembered.
func (d *decoder) item(n *yaml.Node, at Place, i int) Place {
	p := d.nodePlace(n, at.Index(i))
	if n.Line > 0 {
		d.places[p.Path] = p
	}
	return p
}

type scalarKind int

const (
	textScalar scalarKind = iota
	numberScalar
	boolScalar
	nullScalar
	badNumberScalar
)

// scalar is a YAML scalar classified by JSON's rules; YAML's own tags (octal, yes/no, dates) play no part.
type scalar struct {
	kind scalarKind
	text string
	// free says that the value came from a param, which takes the type of its place.
	free bool
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	likeNumber = regexp.MustCompile(`^[+-]?(\.?[0-9][0-9_]*(\.[0-9_]*)?([eE][+-]?[0-9]+)?|0[xob][0-9a-fA-F_]+|\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style == 0 && classify(n.Value).kind == nullScalar
}

// classify says what a plain (unquoted) scalar is.
func classify(text string) scalar {
	s := scalar{text: text}
	switch {
	case text == "" || text == "~" || strings.EqualFold(text, "null"):
		s.kind = nullScalar
	case strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		s.kind, s.text = boolScalar, strings.ToLower(text)
	case jsonNumber.MatchString(text):
		s.kind = numberScalar
	case likeNumber.MatchString(text):
		s.kind = badNumberScalar
	}
	return s
}

// scalar reads n, which should be want (such as "a duration"). A value that is one param becomes its value.
// It reports maps, lists, nulls and numbers that JSON would not take.
func (d *decoder) scalar(n *yaml.Node, at Place, want string) (scalar, bool) {
	if n.Kind == yaml.AliasNode {
		return scalar{}, false // refused by checkTree
	}
	if n.Kind != yaml.ScalarNode {
		d.failf(at, "", "must be %s, not a %s", want, kindName(n))
		return scalar{}, false
	}
	s := scalar{text: n.Value}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		s = classify(n.Value)
	}
	if m := paramPattern.FindStringSubmatch(s.text); m != nil && m[0] == s.text {
		p := d.param(m[1], at)
		if p == nil {
			return scalar{}, false
		}
		s = p.value
		s.free = true
	}
	switch s.kind {
	case nullScalar:
		d.failf(at, "write "+want+", or remove the key", "no value")
		return s, false
	case badNumberScalar:
		d.failf(at, fmt.Sprintf("write a decimal number, or %q if it is text", s.text), "%s is no number as in JSON", s.text)
		return s, false
	}
	return s, true
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "map"
	case yaml.SequenceNode:
		return "list"
	}
	return "single value"
}

// text reads a scalar that must be text. Params inside are spliced; other references are left alone.
func (d *decoder) text(n *yaml.Node, at Place, want string) (string, bool) {
	s, ok := d.scalar(n, at, want)
	if !ok {
		return "", false
	}
	if s.kind != textScalar && !s.free {
		d.failf(at, fmt.Sprintf("write %q", s.text), "must be text")
		return "", false
	}
	return d.splice(s.text, at)
}

// plainText is text without references to secrets or the environment.
func (d *decoder) plainText(n *yaml.Node, at Place, want string) (string, bool) {
	s, ok := d.text(n, at, want)
	if !ok {
		return "", false
	}
	if strings.Contains(s, "${") {
		d.failf(at, "write the value, or ${param:x}", "references work in connector and format settings only")
		return "", false
	}
	return s, true
}

// unknownKey reports a key that the object does not have, with the likeliest way out. It returns the key
// that was probably meant.
func (d *decoder) unknownKey(p pair, o *objectShape) string {
	if d.full() {
		return ""
	}
	at := p.keyPlace()
	if slices.Contains(o.planned, p.key) {
		d.failf(at, "", "unknown key (not available yet)")
		return p.key
	}
	if s := suggest(p.key, o.keys()); s != "" {
		hint := "did you mean " + s + "?"
		if slices.Contains(o.planned, s) {
			hint += " (not available yet)"
		}
		d.failf(at, hint, "unknown key")
		return s
	}
	if owners := d.owners[p.key]; len(owners) > 0 {
		d.failf(at, p.key+" belongs in "+strings.Join(owners, " or "), "unknown key")
		return ""
	}
	if s := suggest(p.key, specWords); s != "" {
		d.failf(at, "did you mean "+s+"? (not here)", "unknown key")
		return ""
	}
	d.failf(at, "known here: "+strings.Join(o.known(), ", "), "unknown key")
	return ""
}
