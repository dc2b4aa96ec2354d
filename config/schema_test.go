package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// examples are those of the specification, restricted to what is built.
var examples = map[string]string{
	"wallet": wallet,
	"nexmark": `name: nexmark
sources:
  events:
    nexmark: {events: 100000, rate: 1000/s}
    event_time: {at: "coalesce(bid.dateTime, auction.dateTime, person.dateTime)", max_out_of_order: 4s}
steps:
  person: {from: events, where: event_type = 0, select: [person.*]}
  bid: {from: events, where: event_type = 2, select: [bid.*]}
  best: {from: bid, key_by: [auction], aggregate: {price: max(price)}, ttl: none}
  q4: {from: best, aggregate: {final: cast(avg(price) as double)}, ttl: none}
  hot: {from: bid, key_by: [auction], window: {tumble: 10s}, aggregate: {num: count(*)}}
sinks:
  out: {from: [person, q4, hot], discard: {}}
`,
	"clicks": `name: clicks
sources:
  searches:
    kafka: {brokers: ["${env:KAFKA}"], topic: searches}
    format: json
    schema: {id: string, user: {struct: {country: optional<string>}}, at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 10s}
steps:
  lost: {from: searches, where: user.country is null, select: [id, user.country]}
sinks:
  out: {from: lost, print: {}}
`,
	"cards": `name: cards
params: {big: 500, lag: 5s, width: 2, lost: fail}
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
parallelism: ${param:width}
sources:
  charges:
    kafka: {topic: charges, on_lost: "${param:lost}"}
    format: {json: {timestamps: epoch_ms}}
    schema: {card: string, amount: "decimal(12,2)", country: string, status: string, at: timestamp(3)}
    event_time: {at: at, max_out_of_order: "${param:lag}"}
    on_error: divert
steps:
  declined: {from: charges, where: "status = 'declined' and amount > ${param:big}", select: {rule: "'five declines'", id: card, at: at}}
  hourly: {from: charges, key_by: [card], window: {tumble: 1h}, aggregate: {total: sum(amount)}}
sinks:
  alerts: {from: declined, kafka: {topic: alerts}, format: json}
  totals: {from: hourly, upsert: [card, window_start, window_end], kafka: {topic: totals}, format: json}
  dead: {from: charges.errors, kafka: {topic: dead}, format: json}
checkpoint: {storage: "s3://weir/cards"}
`,
}

func TestSchemaTakesWhatTheParserTakes(t *testing.T) {
	v := loadSchema(t)
	for name, text := range examples {
		t.Run(name, func(t *testing.T) {
			j, err := ParseJob(name, []byte(text))
			if err != nil {
				t.Fatalf("ParseJob: %v", err)
			}
			var written, rendered any
			if err := yaml.Unmarshal([]byte(text), &written); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(j.JSON(), &rendered); err != nil {
				t.Fatal(err)
			}
			for _, doc := range []any{plainJSON(written), rendered} {
				if err := v.check(v.root, doc, name); err != nil {
					t.Errorf("schema refuses: %v", err)
				}
			}
		})
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	v := loadSchema(t)
	for _, c := range []struct{ old, new string }{
		{"aggregate:", "agregate:"}, {"name: m", "parallelism: 0\nname: m"}, {"name: m", "checkpoint: {interval: 10}\nname: m"},
		{"{topic: t}", "{}"}, {"kafka: {topic: o}", "kafka: {topic: o}, print: {}"}, {"format: json, upsert", "format: csv, upsert"},
		{"bigint", "bigit"}, {"from: a", "from: []"}, {"{topic: o}", "{topic: o, connection: main, brokers: [b]}"}, {"name: m", "version: 1"},
	} {
		text := strings.Replace(minimal, c.old, c.new, 1)
		if _, err := ParseJob("j", []byte(text)); err == nil {
			t.Errorf("%s: the parser takes it", c.new)
		}
		var doc any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if v.check(v.root, plainJSON(doc), "j") == nil {
			t.Errorf("%s: the schema takes it", c.new)
		}
	}
}

// TestSchemaAndReferenceKnowEveryKey looks for each key of each table, with its words.
func TestSchemaAndReferenceKnowEveryKey(t *testing.T) {
	v := loadSchema(t)
	ref := JobReference()
	for _, o := range jobCodec().shape.objects() {
		def := v.root
		if o.name != "job" {
			def, _ = v.defs[o.name].(map[string]any)
		}
		properties, _ := def["properties"].(map[string]any)
		if o.doc == "" || !strings.Contains(ref, "## "+o.name+"\n") {
			t.Errorf("object %s has no words or no section", o.name)
		}
		for _, f := range o.fields {
			p, _ := properties[f.key].(map[string]any)
			if p == nil || p["description"] != f.doc || f.doc == "" {
				t.Errorf("%s.%s: got %v in the schema, want it described", o.name, f.key, p)
			}
			if !strings.Contains(ref, "| `"+f.key+"` |") {
				t.Errorf("%s.%s is not in the reference", o.name, f.key)
			}
		}
		for _, k := range o.planned {
			if slices.Contains(o.known(), k) {
				t.Errorf("%s.%s is both built and planned", o.name, k)
			}
		}
	}
}

// validator is as much of JSON Schema 2020-12 as Schema uses; it refuses keywords that it does not know.
type validator struct{ root, defs map[string]any }

func loadSchema(t *testing.T) validator {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatalf("the schema is no JSON: %v", err)
	}
	return validator{root, root["$defs"].(map[string]any)}
}

func (v validator) check(s map[string]any, doc any, at string) error {
	for keyword, arg := range s {
		if err := v.keyword(s, keyword, arg, doc, at); err != nil {
			return err
		}
	}
	return nil
}

func (v validator) keyword(s map[string]any, keyword string, arg, doc any, at string) error {
	object, isObject := doc.(map[string]any)
	list, isList := doc.([]any)
	text, isText := doc.(string)
	number, isNumber := doc.(float64)
	fail := func() error { return fmt.Errorf("%s: %v does not fit %s %v", at, doc, keyword, arg) }
	ok := true
	switch keyword {
	case "$schema", "title", "$defs", "description", "default", "examples", "properties":
		if keyword != "properties" || !isObject {
			return nil
		}
		for k, p := range arg.(map[string]any) {
			if value, has := object[k]; has {
				if err := v.check(p.(map[string]any), value, at+"."+k); err != nil {
					return err
				}
			}
		}
	case "additionalProperties":
		properties, _ := s["properties"].(map[string]any)
		for k, value := range object {
			if _, known := properties[k]; known {
				continue
			}
			p, isSchema := arg.(map[string]any)
			if !isSchema {
				return fmt.Errorf("%s: unknown key %s", at, k)
			}
			if err := v.check(p, value, at+"."+k); err != nil {
				return err
			}
		}
	case "$ref":
		name := strings.ReplaceAll(strings.TrimPrefix(arg.(string), "#/$defs/"), "%20", " ")
		def, found := v.defs[name].(map[string]any)
		if !found {
			return fmt.Errorf("no definition %q", name)
		}
		return v.check(def, doc, at)
	case "items":
		for i, item := range list {
			if err := v.check(arg.(map[string]any), item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "type":
		types, isTypes := arg.([]any)
		if !isTypes {
			types = []any{arg}
		}
		ok = slices.Contains(types, any(typeName(doc))) || slices.Contains(types, any("number")) && isNumber
	case "required":
		for _, k := range arg.([]any) {
			if _, has := object[k.(string)]; isObject && !has {
				ok = false
			}
		}
	case "anyOf", "oneOf", "allOf":
		fits := 0
		var last error
		for _, sub := range arg.([]any) {
			if err := v.check(sub.(map[string]any), doc, at); err == nil {
				fits++
			} else {
				last = err
			}
		}
		all := len(arg.([]any))
		ok = keyword == "anyOf" && fits > 0 || keyword == "oneOf" && fits == 1 || keyword == "allOf" && fits == all
		if !ok && last != nil {
			return fmt.Errorf("%s: %s: %w", at, keyword, last)
		}
	case "not":
		ok = v.check(arg.(map[string]any), doc, at) != nil
	case "enum":
		ok = slices.Contains(arg.([]any), doc)
	case "const":
		ok = arg == doc
	case "pattern":
		ok = !isText || regexp.MustCompile(arg.(string)).MatchString(text)
	case "minItems":
		ok = !isList || float64(len(list)) >= arg.(float64)
	case "minProperties":
		ok = !isObject || float64(len(object)) >= arg.(float64)
	case "minimum":
		ok = !isNumber || number >= arg.(float64)
	case "maximum":
		ok = !isNumber || number <= arg.(float64)
	default:
		return fmt.Errorf("the test's validator does not know %s", keyword)
	}
	if !ok {
		return fail()
	}
	return nil
}

func typeName(doc any) string {
	switch d := doc.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if d == float64(int64(d)) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

// plainJSON turns what the YAML package makes into what JSON would have been.
func plainJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = plainJSON(e)
		}
		return out
	case map[any]any:
		out := map[string]any{}
		for k, e := range v {
			out[fmt.Sprint(k)] = plainJSON(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainJSON(e)
		}
		return out
	case int:
		return float64(v)
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return v
}
