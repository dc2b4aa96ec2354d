package config

import "slices"

// shape describes a kind of value; the tables are a tree of shapes with codecs attached. The JSON Schema,
// the reference page and the suggestions walk it.
type shape struct {
	form shapeForm
	// kind is a word for people: "duration", "list of text".
	kind string
	// json is the JSON Schema of a scalar, or of a form that has its own syntax.
	json map[string]any
	// def names json as a definition of its own, for what refers to itself.
	def string
	// object is set for objectForm, elem for listForm and mapForm.
	object *objectShape
	elem   *shape
	// alternatives of anyForm.
	alternatives []*shape
}

type shapeForm int

const (
	scalarForm shapeForm = iota
	objectForm
	listForm
	mapForm
	anyForm
)

// objectShape describes a map with fixed keys.
type objectShape struct {
	// name is unique: it names the definition in the JSON Schema and the section in the reference.
	name   string
	doc    string
	fields []fieldShape
	// planned are keys of the specification that are not built yet.
	planned []string
	choices []choice
}

// fieldShape describes one key.
type fieldShape struct {
	key      string
	doc      string
	def      string // YAML text of the default; "" for none
	required bool
	shape    *shape
}

// choice is a set of keys of which at most one (required: exactly one) may stand in an object.
type choice struct {
	what     string // "connector"
	where    string // "source"
	keys     []string
	required bool
}

// keys lists what may be meant: the known keys, then the planned ones.
func (o *objectShape) keys() []string { return append(o.known(), o.planned...) }

func (o *objectShape) known() []string {
	out := make([]string, len(o.fields))
	for i, f := range o.fields {
		out[i] = f.key
	}
	return out
}

// objects lists the object shapes below s, each once, holders first.
func (s *shape) objects() []*objectShape {
	var out []*objectShape
	var walk func(*shape)
	walk = func(s *shape) {
		switch {
		case s == nil:
		case s.object != nil:
			if slices.ContainsFunc(out, func(o *objectShape) bool { return o.name == s.object.name }) {
				return
			}
			out = append(out, s.object)
			for _, f := range s.object.fields {
				walk(f.shape)
			}
		default:
			walk(s.elem)
			for _, a := range s.alternatives {
				walk(a)
			}
		}
	}
	walk(s)
	return out
}
