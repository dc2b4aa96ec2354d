package config

import (
	"encoding/json"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Schema is the JSON Schema (2020-12) of a job spec, made from the tables that the parser uses. It knows
// keys, types and which keys exclude each other; names, references and guarantees only the parser checks.
func Schema() []byte {
	g := schemaMaker{defs: map[string]any{}}
	root := g.object(jobCodec().shape.object)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Weir job spec"
	root["$defs"] = g.defs
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error()) // text, numbers, lists and maps always marshal
	}
	return append(b, '\n')
}

type schemaMaker struct{ defs map[string]any }

// of is the schema of a shape; objects and self-referring forms become definitions.
func (g schemaMaker) of(s *shape) map[string]any {
	switch s.form {
	case objectForm:
		if _, ok := g.defs[s.object.name]; !ok {
			g.defs[s.object.name] = nil // holds the name while it is made
			g.defs[s.object.name] = g.object(s.object)
		}
		return map[string]any{"$ref": "#/$defs/" + escapePointer(s.object.name)}
	case listForm:
		return map[string]any{"type": "array", "minItems": 1, "items": g.of(s.elem)}
	case mapForm:
		return map[string]any{"type": "object", "additionalProperties": g.of(s.elem)}
	case anyForm:
		var list []any
		for _, a := range s.alternatives {
			list = append(list, g.of(a))
		}
		return map[string]any{"anyOf": list}
	}
	if s.def != "" {
		g.defs[s.def] = s.json
		return map[string]any{"$ref": "#/$defs/" + s.def}
	}
	m := maps.Clone(s.json)
	if takesText(m) {
		return m
	}
	return map[string]any{"anyOf": []any{m, map[string]any{"type": "string", "pattern": `^\$\{param:[^}]+\}$`}}}
}

// takesText says that any text fits, ${param:x} included.
func takesText(m map[string]any) bool {
	_, narrow := m["pattern"]
	return m["anyOf"] != nil || m["type"] == "object" || m["type"] == "string" && !narrow
}

// escapePointer keeps a name valid in the fragment of a URI.
func escapePointer(name string) string {
	out := make([]byte, 0, len(name))
	for _, c := range []byte(name) {
		if c == ' ' {
			out = append(out, "%20"...)
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func (g schemaMaker) object(o *objectShape) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for _, f := range o.fields {
		p := g.of(f.shape)
		p["description"] = f.doc
		if f.def != "" {
			p["default"] = defaultValue(f.def)
		}
		properties[f.key] = p
		if f.required {
			required = append(required, f.key)
		}
	}
	m := map[string]any{"type": "object", "description": o.doc, "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		m["required"] = required
	}
	var all []any
	for _, c := range o.choices {
		if s := choiceSchema(c, o); s != nil {
			all = append(all, s)
		}
	}
	if len(all) > 0 {
		m["allOf"] = all
	}
	return m
}

// choiceSchema says "exactly one of" or "at most one of".
func choiceSchema(c choice, o *objectShape) map[string]any {
	var one []any
	for _, k := range c.keys {
		if !slices.Contains(o.planned, k) {
			one = append(one, map[string]any{"required": []string{k}})
		}
	}
	switch {
	case c.required:
		return map[string]any{"oneOf": one}
	case len(one) > 1:
		return map[string]any{"not": map[string]any{"required": c.keys}}
	}
	return nil
}

func defaultValue(text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic("config: default " + text + ": " + err.Error()) // a constant of the tables
	}
	return v
}
