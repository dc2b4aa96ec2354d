package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TypeName is the name of a column type.
type TypeName string

// The types. Timestamps are instants; Struct has Fields. Optional is a flag of Type, not a type of its own.
const (
	TypeBoolean   TypeName = "boolean"
	TypeInt       TypeName = "int"
	TypeBigint    TypeName = "bigint"
	TypeDouble    TypeName = "double"
	TypeString    TypeName = "string"
	TypeBytes     TypeName = "bytes"
	TypeDate      TypeName = "date"
	TypeDecimal   TypeName = "decimal"
	TypeTimestamp TypeName = "timestamp"
	TypeStruct    TypeName = "struct"
	// TypeArray is part of the language but refused by the parser until it is built.
	TypeArray TypeName = "array"
)

// Type is a column's type as written in a schema.
type Type struct {
	Name TypeName
	// Precision is the number of digits of a decimal (1 to 38), or of the fraction of a timestamp's second
	// (0 to 6; 6 unless written).
	Precision int
	// Scale is the number of a decimal's digits after the point, at most Precision.
	Scale int
	// Elem is the element of an array.
	Elem *Type
	// Fields are those of a struct, in document order.
	Fields []Field
	// Optional allows missing and null.
	Optional bool
	At       Place
}

// Field is a named, typed column or struct field.
type Field struct {
	Name string
	Type Type
	At   Place
}

// String is the type as SPEC text where it has one: decimal(12,2), optional<string>. Structs, which have
// none, are shown as struct<name type, …>.
func (t Type) String() string {
	s := string(t.Name)
	switch t.Name {
	case TypeDecimal:
		s = fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case TypeTimestamp:
		s = fmt.Sprintf("timestamp(%d)", t.Precision)
	case TypeStruct:
		fields := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = f.Name + " " + f.Type.String()
		}
		s = "struct<" + strings.Join(fields, ", ") + ">"
	}
	if t.Optional {
		s = "optional<" + s + ">"
	}
	return s
}

// Limits of decimals and timestamps.
const (
	maxDecimal   = 38
	maxTimestamp = 6
)

var (
	typePattern = regexp.MustCompile(`^([a-z]+)(?:\(([0-9]+)(?:, ?([0-9]+))?\))?$`)
	typeNames   = []string{"boolean", "int", "bigint", "double", "string", "bytes", "date", "decimal", "timestamp"}
)

// parseType reads the text form of a type. The error's text is a message with its hint.
func parseType(s string) (Type, error) {
	if inner, ok := strings.CutPrefix(s, "optional<"); ok && strings.HasSuffix(inner, ">") {
		t, err := parseType(strings.TrimSpace(strings.TrimSuffix(inner, ">")))
		if err == nil && t.Optional {
			return t, fmt.Errorf("optional<optional<…>>; write optional once")
		}
		t.Optional = true
		return t, err
	}
	if strings.HasPrefix(s, "array<") {
		return Type{}, fmt.Errorf("array is not available yet")
	}
	if strings.HasPrefix(s, "struct<") {
		return Type{}, fmt.Errorf("a struct is written as a map; use {struct: {field: type}}")
	}
	m := typePattern.FindStringSubmatch(s)
	if m == nil {
		hint := "use " + strings.Join(typeNames, ", ")
		if strings.HasPrefix(s, "decimal(") {
			hint = `quote "decimal(12,2)" inside braces`
		}
		return Type{}, fmt.Errorf("%q is no type; %s", s, hint)
	}
	return typeOf(m[1], m[2], m[3])
}

func typeOf(name, first, second string) (Type, error) {
	p, okP := small(first)
	scale, okS := small(second)
	t := Type{Name: TypeName(name)}
	switch {
	case name == "array":
		return t, fmt.Errorf("array is not available yet")
	case !slices.Contains(typeNames, name):
		hint := "use " + strings.Join(typeNames, ", ")
		if g := suggest(name, typeNames); g != "" {
			hint = "did you mean " + g + "?"
		}
		return t, fmt.Errorf("%q is no type; %s", name, hint)
	case t.Name == TypeDecimal:
		if first == "" || second == "" {
			return t, fmt.Errorf("decimal needs its digits and those after the point; write decimal(12,2)")
		}
		if !okP || !okS || p < 1 || p > maxDecimal || scale > p {
			return t, fmt.Errorf("decimal(%s,%s) is out of range; digits go from 1 to %d, those after the point up to all", first, second, maxDecimal)
		}
		t.Precision, t.Scale = p, scale
	case t.Name == TypeTimestamp && second == "":
		if !okP || p > maxTimestamp {
			return t, fmt.Errorf("timestamp(%s) is out of range; the fraction of a second has 0 to %d digits", first, maxTimestamp)
		}
		t.Precision = maxTimestamp
		if first != "" {
			t.Precision = p
		}
	case first != "":
		return t, fmt.Errorf("%s takes no such number; write %s", name, name)
	}
	return t, nil
}

// small reads a number of at most three digits; "" is 0.
func small(s string) (int, bool) {
	if s == "" {
		return 0, true
	}
	v, err := strconv.Atoi(s)
	return v, err == nil && len(s) <= 3 && v < 1000
}

// typeJSON is the JSON Schema of a type; it refers to itself.
func typeJSON() map[string]any {
	ref := map[string]any{"$ref": "#/$defs/type"}
	return map[string]any{
		"description": "A column's type. Missing or null without optional is a bad record.",
		"anyOf": []any{
			map[string]any{"type": "string", "pattern": `^(optional<)?(boolean|int|bigint|double|string|bytes|date|decimal\([0-9]+, ?[0-9]+\)|timestamp(\([0-6]\))?)>?$`},
			map[string]any{"type": "object", "required": []string{"optional"}, "additionalProperties": false,
				"properties": map[string]any{"optional": ref}},
			map[string]any{"type": "object", "required": []string{"struct"}, "additionalProperties": false,
				"properties": map[string]any{"struct": map[string]any{"type": "object", "minProperties": 1, "additionalProperties": ref}}},
		},
	}
}

// schemaOf is the codec of {column: type}.
func schemaOf() codec[[]Field] {
	return codec[[]Field]{
		shape: &shape{form: mapForm, kind: "{column: type}", elem: &shape{form: scalarForm, kind: "type", json: typeJSON(), def: "type"}},
		read: func(d *decoder, n *yaml.Node, at Place) ([]Field, bool) {
			return d.typeFields(n, at)
		},
		write: func(fields []Field) any {
			if fields == nil {
				return nil
			}
			return writeFields(fields)
		},
	}
}

func (d *decoder) typeFields(n *yaml.Node, at Place) ([]Field, bool) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		if n.Kind != yaml.AliasNode {
			d.failf(at, "write {name: type}", "must be a map of names and types")
		}
		return nil, false
	}
	pairs := d.pairs(n, at)
	out, ok := make([]Field, 0, len(pairs)), true
	for i, p := range pairs {
		if brokenDecimal(pairs, i) {
			continue // said at the other half
		}
		if i > 0 && brokenDecimal(pairs, i-1) {
			where := p.keyPlace()
			where.Path = at.Path
			d.failf(where, `quote "decimal(12,2)" inside braces`, "%q is no field", p.key)
			ok = false
			continue
		}
		nameOK := d.checkColumnName(p.key, p.keyPlace())
		t, typeOK := d.typeNode(p.value, p.at)
		ok = ok && nameOK && typeOK
		out = append(out, Field{Name: p.key, Type: t, At: p.keyPlace()})
	}
	return out, ok
}

// brokenDecimal recognises {amount: decimal(12,2)}, which YAML reads as amount: "decimal(12" and "2)": null.
func brokenDecimal(pairs []pair, i int) bool {
	return i+1 < len(pairs) && strings.HasSuffix(pairs[i+1].key, ")") && isNull(pairs[i+1].value) &&
		strings.Contains(pairs[i].value.Value, "decimal(") && !strings.Contains(pairs[i].value.Value, ")")
}

func (d *decoder) typeNode(n *yaml.Node, at Place) (Type, bool) {
	if n.Kind != yaml.MappingNode {
		s, ok := d.plainText(n, at, "a type")
		if !ok {
			return Type{}, false
		}
		t, err := parseType(strings.TrimSpace(s))
		if err != nil {
			message, hint, _ := strings.Cut(err.Error(), "; ")
			d.failf(at, hint, "%s", message)
			return Type{}, false
		}
		t.At = at
		return t, true
	}
	pairs := d.pairs(n, at)
	if len(pairs) != 1 {
		d.failf(at, "write {struct: {field: type}} or {optional: type}", "a type is one key")
		return Type{}, false
	}
	switch p := pairs[0]; p.key {
	case "optional":
		t, ok := d.typeNode(p.value, p.at)
		if ok && t.Optional {
			d.failf(p.at, "write optional once", "optional of optional")
			return Type{}, false
		}
		t.Optional, t.At = true, at
		return t, ok
	case "struct":
		fields, ok := d.typeFields(p.value, p.at)
		return Type{Name: TypeStruct, Fields: fields, At: at}, ok
	default:
		d.unknownKey(p, &objectShape{fields: []fieldShape{{key: "struct"}, {key: "optional"}}, planned: []string{"array"}})
		return Type{}, false
	}
}

func writeFields(fields []Field) members {
	ms := make(members, len(fields))
	for i, f := range fields {
		ms[i] = member{f.Name, f.Type.write()}
	}
	return ms
}

// write is the text form, or the map form where a struct needs it.
func (t Type) write() any {
	if t.Name != TypeStruct {
		return t.String()
	}
	var v any = members{{"struct", writeFields(t.Fields)}}
	if t.Optional {
		v = members{{"optional", v}}
	}
	return v
}
