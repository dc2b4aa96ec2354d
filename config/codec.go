package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// codec is how one kind of value is read, written and described: the unit from which the tables are made.
// read reports its problems to the decoder and returns false if there is no usable value. write returns
// what encoding/json takes, or nil for a value that is left out.
type codec[V any] struct {
	shape *shape
	read  func(d *decoder, n *yaml.Node, at Place) (V, bool)
	write func(v V) any
}

// members is a JSON object that keeps its order.
type members []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (ms members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{m.key, m.value} {
			if j > 0 {
				b.WriteByte(':')
			}
			text, err := marshal(v)
			if err != nil {
				return nil, err
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal without the escaping of <, > and &, which expressions are full of.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

func scalarShape(kind, jsonType string) *shape {
	return &shape{form: scalarForm, kind: kind, json: map[string]any{"type": jsonType}}
}

// textOf is text in which only params may stand.
func textOf[S ~string](kind string) codec[S] {
	return codec[S]{
		shape: scalarShape(kind, "string"),
		read: func(d *decoder, n *yaml.Node, at Place) (S, bool) {
			s, ok := d.plainText(n, at, "text")
			if ok && s == "" {
				d.failf(at, "", "must not be empty")
				return "", false
			}
			return S(s), ok
		},
		write: func(v S) any { return string(v) },
	}
}

// enumOf is one of some words. planned words stand in the specification but are not built.
func enumOf[S ~string](planned []string, words ...S) codec[S] {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	sh := &shape{form: scalarForm, kind: strings.Join(names, " \\| "), json: map[string]any{"enum": names}}
	return codec[S]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) (S, bool) {
			s, ok := d.plainText(n, at, "one of "+strings.Join(names, ", "))
			if ok && !slices.Contains(names, s) {
				d.unknownWord(s, at, names, planned)
				return "", false
			}
			return S(s), ok
		},
		write: func(v S) any { return string(v) },
	}
}

func (d *decoder) unknownWord(s string, at Place, names, planned []string) {
	if slices.Contains(planned, s) {
		d.failf(at, "use "+strings.Join(names, ", "), "%s is not available yet", s)
		return
	}
	hint := "use " + strings.Join(names, " or ")
	if g := suggest(s, names); g != "" {
		hint = "did you mean " + g + "?"
	}
	d.failf(at, hint, "unknown value %q", s)
}

// boolean is true or false.
func boolean() codec[bool] {
	return codec[bool]{
		shape: scalarShape("true \\| false", "boolean"),
		read: func(d *decoder, n *yaml.Node, at Place) (bool, bool) {
			s, ok := d.scalar(n, at, "true or false")
			if !ok {
				return false, false
			}
			if s.kind != boolScalar && !(s.free && (s.text == "true" || s.text == "false")) {
				d.failf(at, "write true or false", "%q is not true or false", s.text)
				return false, false
			}
			return s.text == "true", true
		},
		write: func(v bool) any { return v },
	}
}

// integer is a whole number in [lo, hi].
func integer[I ~int | ~int64](lo, hi I) codec[I] {
	sh := scalarShape("integer", "integer")
	sh.json["minimum"] = int64(lo)
	if int64(hi) < math.MaxInt64 {
		sh.json["maximum"] = int64(hi)
	}
	return codec[I]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) (I, bool) {
			s, ok := d.scalar(n, at, "an integer")
			if !ok {
				return 0, false
			}
			if s.kind != numberScalar && !(s.free && jsonNumber.MatchString(s.text)) {
				d.failf(at, "", "%q is not an integer", s.text)
				return 0, false
			}
			v, err := strconv.ParseInt(s.text, 10, 64)
			switch {
			case err != nil:
				d.failf(at, "", "%s is not an integer", s.text)
				return 0, false
			case v < int64(lo):
				d.failf(at, "", "%d is below %d", v, int64(lo))
				return 0, false
			case v > int64(hi):
				d.failf(at, "", "%d is above %d", v, int64(hi))
				return 0, false
			}
			return I(v), true
		},
		write: func(v I) any { return int64(v) },
	}
}

// unit is a codec for text with a unit; a bare number is refused with the likeliest unit appended.
func unit[V any](kind, example, suffix, pattern string, parse func(string) (V, error), format func(V) string) codec[V] {
	sh := scalarShape(kind, "string")
	sh.json["pattern"] = pattern
	sh.json["examples"] = []string{example}
	return codec[V]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) (V, bool) {
			var zero V
			s, ok := d.scalar(n, at, fmt.Sprintf("a %s such as %s", kind, example))
			if !ok {
				return zero, false
			}
			if jsonNumber.MatchString(s.text) && s.text[0] != '-' {
				d.failf(at, "write "+s.text+suffix, "%s has no unit", s.text)
				return zero, false
			}
			v, err := parse(s.text)
			if err != nil {
				d.failf(at, fmt.Sprintf("write a %s such as %s", kind, example), "%v", err)
				return zero, false
			}
			return v, true
		},
		write: func(v V) any { return format(v) },
	}
}

// duration is a length of time of at least least.
func duration(least time.Duration) codec[time.Duration] {
	return unit("duration", "10s", "s", durationPattern, func(s string) (time.Duration, error) {
		v, err := parseDuration(s)
		if err == nil && v < least {
			if least == minDuration {
				return 0, fmt.Errorf("%s must be above 0s", s)
			}
			return 0, fmt.Errorf("%s is below %s", s, formatDuration(least))
		}
		return v, err
	}, formatDuration)
}

// minDuration is the shortest duration that can be written: the least for those that must not be zero.
const minDuration = time.Millisecond

func size() codec[Size] {
	return unit("size", "256MiB", "MiB", sizePattern, parseSize, Size.String)
}

func rate() codec[Rate] {
	return unit("rate", "1000/s", "/s", ratePattern, parseRate, Rate.String)
}

// refText is connector text: ${env:…} and ${file:…} stay in it.
func refText(kind string, check func(string) error) codec[Ref] {
	return codec[Ref]{
		shape: scalarShape(kind, "string"),
		read: func(d *decoder, n *yaml.Node, at Place) (Ref, bool) {
			s, ok := d.text(n, at, "text")
			if !ok || !d.checkRefs(s, at) {
				return "", false
			}
			if s == "" {
				d.failf(at, "", "must not be empty")
				return "", false
			}
			if check != nil && !strings.Contains(s, "${") {
				if err := check(s); err != nil {
					d.failf(at, "", "%v", err)
					return "", false
				}
			}
			return Ref(s), true
		},
		write: func(v Ref) any { return string(v) },
	}
}

// secretText takes references alone. Its message never repeats the text.
func secretText() codec[Secret] {
	sh := scalarShape("secret", "string")
	sh.json["pattern"] = `^(\$\{(env|file|param):[^}]+\})+$`
	return codec[Secret]{
		shape: sh,
		read: func(d *decoder, n *yaml.Node, at Place) (Secret, bool) {
			if n.Kind != yaml.ScalarNode || !Ref(n.Value).IsReference() {
				d.failf(at, "use ${env:X} or ${file:X}", "plain text")
				return "", false
			}
			s, ok := d.text(n, at, "a reference")
			if ok && !Ref(s).IsReference() {
				d.failf(at, "use ${env:X} or ${file:X}", "plain text")
				return "", false
			}
			return Secret(s), ok && d.checkRefs(s, at)
		},
		write: func(v Secret) any { return string(v) },
	}
}

// listOf is a list of at least one item.
func listOf[V any](item codec[V]) codec[[]V] {
	return codec[[]V]{
		shape: &shape{form: listForm, kind: "list of " + item.shape.kind, elem: item.shape},
		read: func(d *decoder, n *yaml.Node, at Place) ([]V, bool) {
			if n.Kind != yaml.SequenceNode {
				if n.Kind != yaml.AliasNode {
					d.failf(at, fmt.Sprintf("write [%s]", abbreviate(n)), "must be a list, not a %s", kindName(n))
				}
				return nil, false
			}
			if len(n.Content) == 0 {
				d.failf(at, "", "must not be empty")
				return nil, false
			}
			out := make([]V, 0, len(n.Content))
			for i, c := range n.Content {
				if v, ok := item.read(d, c, d.item(c, at, i)); ok {
					out = append(out, v)
				}
			}
			return out, len(out) == len(n.Content)
		},
		write: func(vs []V) any {
			if vs == nil {
				return nil
			}
			out := make([]any, len(vs))
			for i, v := range vs {
				out[i] = item.write(v)
			}
			return out
		},
	}
}

func abbreviate(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Value != "" && len(n.Value) < 40 {
		return n.Value
	}
	return "…"
}

// optional makes a codec of a pointer; nil is "not written".
func optional[V any](c codec[V]) codec[*V] {
	return codec[*V]{
		shape: c.shape,
		read: func(d *decoder, n *yaml.Node, at Place) (*V, bool) {
			v, ok := c.read(d, n, at)
			return &v, ok
		},
		write: func(v *V) any {
			if v == nil {
				return nil
			}
			return c.write(*v)
		},
	}
}
