package plan

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/job"
)

func mustPlan(t *testing.T, spec string) *Plan {
	t.Helper()
	j, err := config.ParseJob("job.yaml", []byte(spec))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	p, err := New(j)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return p
}

const transfers = `
name: payments
parallelism: 2
connections: {main: {kafka: {brokers: ["127.0.0.1:9092"]}}}
sources:
  transfers:
    kafka: {topic: transfers}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, account: string, amount: "decimal(12,2)", note: optional<string>, at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 1s}
  logins:
    kafka: {topic: logins}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, account: string, at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 1s}
steps:
  moves: {from: transfers, select: [account, {what: "'transfer'"}, at]}
  visits: {from: logins, select: [account, {what: "'login'"}, at]}
  activity:
    from: [moves, visits]
    key_by: [account]
    aggregate: {transfers: count(*) filter (where what = 'transfer'), logins: count(*) filter (where what = 'login')}
    parallelism: 3
    ttl: none
  minutes:
    from: transfers
    where: amount > 100
    key_by: [account]
    window: {tumble: 1m}
    aggregate: {total: sum(amount), n: count(*)}
    select: [account, total, window_start]
sinks:
  totals: {from: activity, kafka: {topic: totals}, format: json, upsert: [account], parallelism: 3}
  alerts: {from: minutes, kafka: {topic: alerts}, format: json}
`

func TestPlanChainsAndExchanges(t *testing.T) {
	p := mustPlan(t, transfers)
	uids := map[string]int{}
	for i, v := range p.Graph.Vertices {
		uids[v.UID] = i
	}
	for _, want := range []string{"transfers", "logins", "activity", "minutes"} {
		if _, ok := uids[want]; !ok {
			t.Fatalf("no vertex %s in %v", want, uids)
		}
	}
	if got, want := len(p.Graph.Vertices), 4; got != want {
		t.Errorf("%d vertices, want %d: sinks and filters are chained", got, want)
	}
	in := p.Graph.Inputs(uids["activity"])
	if len(in) != 2 {
		t.Fatalf("activity has %d inputs, want 2", len(in))
	}
	for _, e := range in {
		if p.Graph.Edges[e].Exchange != job.Hash {
			t.Errorf("edge %d into activity is %s, want hash", e, p.Graph.Edges[e].Exchange)
		}
	}
	if got := len(p.Vertices[uids["activity"]].Sinks); got != 1 {
		t.Errorf("activity has %d sinks chained, want 1", got)
	}
}

func TestPlanDropsWhatNobodyReads(t *testing.T) {
	p := mustPlan(t, transfers)
	for _, b := range p.Vertices[0].Source.Branches {
		if i := b.Full.Index("note"); i >= 0 {
			t.Errorf("branch reads note, which nobody asks for: %s", b.Full)
		}
	}
	if p.Vertices[0].Source.TimeBranch < 0 {
		t.Error("the window needs event time, but the source has no time branch")
	}
}

func TestPlanPushesFiltersIntoSources(t *testing.T) {
	p := mustPlan(t, transfers)
	filters := 0
	for _, b := range p.Vertices[0].Source.Branches {
		if len(b.Filters) > 0 {
			filters++
			if len(b.WhereColumns) != 1 || b.Schema.Fields[b.WhereColumns[0]].Name != "amount" {
				t.Errorf("filter reads columns %v of %s, want amount", b.WhereColumns, b.Schema)
			}
		}
	}
	if filters != 1 {
		t.Errorf("%d filters pushed into the source, want 1", filters)
	}
}

func TestMistakes(t *testing.T) {
	base := `
name: x
sources:
  s:
    kafka: {brokers: ["b:1"], topic: t}
    format: json
    schema: {id: bigint, amount: double, status: string, who: {struct: {name: string}}}
`
	for _, c := range []struct{ name, rest, want string }{
		{"column", "steps:\n  a: {from: s, where: ammount > 1}\nsinks: {o: {from: a, discard: {}}}\n", "did you mean amount?"},
		{"text", "steps:\n  a: {from: s, where: 'status = \"shipped\"'}\nsinks: {o: {from: a, discard: {}}}\n", "text is written 'shipped'"},
		{"struct", "steps:\n  a: {from: s, where: who is null}\nsinks: {o: {from: a, discard: {}}}\n", "is a struct; name one of its fields"},
		{"condition", "steps:\n  a: {from: s, where: amount + 1}\nsinks: {o: {from: a, discard: {}}}\n", "must be a condition"},
		{"updates", "steps:\n  a: {from: s, key_by: [id], aggregate: {n: count(*)}, ttl: none}\nsinks: {o: {from: a, kafka: {brokers: ['b:1'], topic: o}, format: json}}\n",
			`takes inserts only, "a" updates by [id]; add upsert: [id]`},
		{"twice", "steps:\n  a: {from: s, key_by: [id], aggregate: {n: count(*)}, ttl: none}\n  b: {from: a, key_by: [n], aggregate: {m: count(*)}, ttl: none}\nsinks: {o: {from: b, discard: {}}}\n",
			`reads inserts only, "a" updates by [id]`},
		{"filtered updates", "steps:\n  a: {from: s, key_by: [id], aggregate: {n: count(*)}, ttl: none}\n  b: {from: a, where: n > 2}\nsinks: {o: {from: b, discard: {}}}\n",
			`b.where: reads inserts only, "a" updates by [id]`},
		{"no time", "steps:\n  a: {from: s, key_by: [id], window: {tumble: 1m}, aggregate: {n: count(*)}}\nsinks: {o: {from: a, discard: {}}}\n", `"s" has no event_time; add it`},
		{"union", "steps:\n  a: {from: s, select: [id]}\n  b: {from: s, select: [amount]}\n  c: {from: [a, b]}\nsinks: {o: {from: c, discard: {}}}\n", `has no column "id"`},
		{"doubles", "steps:\n  a: {from: s, select: [id, who.*, {name: status}]}\nsinks: {o: {from: a, discard: {}}}\n", ""},
	} {
		j, err := config.ParseJob("job.yaml", []byte(base+c.rest))
		if err == nil {
			_, err = New(j)
		}
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want … %s …", c.name, err, c.want)
			continue
		}
		if !strings.HasPrefix(err.Error(), "job.yaml:") {
			t.Errorf("%s: %v has no place", c.name, err)
		}
	}
}

// A step that runs wider than the aggregate before it gets the updates of a key in one subtask: else an older one
// might overtake a newer.
func TestUpdatesKeepTheirOrder(t *testing.T) {
	p := mustPlan(t, `
name: x
sources:
  s: {kafka: {brokers: ["b:1"], topic: t}, format: json, schema: {id: bigint, kind: string, amount: double}}
steps:
  a: {from: s, key_by: [kind, id], aggregate: {n: count(*), total: sum(amount)}, ttl: none, parallelism: 3}
  b: {from: a, select: [total, {key: id}, kind], parallelism: 2}
  c: {from: s, select: [id], parallelism: 2}
sinks:
  o: {from: b, kafka: {brokers: ["b:1"], topic: o}, format: json, upsert: [key, kind], parallelism: 2}
  d: {from: c, discard: {}}
`)
	found := map[string]job.Edge{}
	for i, e := range p.Graph.Edges {
		found[p.Graph.Vertices[e.To].UID] = e
		for k, c := range p.EdgeKeys[i] {
			if got := p.EdgeSchemas[i].Fields[c].Name; got != e.Keys[k] {
				t.Errorf("edge %d has key column %s, called %s", i, got, e.Keys[k])
			}
		}
	}
	if e := found["b"]; e.Exchange != job.Hash || strings.Join(e.Keys, " ") != "kind id" {
		t.Errorf("updates reach b by %s of %v, want hash of kind and id", e.Exchange, e.Keys)
	}
	if e := found["c"]; e.Exchange != job.Rebalance {
		t.Errorf("inserts reach c by %s, want rebalance", e.Exchange)
	}
}

func TestExplainNamesEveryOperator(t *testing.T) {
	p := mustPlan(t, transfers)
	var b strings.Builder
	if err := Explain(&b, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hash by account", "window aggregate (uid minutes)", "kafka sink (uid totals)", "for ever", "while decoding"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("explain does not say %q:\n%s", want, b.String())
		}
	}
}
