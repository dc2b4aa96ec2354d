package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// orders are records of two kinds in one second each, one of them bad.
const orders = `{"id": 1, "who": {"name": "ann", "city": "Ulm"}, "amount": 10.50, "at": "2026-01-01T00:00:01Z"}
{"id": 2, "who": {"name": "bob"}, "amount": 3.00, "at": "2026-01-01T00:00:02Z"}
{"id": 3, "who": {"name": "ann", "city": "Bonn"}, "amount": 1.25, "at": "2026-01-01T00:00:03Z"}
{"id": "four", "who": {"name": "eve"}, "amount": 9.99, "at": "2026-01-01T00:00:04Z"}
{"id": 5, "who": {"name": "bob", "city": "Ulm"}, "amount": 7.00, "at": "2026-01-01T00:01:05Z"}
{"id": 6, "amount": 2.00, "at": "2026-01-01T00:01:06Z"}
`

// refunds have the columns of orders in another order.
const refunds = `{"at": "2026-01-01T00:00:02.500Z", "amount": 3.00, "id": 102, "note": "late"}
{"at": "2026-01-01T00:01:07Z", "amount": 0.75, "id": 105}
`

// plans are specs over orders and refunds, with what their sinks must have in the end. keys says how many leading
// columns identify a row of a sink that takes updates.
var plans = []struct {
	name, spec string
	keys       map[string]int
	want       map[string]string
}{
	{
		name: "a step read by several consumers, two sinks over one step",
		spec: `
steps:
  big: {from: orders, where: amount > 2, select: [id, amount, {city: who.city}]}
  cities: {from: big, where: city is not null, select: [city, id]}
  doubled: {from: big, select: [{twice: 2 * amount}, id]}
sinks:
  a: {from: big, discard: {}}
  b: {from: big, discard: {}}
  c: {from: cities, discard: {}}
  d: {from: doubled, discard: {}}
`,
		want: map[string]string{
			"a": "1 10.50 Ulm|2 3.00 null|5 7.00 Ulm", "b": "1 10.50 Ulm|2 3.00 null|5 7.00 Ulm",
			"c": "Ulm 1|Ulm 5", "d": "14.00 5|21.00 1|6.00 2",
		},
	},
	{
		name: "union of inputs with other orders of columns, filtered in the sources",
		spec: `
steps:
  o: {from: orders, select: [id, amount, at]}
  r: {from: refunds, select: [at, amount, id]}
  both: {from: [o, r], where: amount >= 3, select: [id, amount]}
  none: {from: [o, r], select: [id]}
sinks:
  a: {from: both, discard: {}}
  b: {from: none, discard: {}}
`,
		want: map[string]string{"a": "1 10.50|102 3.00|2 3.00|5 7.00", "b": "1|102|105|2|3|5|6"},
	},
	{
		name: "errors",
		spec: `
steps:
  bad: {from: orders.errors, select: [place, value]}
  good: {from: orders, where: amount < 3, select: [id]}
sinks:
  a: {from: bad, discard: {}}
  b: {from: good, discard: {}}
`,
		want: map[string]string{
			"a": `orders: orders.jsonl offset 272 {"id": "four", "who": {"name": "eve"}, "amount": 9.99, "at": "2026-01-01T00:00:04Z"}`,
			"b": "3|6",
		},
	},
	{
		name: "running aggregates: key expressions, renamed keys, event time in a call, no key",
		spec: `
steps:
  by:
    from: orders
    key_by: [{who: "coalesce(who.name, 'nobody')"}, {early: "id < 4"}]
    aggregate: {n: count(*), total: sum(amount), newest: max(event_time())}
    ttl: none
    select: [{name: who}, early, newest, {mean: total / n}, n]
  all: {from: orders, aggregate: {n: count(*), ids: sum(id), last: max(who.city)}, ttl: none}
sinks:
  a: {from: by, discard: {}}
  b: {from: all, discard: {}}
`,
		keys: map[string]int{"a": 2, "b": 0},
		want: map[string]string{
			"a": "ann true 2026-01-01 00:00:03.000 5.875000 2|bob false 2026-01-01 00:01:05.000 7.000000 1|" +
				"bob true 2026-01-01 00:00:02.000 3.000000 1|nobody false 2026-01-01 00:01:06.000 2.000000 1",
			"b": "5 17 Ulm",
		},
	},
	{
		name: "windows: over a union, over windows, without a key",
		spec: `
steps:
  o: {from: orders, select: [id, amount]}
  r: {from: refunds, select: [id, {amount: "cast(-amount as decimal(12,2))"}]}
  minutes: {from: [o, r], window: {tumble: 1m}, aggregate: {n: count(*), total: sum(amount)}}
  halves: {from: o, key_by: [{even: id % 2 = 0}], window: {tumble: 30s}, aggregate: {n: count(*)}}
  most: {from: halves, window: {tumble: 1m}, aggregate: {most: max(n), windows: count(*)}, select: [most, windows, window_end]}
sinks:
  a: {from: minutes, discard: {}}
  b: {from: most, discard: {}}
`,
		want: map[string]string{
			"a": "2026-01-01 00:00:00.000 2026-01-01 00:01:00.000 4 11.75|2026-01-01 00:01:00.000 2026-01-01 00:02:00.000 3 8.25",
			"b": "1 2 2026-01-01 00:02:00.000|2 2 2026-01-01 00:01:00.000",
		},
	},
}

func TestPlans(t *testing.T) {
	for _, tc := range plans {
		for _, p := range []string{"1", "2"} {
			t.Run(tc.name+"/"+p, func(t *testing.T) {
				dir := t.TempDir()
				for name, lines := range map[string]string{"orders.jsonl": orders, "refunds.jsonl": refunds} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(lines), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				c := newCluster(t, 2, 1, `
name: plans
parallelism: `+p+`
sources:
  orders:
    files: {path: "`+dir+`/orders.jsonl"}
    format: json
    schema: {id: bigint, who: {optional: {struct: {name: string, city: optional<string>}}}, amount: "decimal(12,2)", at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 5s}
    on_error: divert
  refunds:
    files: {path: "`+dir+`/refunds.jsonl"}
    format: json
    schema: {at: timestamp(3), note: optional<string>, amount: "decimal(12,2)", id: bigint}
    event_time: {at: at, max_out_of_order: 5s}
`+plus(tc.spec))
				r := c.deploy()
				r.finish()
				for sink, want := range tc.want {
					rows := c.out.rows(sink)
					if n, ok := tc.keys[sink]; ok {
						rows = c.out.table(sink, n)
					}
					for i := range rows {
						rows[i] = strings.ReplaceAll(strings.ReplaceAll(rows[i], "\t", " "), dir+"/", "")
					}
					slices.Sort(rows)
					if got := strings.Join(rows, "|"); got != want {
						t.Errorf("%s: got  %s\nwant %s", sink, got, want)
					}
				}
			})
		}
	}
}

// plus makes every spec read all that must be read.
func plus(spec string) string {
	if strings.Contains(spec, "orders.errors") {
		return spec
	}
	return spec + "  rest: {from: orders.errors, discard: {}}\n"
}
