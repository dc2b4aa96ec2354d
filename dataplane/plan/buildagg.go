package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/task"
)

// aggregate builds a keyed step: filter and key columns before the exchange, the aggregate behind it.
func (b *builder) aggregate(s *stepNode) {
	ports, in, where := b.stepInputs(s)
	pre := s.preStage(in, where)
	for i := range ports {
		if !pre.identity() {
			ports[i] = b.stage(ports[i], Stage{UID: s.spec.UID + "/keys", Row: pre, OnError: s.spec.OnError}, pre.Out)
		}
	}
	var keys []int
	for i := range s.keys {
		keys = append(keys, i)
	}
	parallelism := s.spec.Parallelism
	if len(keys) == 0 {
		parallelism = 1 // one key, one subtask
	}
	j := b.join(s.spec.UID, ports, parallelism, keys)
	agg := s.aggregateStage(pre.Out)
	i := b.addStage(j.vertex, Stage{UID: s.spec.UID, Aggregate: agg, OnError: s.spec.OnError})
	b.enter(j, task.Target{Kind: task.ToStage, Index: i})
	out := port{vertex: j.vertex, kind: stagePort, index: i, schema: agg.Out}
	b.describe(j.vertex, job.Operator{UID: s.spec.UID, Kind: aggregateKind(s), State: stateOf(s), Detail: aggregateDetail(s)})
	if post := s.postStage(agg.Out); post != nil {
		out = b.stage(out, Stage{UID: s.spec.UID + "/select", Row: post, OnError: s.spec.OnError}, post.Out)
	}
	b.ports[s.rel] = out
}

// preStage computes the key columns and keeps what the aggregate calls read.
func (s *stepNode) preStage(in *batch.Schema, where expr.Node) *Row {
	row := &Row{In: in, Where: where, WherePlace: s.wherePlace(), Out: &batch.Schema{HasTime: in.HasTime}}
	add := func(name string, n expr.Node, f batch.Field) {
		f.Name = name
		row.Columns = append(row.Columns, Output{Name: name, Expr: n, Place: s.spec.Name + ".key_by." + name})
		row.Out.Fields = append(row.Out.Fields, f)
	}
	for i, k := range s.keys {
		name := fmt.Sprintf("#%d", i)
		if c := PlainColumn(k.node, in); c >= 0 && row.Out.Index(in.Fields[c].Name) < 0 {
			name = in.Fields[c].Name // the calls may read it under its own name
		}
		add(name, k.node, batch.Field{Type: k.typ, Nullable: k.null})
	}
	used := make([]bool, len(s.in.Fields))
	s.args(used)
	for i, f := range s.in.Fields {
		if used[i] && row.Out.Index(f.Name) < 0 {
			add(f.Name, column(f.Name), f)
		}
	}
	return row
}

func (s *stepNode) aggregateStage(in *batch.Schema) *Aggregate {
	a := &Aggregate{In: in, Keys: len(s.keys), Calls: s.calls, Mid: s.mid, Window: s.window(), Place: s.spec.Name + ".aggregate"}
	for _, k := range s.keys {
		a.KeyNames = append(a.KeyNames, k.name)
	}
	a.Out = outputSchema(s.columns, in.HasTime)
	for _, c := range s.columns {
		a.Columns = append(a.Columns, Output{Name: c.name, Expr: c.node, Place: s.spec.Name + ".aggregate." + c.name})
	}
	return a
}

// postStage is the projection behind the operator; nil if it changes nothing.
func (s *stepNode) postStage(in *batch.Schema) *Row {
	row := &Row{In: in, WherePlace: s.spec.Name, Out: prune(s.rel.schema, s.rel.used, in.HasTime)}
	for i, o := range s.out {
		if s.rel.used[i] {
			row.Columns = append(row.Columns, Output{Name: o.name, Expr: o.node, Place: s.spec.Name + ".select." + o.name})
		}
	}
	if row.identity() {
		return nil
	}
	return row
}

func aggregateKind(s *stepNode) string {
	if s.spec.Window != nil {
		return "window aggregate"
	}
	return "aggregate"
}

func keyList(s *stepNode) string {
	var names []string
	for _, k := range s.keys {
		names = append(names, k.name)
	}
	if len(names) == 0 {
		return "the one key"
	}
	return strings.Join(names, ", ")
}

func stateOf(s *stepNode) string {
	if s.spec.Window != nil {
		return fmt.Sprintf("a row per %s and open window of %s; gone when the watermark passes the window's end", keyList(s), s.spec.Window.Tumble)
	}
	return fmt.Sprintf("a row per %s, for ever", keyList(s))
}

func aggregateDetail(s *stepNode) string {
	var parts []string
	if where := s.whereText(); where != "" {
		parts = append(parts, where)
	}
	parts = append(parts, "by "+keyList(s))
	for _, c := range s.calls {
		parts = append(parts, callText(c))
	}
	return strings.Join(parts, "; ")
}

// sink builds a sink. Print and discard are chained to each of their inputs; the others see one stream.
func (b *builder) sink(s *sinkNode) {
	if s.spec.Print || s.spec.Discard {
		for _, r := range s.inputs {
			pt := b.open(r, r.pruned(), nil, s.spec.UID)
			b.addSink(joint{vertex: pt.vertex, ports: []port{pt}}, Sink{Spec: s.spec, In: pt.schema})
		}
		return
	}
	want := s.inputs[0].pruned()
	var ports []port
	for _, r := range s.inputs {
		ports = append(ports, b.open(r, want, nil, s.spec.UID))
	}
	sk := Sink{Spec: s.spec, In: want, Upsert: s.spec.Upsert != nil}
	if s.spec.Kafka != nil {
		sk.Key = indices(s.spec.Kafka.Key, want)
	}
	if sk.Upsert {
		sk.Key = indices(s.spec.Upsert, want)
	}
	// Equal parallelism keeps the rows of a key in one subtask; otherwise they must be sent there.
	var keys []int
	for _, pt := range ports {
		if b.plan.Vertices[pt.vertex].Parallelism != s.spec.Parallelism && len(sk.Key) > 0 {
			keys = sk.Key
		}
	}
	b.addSink(b.join(s.spec.UID, ports, s.spec.Parallelism, keys), sk)
}

func (b *builder) addSink(j joint, s Sink) {
	vx := &b.plan.Vertices[j.vertex]
	vx.Sinks = append(vx.Sinks, s)
	b.enter(j, task.Target{Kind: task.ToSink, Index: len(vx.Sinks) - 1})
	b.describe(j.vertex, job.Operator{UID: b.unique(s.Spec.UID), Kind: sinkKind(s.Spec) + " sink", Detail: sinkDetail(s)})
}

// unique numbers the instances of a print or discard sink behind several inputs: uids are unique in a graph.
func (b *builder) unique(uid string) string {
	n := 1
	for _, v := range b.plan.Graph.Vertices {
		for _, o := range v.Operators {
			if o.UID == uid || strings.HasPrefix(o.UID, uid+"/") {
				n++
			}
		}
	}
	if n == 1 {
		return uid
	}
	return fmt.Sprintf("%s/%d", uid, n)
}

func sinkKind(s *config.Sink) string {
	switch {
	case s.Kafka != nil:
		return "kafka"
	case s.Files != nil:
		return "files"
	case s.Print:
		return "print"
	}
	return "discard"
}

func sinkDetail(s Sink) string {
	d := string(s.Spec.Delivery)
	if s.Upsert {
		d += ", upsert"
	}
	return strings.ReplaceAll(d, "_", " ")
}
