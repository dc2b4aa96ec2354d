package config

import (
	"strings"
	"testing"
)

const minimal = `name: m
connections: {main: {kafka: {brokers: ["b:9092"]}}}
sources:
  s:
    kafka: {topic: t}
    format: json
    schema: {id: bigint, at: timestamp(3)}
steps:
  a: {from: s, key_by: [id], aggregate: {n: count(*)}}
sinks:
  k: {from: a, kafka: {topic: o}, format: json, upsert: [id]}
`

// TestProblems replaces old by new in the minimal spec and looks for the one message.
func TestProblems(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		// SPEC §6
		{"typo of a key", "aggregate:", "agregate:", "j:9:30: steps.a.agregate: unknown key; did you mean aggregate?"},
		{"no unit", "name: m", "name: m\ncheckpoint: {interval: 10}", "j:2:24: checkpoint.interval: 10 has no unit; write 10s"},
		{"unquoted decimal", "{id: bigint, at", "{id: decimal(12,2), at", `j:7:29: sources.s.schema: "2)" is no field; quote "decimal(12,2)" inside braces`},
		{"two operators", "aggregate:", "join: {with: s}, aggregate:", "j:9:3: steps.a: aggregate and join in one step; use two\nj:9:30: steps.a.join: unknown key (not available yet)"},
		{"double column", "upsert: [id]", "upsert: [id, id]", `j:11:62: sinks.k.upsert[1]: two columns "id"; rename one, {id_2: id}`},
		{"unread errors", "format: json\n    schema", "on_error: divert\n    format: json\n    schema", "j:6:15: sources.s.on_error: divert, but nothing reads s.errors; add a sink with from: s.errors"},
		{"plain password", `["b:9092"]`, `["b:9092"], sasl: {mechanism: plain, user: u, password: hunter2}`, "j:2:95: connections.main.kafka.sasl.password: plain text; use ${env:X} or ${file:X}"},

		// typos never lower a guarantee silently
		{"garantee", "upsert:", "delivery_garantee: exactly_once, upsert:", "j:11:49: sinks.k.delivery_garantee: unknown key; known here: from, kafka, files, print, discard, format, key_format, delivery, upsert, uid, parallelism, on_error"},
		{"close typo", "upsert:", "delivry: exactly_once, upsert:", "j:11:49: sinks.k.delivry: unknown key; did you mean delivery?"},
		{"quoted number", "name: m", "name: m\ncheckpoint: {interval: \"10\"}", "j:2:24: checkpoint.interval: 10 has no unit; write 10s"},
		{"misplaced key", "name: m", "name: m\ninterval: 10s", "j:2:1: interval: unknown key; interval belongs in checkpoint"},
		{"double key", "name: m", "name: m\nname: n", "j:2:1: name: written twice, first in line 1; remove one"},
		{"nested typo", "{topic: t}", "{topik: t}", "j:5:13: sources.s.kafka.topik: unknown key; did you mean topic?"},
		{"enum", "upsert:", "delivery: exactly-once, upsert:", `j:11:59: sinks.k.delivery: unknown value "exactly-once"; did you mean exactly_once?`},
		{"zero", "name: m", "name: m\ncheckpoint: {interval: 0s}", "j:2:24: checkpoint.interval: 0s must be above 0s; write a duration such as 10s"},
		{"negative", "name: m", "name: m\ncheckpoint: {interval: -5s}", "j:2:24: checkpoint.interval: -5s is negative; write a duration such as 10s"},
		{"unit order", "name: m", "name: m\ncheckpoint: {interval: 5s1h}", `j:2:24: checkpoint.interval: "5s1h" is no duration; write a duration such as 10s`},

		// values
		{"octal", "name: m", "name: m\nparallelism: 010", `j:2:14: parallelism: 010 is no number as in JSON; write a decimal number, or "010" if it is text`},
		{"fraction", "name: m", "name: m\nparallelism: 1.5", "j:2:14: parallelism: 1.5 is not an integer"},
		{"bool", "name: m", "name: m\nparallelism: yes", `j:2:14: parallelism: "yes" is not an integer`},
		{"number for text", "topic: t", "topic: 12", `j:5:20: sources.s.kafka.topic: must be text; write "12"`},
		{"map for text", "topic: t", "topic: {}", "j:5:13: sources.s.kafka.topic: must be text, not a map"},
		{"text for map", "kafka: {topic: t}", "kafka: t", "j:5:12: sources.s.kafka: must be a map, not a single value; its keys: connection, brokers, topic, start, bounded, on_lost"},
		{"null", "topic: t}", "topic: }", "j:5:13: sources.s.kafka.topic: no value; write text, or remove the key"},
		{"size", "name: m", "name: m\nstate: {pebble: {cache: 256MB}}", `j:2:25: state.pebble.cache: "256MB" is no size; units are B, KiB, MiB, GiB, TiB; write a size such as 256MiB`},
		{"missing key", "{topic: t}", "{start: latest}", "j:5:5: sources.s.kafka.topic: missing; add it"},
		{"port", "b:9092", "b:x", `j:2:40: connections.main.kafka.brokers[0]: "x" is no port`},
		{"url with password", "name: m", "name: m\ncheckpoint: {storage: \"s3://u:hunter2@b\"}", "j:2:23: checkpoint.storage: a URL must not hold a user or password; write s3://bucket/prefix or file:///path"},
		{"env in an expr", "from: s, key_by", "from: s, where: \"a = ${env:X}\", key_by", "j:9:23: steps.a.where: references to the environment and files work in connector and format settings only; use ${param:x}"},
		{"env in a name", "name: m", "name: \"${env:X}\"", "j:1:7: name: references work in connector and format settings only; write the value, or ${param:x}"},
		{"unknown reference", "topic: t", "topic: \"${vault:x}\"", "j:5:20: sources.s.kafka.topic: unknown reference ${vault:x}; use ${env:X}, ${file:/p} or ${param:x}"},
		{"unknown param", "topic: t", "topic: \"${param:x}\"", `j:5:20: sources.s.kafka.topic: no param "x"`},
		{"expr is a number", "n: count(*)", "n: 5", `j:9:45: steps.a.aggregate.n: must be text; an expression is SQL in a string; write "5"`},
		{"job name", "name: m", "name: a-b", `j:1:7: name: "a-b" is no name; use letters, digits and _, not starting with a digit`},

		// types
		{"type typo", "bigint", "bigit", `j:7:18: sources.s.schema.id: "bigit" is no type; did you mean bigint?`},
		{"array", "bigint", "array<string>", "j:7:18: sources.s.schema.id: array is not available yet"},
		{"array map", "bigint", "{array: string}", "j:7:19: sources.s.schema.id.array: unknown key (not available yet)"},
		{"scale", "bigint", `"decimal(3,4)"`, "j:7:18: sources.s.schema.id: decimal(3,4) is out of range; digits go from 1 to 38, those after the point up to all"},
		{"timestamp", "timestamp(3)", "timestamp(9)", "j:7:30: sources.s.schema.at: timestamp(9) is out of range; the fraction of a second has 0 to 6 digits"},
		{"string(5)", "bigint", "string(5)", "j:7:18: sources.s.schema.id: string takes no such number; write string"},
		{"optional twice", "bigint", "optional<optional<int>>", "j:7:18: sources.s.schema.id: optional<optional<…>>; write optional once"},

		// references
		{"no such input", "from: a", "from: aa", `j:11:13: sinks.k.from: no source or step "aa"; did you mean a?`},
		{"sink as input", "from: a", "from: [a, k]", "j:11:17: sinks.k.from[1]: k is a sink; read what it reads"},
		{"late", "from: a", "from: a.late", "j:11:13: sinks.k.from: output late is not available yet; late rows are counted"},
		{"errors of none", "from: a", "from: a.errors", "j:11:13: sinks.k.from: a does not divert its errors; add on_error: divert to steps.a"},
		{"cycle", "from: s", "from: [s, a]", "j:9:7: steps.a.from: a cycle: a → a; remove one of the inputs"},
		{"one namespace", "  k: {", "  s: {", "j:11:3: sinks.s: the name is taken by sources.s (line 4); rename one"},
		{"uid clash", "from: s, key_by", "from: s, uid: s, key_by", `j:9:21: steps.a.uid: uid "s" is also that of sources.s; give each its own uid`},
		{"connection", "{topic: o}", "{topic: o, connection: mian}", `j:11:46: sinks.k.kafka.connection: no connection "mian"; did you mean main?`},
		{"which connection", "{main: {", "{x: {kafka: {brokers: [c]}}, main: {", "j:5:5: sources.s.kafka: which connection? there are 2; add connection: x or main\nj:11:16: sinks.k.kafka: which connection? there are 2; add connection: x or main"},
		{"both clusters", "{topic: o}", "{topic: o, connection: main, brokers: [b]}", "j:11:16: sinks.k.kafka: connection and brokers in one connector; keep one"},

		// steps, sinks, guarantees
		{"window without operator", "key_by: [id], aggregate: {n: count(*)}", "window: {tumble: 1m}", "j:9:16: steps.a.window: no operator uses it; add aggregate, or remove it"},
		{"window not built", "key_by: [id]", "window: {session: 10s}", "j:9:25: steps.a.window.session: unknown key (not available yet)"},
		{"ttl not built", "key_by: [id]", "ttl: 7d", "j:9:21: steps.a.ttl: a time to live is not available yet; use none"},
		{"star as key", "upsert: [id]", `upsert: ["*"]`, "j:11:58: sinks.k.upsert[0]: * cannot stand here; name the columns"},
		{"path", "upsert: [id]", `upsert: ["a b"]`, `j:11:58: sinks.k.upsert[0]: "a b" is no column path: unexpected " b"`},
		{"two connectors", "kafka: {topic: o}", "kafka: {topic: o}, files: {path: /x}", "j:11:3: sinks.k: kafka and files in one sink; use two"},
		{"no connector", "kafka: {topic: o}, format: json, upsert: [id]", "format: json", "j:11:3: sinks.k: no connector; add one of kafka, files, print, discard"},
		{"delivery of print", "kafka: {topic: o}, format: json, upsert: [id]", "print: {}, delivery: exactly_once", "j:11:27: sinks.k.delivery: print gives no guarantee; remove it"},
		{"format planned", "format: json, upsert", "format: csv, upsert", "j:11:43: sinks.k.format: csv is not available yet; use json"},
		{"no format", "format: json, upsert", "upsert", "j:11:3: sinks.k.format: missing; add format: json"},
		{"parallelism", "name: m", "name: m\nmax_parallelism: 4\nparallelism: 8", "j:3:14: parallelism: 8 is above max_parallelism 4; lower it; max_parallelism is fixed for the life of the state"},
		{"transaction timeout", "{topic: o}", "{topic: o, transaction_timeout: 10m}", "j:11:55: sinks.k.kafka.transaction_timeout: 10m is not well above checkpoint.interval 10s + checkpoint.timeout 10m; raise it, or lower checkpoint.interval or checkpoint.timeout"},
		{"mode below delivery", "name: m", "name: m\ncheckpoint: {mode: at_least_once}", "j:12:3: sinks.k.delivery: exactly_once, but checkpoint.mode is at_least_once; write delivery: at_least_once, or remove checkpoint.mode"},
		{"planned key", "name: m", "name: m\ncheckpoint: {alignment_timeout: 1s}", "j:2:14: checkpoint.alignment_timeout: unknown key (not available yet)"},

		{"word with settings", "name: m", "name: m\nrestart: fixed", `j:2:10: restart: unknown value "fixed"; use none or backoff or {fixed: …} or {rate: …}`},
		{"word typo", "name: m", "name: m\nrestart: nnoe", `j:2:10: restart: unknown value "nnoe"; did you mean none?`},
		{"param in quotes", "name: m", "name: m\nparams: {p: x}\nsteps: {a: {from: s, where: \"b = '${param:p}'\"}}", "j:3:29: steps.a.where: a param inside quotes; write it without quotes; it becomes a literal\nj:10:1: steps: written twice, first in line 3; remove one"},

		// documents
		{"anchor", "name: m", "name: &a m", "j:1:7: name: anchors (&a) are not part of the language; write the value out where it is used"},
		{"tag", "name: m", "name: !!str m", "j:1:7: name: tags (!!str) are not part of the language; remove it"},
		{"two documents", "name: m", "name: m\n---\nname: n", "j:2:1: several documents in one file; keep one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(minimal, tt.old) == 0 {
				t.Fatalf("%q is not in the minimal spec", tt.old)
			}
			_, err := ParseJob("j", []byte(strings.Replace(minimal, tt.old, tt.new, 1)))
			wantProblems(t, err, strings.Split(tt.want, "\n")...)
		})
	}
}
