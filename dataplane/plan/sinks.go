package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
)

// sink checks a sink against the modes and columns of what it reads.
func (p *planner) sink(spec *config.Sink) {
	s := &sinkNode{spec: spec}
	ok := p.inputs(spec.From, &s.inputs)
	if spec.OnError == config.Divert {
		p.problems.Add(p.job.PlaceOf("sinks."+spec.Name+".on_error"), "divert is available for sources only", "use fail or skip")
	}
	if !ok {
		return
	}
	p.sinks = append(p.sinks, s)
	path := "sinks." + spec.Name
	if spec.Print || spec.Discard || p.flaws.beyond(path, "kafka", "files", "format", "key_format", "upsert", "delivery", "parallelism", "uid", "on_error") {
		return // any mode, inputs may differ
	}
	if spec.Kafka == nil && spec.Files == nil {
		return // the parser has reported it
	}
	u := p.union(spec.Name, spec.From, s.inputs)
	if u == nil {
		return
	}
	if spec.Kafka != nil && !p.flaws.at(path+".kafka.key") {
		p.names(spec.Kafka.Key, u, spec.Name)
	}
	if p.flaws.at(path + ".upsert") {
		return
	}
	upsert := p.names(spec.Upsert, u, spec.Name)
	for i, r := range s.inputs {
		p.accepts(spec, spec.From[i], r, upsert)
	}
}

// accepts checks one input's mode against the sink's upsert columns.
func (p *planner) accepts(spec *config.Sink, in config.Input, r *relation, upsert []string) {
	switch {
	case r.mode == Append:
	case r.mode == Retract:
		p.problems.Add(in.At, fmt.Sprintf("takes inserts only, %s", updates(r)), "keep the key columns in select")
	case spec.Kafka == nil:
		p.problems.Add(in.At, fmt.Sprintf("takes inserts only, %s", updates(r)), "write it to kafka with upsert")
	case spec.Upsert == nil:
		p.problems.Add(in.At, fmt.Sprintf("takes inserts only, %s", updates(r)), fmt.Sprintf("add upsert: [%s]", strings.Join(r.keys, ", ")))
	case !sameSet(upsert, r.keys):
		p.problems.Add(p.job.PlaceOf("sinks."+spec.Name+".upsert"), fmt.Sprintf("[%s], but %s", strings.Join(upsert, ", "), updates(r)),
			fmt.Sprintf("write upsert: [%s]", strings.Join(r.keys, ", ")))
	}
}

func sameSet(a, b []string) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// names resolves a list of plain columns.
func (p *planner) names(cols []config.Column, s *batch.Schema, of string) (out []string) {
	for _, c := range cols {
		if t, _ := p.bind(c.Expr, s, of); t == nil {
			continue
		}
		out = append(out, strings.Join(c.Path, "."))
	}
	return out
}

func indices(cols []config.Column, s *batch.Schema) (out []int) {
	for _, c := range cols {
		out = append(out, s.Index(strings.Join(c.Path, ".")))
	}
	return out
}
