package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is one key of an object of type T.
type field[T any] struct {
	fieldShape
	read  func(d *decoder, n *yaml.Node, at Place, t *T) bool
	write func(t *T) any
}

// option refines a field.
type option func(*fieldShape)

// required makes a key that must be written.
func required(f *fieldShape) { f.required = true }

// def is the default, as YAML text; it is read by the same codec as a written value.
func def(text string) option { return func(f *fieldShape) { f.def = text } }

// key declares one key of T: where its value lives and how it is read, written and described.
func key[T, V any](name, doc string, c codec[V], at func(*T) *V, options ...option) field[T] {
	f := field[T]{fieldShape: fieldShape{key: name, doc: doc, shape: c.shape}}
	for _, o := range options {
		o(&f.fieldShape)
	}
	f.read = func(d *decoder, n *yaml.Node, where Place, t *T) bool {
		v, ok := c.read(d, n, where)
		if ok {
			*at(t) = v
		}
		return ok
	}
	var zero V
	f.write = func(t *T) any {
		v := c.write(*at(t))
		if f.def == "" && !f.required && c.shape.form == scalarForm && v == c.write(zero) {
			return nil // not written
		}
		return v
	}
	return f
}

// objectOf is a map with the fields' keys. place, if not nil, receives where the object stands.
func objectOf[T any](o objectShape, place func(*T) *Place, check func(*decoder, *T, map[string]pair, Place), fields ...field[T]) codec[T] {
	for _, f := range fields {
		o.fields = append(o.fields, f.fieldShape)
	}
	sh := &shape{form: objectForm, kind: "map", object: &o}
	return codec[T]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) (T, bool) {
			var t T
			if place != nil {
				*place(&t) = at
			}
			if n.Kind != yaml.MappingNode {
				d.notAMap(n, at, &o)
				return t, false
			}
			written := readFields(d, n, at, &t, &o, fields)
			if check != nil {
				check(d, &t, written, at)
			}
			return t, true
		},
		write: func(t T) any {
			ms := members{}
			for _, f := range fields {
				if v := f.write(&t); v != nil {
					ms = append(ms, member{f.key, v})
				}
			}
			return ms
		},
	}
}

func (d *decoder) notAMap(n *yaml.Node, at Place, o *objectShape) {
	switch {
	case n.Kind == yaml.AliasNode:
	case isNull(n):
		d.failf(at, "write {} for the defaults, or remove the key", "no value")
	default:
		d.failf(at, "its keys: "+strings.Join(o.known(), ", "), "must be a map, not a %s", kindName(n))
	}
}

// readFields reads the keys of one object, fills in defaults and reports unknown, missing and excluded
// keys. It returns what was written or probably meant.
func readFields[T any](d *decoder, n *yaml.Node, at Place, t *T, o *objectShape, fields []field[T]) map[string]pair {
	written := map[string]pair{}
	for _, p := range d.pairs(n, at) {
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.key == p.key })
		if i < 0 {
			if meant := d.unknownKey(p, o); meant != "" {
				if _, ok := written[meant]; !ok {
					written[meant] = p
				}
			}
			continue
		}
		written[p.key] = p
		fields[i].read(d, p.value, p.at, t)
	}
	for _, f := range fields {
		if _, ok := written[f.key]; ok {
			continue
		}
		if f.def != "" {
			f.read(d, defaultNode(f.def), at.Key(f.key), t)
		} else if f.required {
			d.failf(at.Key(f.key), "add it", "missing")
		}
	}
	d.checkChoices(written, o, at)
	return written
}

func (d *decoder) checkChoices(written map[string]pair, o *objectShape, at Place) {
	for _, c := range o.choices {
		var found []string
		for _, k := range c.keys {
			if _, ok := written[k]; ok {
				found = append(found, k)
			}
		}
		switch {
		case len(found) > 1:
			hint := "keep one"
			if c.where == "step" || c.where == "source" || c.where == "sink" {
				hint = "use two"
			}
			d.failf(at, hint, "%s in one %s", strings.Join(found, " and "), c.where)
		case len(found) == 0 && c.required:
			known := slices.DeleteFunc(slices.Clone(c.keys), func(k string) bool { return slices.Contains(o.planned, k) })
			d.failf(at, "add one of "+strings.Join(known, ", "), "no %s", c.what)
		}
	}
}

// defaultNode parses the text of a default. Its nodes have no line: they stand nowhere in the document.
func defaultNode(text string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		panic(fmt.Sprintf("config: default %q: %v", text, err)) // a constant of the tables
	}
	var strip func(*yaml.Node)
	strip = func(n *yaml.Node) {
		n.Line, n.Column = 0, 0
		for _, c := range n.Content {
			strip(c)
		}
	}
	strip(&doc)
	return doc.Content[0]
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxName bounds names, which end up in object keys, transaction ids and metric labels.
const maxName = 128

// checkName reports a name that cannot be one.
func (d *decoder) checkName(name string, at Place) bool {
	switch {
	case !namePattern.MatchString(name):
		d.failf(at, "use letters, digits and _, not starting with a digit", "%q is no name", name)
	case len(name) > maxName:
		d.failf(at, "", "name longer than %d characters", maxName)
	default:
		return true
	}
	return false
}

// namedMap is {name: item}, in document order.
func namedMap[T any](item codec[T], name func(*T) *string) codec[[]T] {
	return codec[[]T]{
		shape: &shape{form: mapForm, kind: "map of " + item.shape.kind, elem: item.shape},
		read: func(d *decoder, n *yaml.Node, at Place) ([]T, bool) {
			if n.Kind != yaml.MappingNode {
				if n.Kind != yaml.AliasNode {
					d.failf(at, "write {name: …}", "must be a map of names, not a %s", kindName(n))
				}
				return nil, false
			}
			var out []T
			for _, p := range d.pairs(n, at) {
				d.checkName(p.key, p.keyPlace())
				t, _ := item.read(d, p.value, p.at)
				*name(&t) = p.key
				out = append(out, t)
			}
			return out, true
		},
		write: func(ts []T) any {
			if len(ts) == 0 {
				return nil
			}
			ms := make(members, len(ts))
			for i := range ts {
				ms[i] = member{*name(&ts[i]), item.write(ts[i])}
			}
			return ms
		},
	}
}

// word is a scalar that stands for an object with one key.
type word[T any] struct {
	text string
	set  func(*T)
	is   func(*T) bool
}

// orWord lets a word stand in the place of an object: format: json. A word that is a key of the object is
// that key with its defaults.
func orWord[T any](c codec[T], place func(*T) *Place, words ...word[T]) codec[T] {
	names := wordNames(c.shape.object, words)
	wordShape := &shape{form: scalarForm, kind: strings.Join(names, " \\| "), json: map[string]any{"enum": names}}
	return codec[T]{
		shape: &shape{form: anyForm, kind: wordShape.kind + " \\| map", alternatives: []*shape{wordShape, c.shape}},
		read: func(d *decoder, n *yaml.Node, at Place) (T, bool) {
			var t T
			if n.Kind != yaml.ScalarNode || isNull(n) {
				return c.read(d, n, at)
			}
			s, ok := d.plainText(n, at, "one of "+strings.Join(names, ", "))
			if !ok {
				return t, false
			}
			if i := slices.IndexFunc(words, func(w word[T]) bool { return w.text == s }); i >= 0 {
				words[i].set(&t)
				if place != nil {
					*place(&t) = at
				}
				return t, true
			}
			if !slices.Contains(names, s) {
				d.unknownWord(s, at, append(slices.Clone(names), objectKeys(c.shape.object)...), c.shape.object.planned)
				return t, false
			}
			return c.read(d, wordNode(s, n), at)
		},
		write: func(t T) any {
			if i := slices.IndexFunc(words, func(w word[T]) bool { return w.is(&t) }); i >= 0 {
				return words[i].text
			}
			return c.write(t)
		},
	}
}

// wordNames lists the words, then the keys that may stand without their settings.
func wordNames[T any](o *objectShape, words []word[T]) []string {
	var names []string
	for _, w := range words {
		names = append(names, w.text)
	}
	for _, f := range o.fields {
		if f.bare() {
			names = append(names, f.key)
		}
	}
	return names
}

// bare says that the key may stand as a word: its value is an object that needs nothing.
func (f fieldShape) bare() bool {
	return f.shape.form == objectForm && !slices.ContainsFunc(f.shape.object.fields, func(f fieldShape) bool { return f.required })
}

// objectKeys are the keys that can only be written with a value, shown as {key}.
func objectKeys(o *objectShape) []string {
	var out []string
	for _, f := range o.fields {
		if !f.bare() {
			out = append(out, "{"+f.key+": …}")
		}
	}
	return out
}

// wordNode is {word: {}}, standing where n stands.
func wordNode(s string, n *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Value: s, Line: n.Line, Column: n.Column},
		{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column},
	}}
}
