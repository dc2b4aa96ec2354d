package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// site is a place of a document with what the language knows about it.
type site struct {
	node *yaml.Node // the key, or the scalar
	path string
	// object is what the key belongs to; nil for a scalar, whose shape is then set.
	object *objectShape
	shape  *shape
}

// sites lists every key and every scalar value of a valid document, without what users name themselves.
func sites(t *testing.T, text string, root *shape) (out []site) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(n *yaml.Node, s *shape, path string)
	walk = func(n *yaml.Node, s *shape, path string) {
		switch {
		case s == nil:
		case s.form == anyForm:
			form := map[yaml.Kind]shapeForm{yaml.ScalarNode: scalarForm, yaml.MappingNode: objectForm, yaml.SequenceNode: listForm}[n.Kind]
			if i := slices.IndexFunc(s.alternatives, func(a *shape) bool { return a.form == form }); i >= 0 {
				walk(n, s.alternatives[i], path)
			}
		case s.form == objectForm && n.Kind == yaml.MappingNode:
			for i := 0; i < len(n.Content); i += 2 {
				k := n.Content[i]
				f := slices.IndexFunc(s.object.fields, func(f fieldShape) bool { return f.key == k.Value })
				if f < 0 {
					t.Fatalf("%s is no key of %s", k.Value, s.object.name)
				}
				p := strings.TrimPrefix(path+"."+k.Value, ".")
				out = append(out, site{node: k, path: p, object: s.object})
				walk(n.Content[i+1], s.object.fields[f].shape, p)
			}
		case s.form == mapForm && n.Kind == yaml.MappingNode:
			for i := 0; i < len(n.Content); i += 2 {
				walk(n.Content[i+1], s.elem, path+"."+n.Content[i].Value)
			}
		case s.form == listForm && n.Kind == yaml.SequenceNode:
			for i, c := range n.Content {
				walk(c, s.elem, fmt.Sprintf("%s[%d]", path, i))
			}
		case s.form == scalarForm && n.Kind == yaml.ScalarNode:
			out = append(out, site{node: n, path: path, shape: s})
		}
	}
	walk(doc.Content[0], root, "")
	return out
}

// with is the text with what stands at a node replaced.
func (s site) with(text, value string) string {
	lines := strings.Split(text, "\n")
	line := lines[s.node.Line-1]
	from := s.node.Column - 1
	to := from + len(s.node.Value)
	if s.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		to += 2
	}
	lines[s.node.Line-1] = line[:from] + value + line[to:]
	return strings.Join(lines, "\n")
}

// typosOf are ways to mistype a key.
func typosOf(key string) []string {
	out := []string{key + "s", key[:len(key)-1], strings.ToUpper(key[:1]) + key[1:], strings.ReplaceAll(key, "_", "-"), strings.ReplaceAll(key, "_", "")}
	if len(key) > 3 {
		out = append(out, key[:1]+key[2:3]+key[1:2]+key[3:])
	}
	return out
}

// Every key of the language, mistyped wherever it may stand, is refused at its place; and where one key is near, it
// is named. None is ever taken for a key that was left out.
func TestEveryMistypedKeyIsRefused(t *testing.T) {
	keys := map[string]bool{}
	for _, s := range sites(t, wallet, jobCodec().shape) {
		if s.object == nil {
			continue
		}
		keys[s.object.name+"."+s.node.Value] = true
		for _, typo := range typosOf(s.node.Value) {
			if slices.Contains(s.object.known(), typo) || typo == "" {
				continue
			}
			_, err := ParseJob("j", []byte(s.with(wallet, typo)))
			at := fmt.Sprintf("j:%d:%d: ", s.node.Line, s.node.Column)
			if err == nil || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), ": unknown key") {
				t.Errorf("%s written %q: got %v, want an unknown key at %s", s.path, typo, err, at)
				continue
			}
			if distance(s.node.Value, typo) == 1 && len(s.node.Value) > 3 && !strings.Contains(err.Error(), "did you mean ") {
				t.Errorf("%s written %q: nothing is suggested: %v", s.path, typo, err)
			}
		}
	}
	// wallet uses every key that is built but those that exclude others of it.
	unused := map[string]bool{"restart.fixed": true, "restart.rate": true, "fixed.delay": true, "fixed.attempts": true, "failure rate.failures": true,
		"failure rate.per": true, "failure rate.delay": true, "state.memory": true}
	for _, o := range jobCodec().shape.objects() {
		for _, k := range o.known() {
			if !keys[o.name+"."+k] && !unused[o.name+"."+k] {
				t.Errorf("key %s of %s was not tried", k, o.name)
			}
		}
	}
}

// Every value of a kind that has bounds, a unit or a list of words is refused when it is outside of them: it never
// becomes a default.
func TestEveryValueIsChecked(t *testing.T) {
	wrong := map[string][]string{
		"duration": {"10", "-1s", "1.5", "soon", "1 s", "99999999999h", "0x1s", `""`},
		"integer":  {"-1", "1.5", "many", "1e3", "99999999999999999999", "2x", `""`},
		"size":     {"-1MiB", "much", "1XB", `""`},
	}
	tried := map[string]int{}
	for _, s := range sites(t, wallet, jobCodec().shape) {
		if s.shape == nil {
			continue
		}
		kind, values := s.shape.kind, wrong[s.shape.kind]
		if words, ok := s.shape.json["enum"].([]string); ok {
			kind = "enum"
			for _, w := range words {
				values = append(values, w+"x", strings.ToUpper(w))
			}
			values = append(values, "0", `""`)
		}
		if s.shape.json["type"] == "boolean" {
			kind, values = "boolean", []string{"yes", "1", `"true"`, "on"}
		}
		for _, v := range values {
			tried[kind]++
			_, err := ParseJob("j", []byte(s.with(wallet, v)))
			if err == nil || !strings.Contains(err.Error(), s.path+":") {
				t.Errorf("%s (%s) set to %s: got %v, want it refused", s.path, kind, v, err)
			}
		}
	}
	for _, kind := range []string{"duration", "integer", "size", "enum", "boolean"} {
		if tried[kind] == 0 {
			t.Errorf("no %s was tried", kind)
		}
	}
}

// Every setting, mistyped in the file or on the command line, is refused.
func TestEveryMistypedSettingIsRefused(t *testing.T) {
	for _, f := range SettingsFields() {
		for _, typo := range typosOf(f.Flag) {
			if slices.ContainsFunc(SettingsFields(), func(o Setting) bool { return o.Flag == typo }) {
				continue
			}
			if _, err := LoadSettings(SettingsInput{Flags: map[string]string{typo: "1"}}); err == nil || !strings.Contains(err.Error(), "unknown setting") {
				t.Errorf("--%s: got %v, want an unknown setting", typo, err)
			}
		}
		parts := strings.Split(f.Key, ".")
		last := parts[len(parts)-1]
		parts[len(parts)-1] = last + "x"
		text := strings.Join(parts, ": {") + ": 1" + strings.Repeat("}", len(parts)-1)
		if _, err := LoadSettings(SettingsInput{FileName: "w", Data: []byte(text)}); err == nil || !strings.Contains(err.Error(), last+"x: unknown key") {
			t.Errorf("%s: got %v, want an unknown key", text, err)
		}
		if _, err := LoadSettings(SettingsInput{Env: []string{f.Env + "X=1"}}); err == nil || !strings.Contains(err.Error(), "unknown setting") {
			t.Errorf("%sX: got %v, want an unknown setting", f.Env, err)
		}
	}
}

// Whatever is called a password, secret or token is of the type that is never shown, and keys of the store and of
// certificates are references: a new setting cannot forget to be one.
func TestSecretsAreOfTheirType(t *testing.T) {
	name := regexp.MustCompile(`(?i)password|secret|token|credential|access_?key|private`)
	found := 0
	var walk func(typ reflect.Type, path string, seen []reflect.Type)
	walk = func(typ reflect.Type, path string, seen []reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem(), path, seen)
			return
		case reflect.Struct:
		default:
			return
		}
		if slices.Contains(seen, typ) {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			p := path + "." + f.Name
			if f.IsExported() && name.MatchString(f.Name) {
				found++
				if f.Type != reflect.TypeFor[Secret]() {
					t.Errorf("%s is a %s, want a Secret", p, f.Type)
				}
			}
			if typ == reflect.TypeFor[TLS]() && (f.Name == "Key" || f.Name == "Cert") && f.Type != reflect.TypeFor[Ref]() {
				t.Errorf("%s is a %s, want a Ref", p, f.Type)
			}
			walk(f.Type, p, append(seen, typ))
		}
	}
	walk(reflect.TypeFor[Job](), "job", nil)
	walk(reflect.TypeFor[Settings](), "settings", nil)
	if found < 4 {
		t.Errorf("%d secrets were found, want those of sasl and s3", found)
	}
}
