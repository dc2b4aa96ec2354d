package config

import (
	"fmt"
	"strings"
)

// JobReference is the reference page of the job spec in Markdown, made from the tables that the parser uses.
func JobReference() string {
	var b strings.Builder
	b.WriteString("# Job spec reference\n\n" +
		"YAML 1.2 or JSON of one shape. Keys that are not listed here are refused. Durations are written `250ms`, `5s`, `1h30m`, `7d`; " +
		"sizes `256MiB`; rates `1000/s`; an expr is SQL in a string. `${env:X}` and `${file:/path}` work in connector and format settings and are " +
		"resolved on the node; `${param:x}` is applied when the spec is read: a value of the type of its place, in an expr a literal.\n\n" +
		"A **type** is " + "`" + strings.Join(typeNames[:len(typeNames)-2], "`, `") + "`, `decimal(12,2)` (quote it inside braces), `timestamp(3)` (an instant; " +
		"no zone means UTC; 6 digits unless written), `{struct: {field: type}}`, or one of these in `optional<…>` or `{optional: …}`. Missing or null without " +
		"optional is a bad record.\n\n" +
		"**columns** are a list of `path`, `\"*\"`, `path.*`, `{name: expr}`, `{\"p_*\": path.*}` (prefix), or one map `{name: expr}`. A path is named by its last " +
		"part; a named item replaces a star's column; other doubles are errors. An **input** is `name`, or `name.errors`.\n")
	for _, o := range jobCodec().shape.objects() {
		writeObject(&b, o)
	}
	return b.String()
}

func writeObject(b *strings.Builder, o *objectShape) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", o.name, o.doc)
	for _, c := range o.choices {
		if s := describeChoice(c, o); s != "" {
			fmt.Fprintf(b, "\n%s\n", s)
		}
	}
	if len(o.fields) > 0 {
		b.WriteString("\n| key | value | default | meaning |\n|---|---|---|---|\n")
	}
	for _, f := range o.fields {
		def := ""
		switch {
		case f.required:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, describe(f.shape), def, strings.ReplaceAll(f.doc, "|", "\\|"))
	}
	if len(o.planned) > 0 {
		fmt.Fprintf(b, "\nNot available yet: `%s`.\n", strings.Join(o.planned, "`, `"))
	}
}

// describe names a shape, with the section in which an object is described.
func describe(s *shape) string {
	switch {
	case s.form == objectForm:
		return "[" + s.object.name + "](#" + strings.ReplaceAll(s.object.name, " ", "-") + ")"
	case s.form == mapForm && s.elem.form == objectForm:
		return "{name: " + describe(s.elem) + "}"
	case s.form == listForm:
		return "list of " + describe(s.elem)
	case s.form == anyForm:
		parts := make([]string, len(s.alternatives))
		for i, a := range s.alternatives {
			parts[i] = describe(a)
		}
		return strings.Join(parts, " \\| ")
	}
	return s.kind
}

func describeChoice(c choice, o *objectShape) string {
	var built []string
	for _, k := range o.known() {
		for _, choosable := range c.keys {
			if k == choosable {
				built = append(built, "`"+k+"`")
			}
		}
	}
	switch {
	case c.required && len(built) == 1:
		return "Needs " + built[0] + "."
	case c.required:
		return "Exactly one of " + strings.Join(built, ", ") + "."
	case len(built) > 1:
		return "At most one of " + strings.Join(built, ", ") + "."
	}
	return ""
}
