package plan

import (
	"strings"
	"testing"
)

// Where filters are applied: the source's branches, as "a and then b", and the steps that keep theirs.
func TestFiltersMoveDown(t *testing.T) {
	const source = `
name: x
sources:
  s:
    kafka: {brokers: ["b:1"], topic: t}
    format: json
    schema: {type: int, who: {struct: {id: bigint, name: string}}, at: timestamp(3)}
    metadata: {partition: partition}
    event_time: {at: at, max_out_of_order: 1s}
  z:
    kafka: {brokers: ["b:1"], topic: z}
    format: json
    schema: {who: {struct: {id: bigint, name: string}}}
`
	const bid = "  bid: {from: s, where: type = 2, select: [who.*, partition, {twice: who.id * 2}]}\n"
	const out = "sinks: {o: {from: last, discard: {}}}\n"
	for _, c := range []struct {
		name, rest string
		branches   []string
		steps      string // uids of stages with a filter
	}{
		{"alone", "steps:\n  last: {from: s, where: type = 2}\n" + out, []string{"(type = 2)"}, ""},
		{"through a selection", "steps:\n" + bid + "  last: {from: bid, where: id > 3 and name like 'a%'}\n" + out,
			[]string{`(type = 2) and then ((who.id > 3) and (who.name like 'a%'))`}, ""},
		{"through two", "steps:\n" + bid + "  mid: {from: bid, where: id > 3, select: [{key: id}]}\n  last: {from: mid, where: key < 9}\n" + out,
			[]string{"(type = 2) and then (who.id > 3) and then (who.id < 9)"}, ""},
		{"of an aggregate", "steps:\n" + bid + "  last: {from: bid, where: id > 3, key_by: [name], aggregate: {n: count(*)}, ttl: none}\n" + out,
			[]string{"(type = 2) and then (who.id > 3)"}, ""},
		{"not through a union of steps", "steps:\n" + bid + "  more: {from: s, select: [who.id]}\n  few: {from: bid, select: [id]}\n  last: {from: [few, more], where: id > 3}\n" + out,
			[]string{"(type = 2)", ""}, "last"},
		{"computed", "steps:\n" + bid + "  last: {from: bid, where: twice > 3}\n" + out, []string{"(type = 2)"}, "last"},
		{"behind one that stays", "steps:\n" + bid + "  mid: {from: bid, where: twice > 3}\n  last: {from: mid, where: id > 3}\n" + out, []string{"(type = 2)"}, "mid last"},
		{"metadata", "steps:\n" + bid + "  last: {from: bid, where: partition = 1}\n" + out, []string{"(type = 2)"}, "last"},
		{"event time", "steps:\n" + bid + "  last: {from: bid, where: event_time() > timestamp '2026-01-01'}\n" + out, []string{"(type = 2)", ""}, "last"},
		{"another reader", "steps:\n" + bid + "  last: {from: bid, where: id > 3}\nsinks: {o: {from: [last, bid], discard: {}}}\n", []string{"(type = 2)"}, "last"},
		{"behind an aggregate", "steps:\n" + bid + "  n: {from: bid, key_by: [name], window: {tumble: 1m}, aggregate: {n: count(*)}}\n  last: {from: n, where: name = 'a'}\n" + out,
			[]string{"(type = 2)", ""}, "last"},
		{"that skips", "steps:\n" + bid + "  last: {from: bid, where: id > 3, on_error: skip}\n" + out, []string{"(type = 2)"}, "last"},
		{"through one that skips", "steps:\n  bid: {from: s, select: [who.*], on_error: skip}\n  last: {from: bid, where: id > 3}\n" + out, []string{""}, "last"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustPlan(t, source+c.rest)
			var got []string
			for _, b := range p.Vertices[0].Source.Branches {
				var parts []string
				for _, f := range b.Filters {
					parts = append(parts, f.Expr.String())
				}
				got = append(got, strings.Join(parts, " and then "))
			}
			if strings.Join(got, "\n") != strings.Join(c.branches, "\n") {
				t.Errorf("branches filter by %q, want %q", got, c.branches)
			}
			var steps []string
			for _, v := range p.Vertices {
				for _, s := range v.Stages {
					if s.Row != nil && s.Row.Where != nil {
						steps = append(steps, s.UID)
					}
				}
			}
			if s := strings.Join(steps, " "); s != c.steps {
				t.Errorf("steps with a filter: %q, want %q", s, c.steps)
			}
		})
	}
}

// A filter keeps its place for messages, and what its step is called in explain.
func TestLoweredFilterIsExplained(t *testing.T) {
	p := mustPlan(t, `
name: x
sources: {s: {nexmark: {events: 10}}}
steps:
  bid: {from: s, where: event_type = 2, select: [bid.*]}
  chosen: {from: bid, where: "auction % 123 = 0", select: [auction, price]}
sinks: {o: {from: chosen, discard: {}}}
`)
	if f := p.Vertices[0].Source.Branches[0].Filters; len(f) != 2 || f[1].Place != "chosen.where" {
		t.Errorf("got filters %v, want the second at chosen.where", f)
	}
	var b strings.Builder
	if err := Explain(&b, p); err != nil {
		t.Fatal(err)
	}
	if want := "filter (uid chosen): where ((auction % 123) = 0) (while decoding)"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}
