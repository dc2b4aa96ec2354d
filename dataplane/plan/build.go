package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/task"
)

// builder makes the physical plan.
type builder struct {
	p       *planner
	plan    *Plan
	sources map[*sourceNode]int // vertex
	ports   map[*relation]port  // of steps
}

// port is where batches come out: a branch or the error output of a source, or a stage.
type port struct {
	vertex int
	kind   portKind
	index  int
	schema *batch.Schema
}

type portKind uint8

const (
	branchPort portKind = iota
	stagePort
	errorsPort
)

func newBuilder(p *planner) *builder {
	return &builder{
		p: p, sources: map[*sourceNode]int{}, ports: map[*relation]port{},
		plan: &Plan{Job: p.job, Graph: job.Graph{MaxParallelism: p.job.MaxParallelism}},
	}
}

func (b *builder) build() error {
	for _, s := range b.p.sources {
		b.source(s)
	}
	for _, s := range b.p.steps {
		if s.rel.used == nil {
			b.p.warnings = append(b.p.warnings, fmt.Sprintf("%s: nothing reads this step, it does not run", b.p.job.PlaceOf("steps."+s.spec.Name)))
			continue
		}
		if s.spec.Aggregate != nil {
			b.aggregate(s)
		} else {
			b.row(s)
		}
	}
	for _, s := range b.p.sinks {
		b.sink(s)
	}
	for s, v := range b.sources {
		b.finishSource(s, v)
	}
	return nil
}

// vertex adds an empty vertex.
func (b *builder) vertex(uid string, parallelism int) int {
	b.plan.Vertices = append(b.plan.Vertices, Vertex{Parallelism: parallelism})
	b.plan.Graph.Vertices = append(b.plan.Graph.Vertices, job.Vertex{UID: uid, Parallelism: parallelism})
	return len(b.plan.Vertices) - 1
}

func (b *builder) describe(v int, o job.Operator) {
	g := &b.plan.Graph.Vertices[v]
	g.Operators = append(g.Operators, o)
}

func (b *builder) source(s *sourceNode) {
	v := b.vertex(s.spec.UID, s.spec.Parallelism)
	b.plan.Vertices[v].Source = &Source{Spec: s.spec, TimeBranch: -1}
	b.sources[s] = v
	b.describe(v, job.Operator{UID: s.spec.UID, Kind: sourceKind(s.spec) + " source", State: "a position per split"})
}

func sourceKind(s *config.Source) string {
	switch {
	case s.Kafka != nil:
		return "kafka"
	case s.Nexmark != nil:
		return "nexmark"
	}
	return "files"
}

// branch adds a branch to a source for one consumer that reads the used columns, and the filters that the
// source applies for it.
func (b *builder) branch(s *sourceNode, used []bool, filters []Filter) port {
	v := b.sources[s]
	src := b.plan.Vertices[v].Source
	br := Branch{Filters: filters}
	full := prune(s.rel.schema, used, s.rel.time)
	decoded := &batch.Schema{HasTime: s.rel.time}
	for i, l := range s.leaves {
		switch {
		case !used[i]:
		case l.meta != nil:
			br.Metadata = append(br.Metadata, task.MetadataColumn{Branch: len(src.Branches), Column: full.Index(l.Name), Kind: *l.meta})
		default:
			br.Columns = append(br.Columns, l.Column)
			decoded.Fields = append(decoded.Fields, s.rel.schema.Fields[i])
		}
	}
	br.Schema, br.Full = decoded, full
	wanted := make([]bool, len(decoded.Fields))
	for _, f := range filters {
		refs(f.Expr, decoded, wanted)
	}
	for i, w := range wanted {
		if w {
			br.WhereColumns = append(br.WhereColumns, i)
		}
	}
	src.Branches = append(src.Branches, br)
	return port{vertex: v, kind: branchPort, index: len(src.Branches) - 1, schema: full}
}

// finishSource adds the branch from which event time is computed, if anybody reads it.
func (b *builder) finishSource(s *sourceNode, v int) {
	src := b.plan.Vertices[v].Source
	detail := fmt.Sprintf("%d branches", len(src.Branches))
	if s.rel.time {
		used := make([]bool, len(s.leaves))
		refs(s.at, s.rel.schema, used)
		for i, l := range s.leaves {
			if used[i] && l.meta != nil {
				detail += ", event time from metadata"
			}
		}
		src.TimeBranch = b.branch(s, used, nil).index
		src.Time = s.at
		detail += ", event time at " + s.at.String()
	} else if s.at != nil {
		detail += ", event time is not read: nothing uses it"
	}
	b.plan.Graph.Vertices[v].Operators[0].Detail = detail
}

// open returns the port of a relation for one consumer, with exactly the columns of want in its order.
func (b *builder) open(r *relation, want *batch.Schema, filters []Filter, consumer string) port {
	var pt port
	switch {
	case r.errors:
		pt = port{vertex: b.sources[r.source], kind: errorsPort, schema: task.ErrorsSchema}
	case r.source != nil:
		used := make([]bool, len(r.schema.Fields))
		for _, f := range want.Fields {
			used[r.schema.Index(f.Name)] = true
		}
		for _, f := range filters {
			refs(f.Expr, r.schema, used)
		}
		pt = b.branch(r.source, used, filters)
	default:
		pt = b.ports[r]
	}
	if len(filters) == 0 && !sameColumns(pt.schema, want) {
		pt = b.project(pt, want, consumer)
	}
	return pt
}

func sameColumns(a, b *batch.Schema) bool {
	return slices.EqualFunc(a.Fields, b.Fields, func(x, y batch.Field) bool { return x.Name == y.Name })
}

// project adds a stage that brings the columns of a port into the order of want.
func (b *builder) project(pt port, want *batch.Schema, consumer string) port {
	row := &Row{In: pt.schema, Out: want, WherePlace: consumer}
	for _, f := range want.Fields {
		row.Columns = append(row.Columns, Output{Name: f.Name, Expr: column(f.Name), Place: consumer})
	}
	return b.stage(pt, Stage{UID: consumer + "/columns", Row: row, OnError: config.Fail}, want)
}

// stage chains a stage to a port.
func (b *builder) stage(pt port, s Stage, out *batch.Schema) port {
	i := b.addStage(pt.vertex, s)
	b.attach(pt, task.Target{Kind: task.ToStage, Index: i})
	return port{vertex: pt.vertex, kind: stagePort, index: i, schema: out}
}

func (b *builder) addStage(v int, s Stage) int {
	vx := &b.plan.Vertices[v]
	vx.Stages = append(vx.Stages, s)
	return len(vx.Stages) - 1
}

// attach adds a target to what a port feeds.
func (b *builder) attach(pt port, t task.Target) {
	vx := &b.plan.Vertices[pt.vertex]
	switch pt.kind {
	case branchPort:
		br := &vx.Source.Branches[pt.index]
		br.Targets = append(br.Targets, t)
	case errorsPort:
		vx.Source.Errors = append(vx.Source.Errors, t)
	default:
		vx.Stages[pt.index].Out = append(vx.Stages[pt.index].Out, t)
	}
}

// joint is where the ports of one consumer meet: in the vertex they share, or in a new one behind edges.
type joint struct {
	vertex int
	ports  []port // empty if edges lead here
	edges  int
}

// join brings ports together at the given parallelism. With keys, rows go to the owners of their key groups.
func (b *builder) join(uid string, ports []port, parallelism int, keys []int) joint {
	first := ports[0].vertex
	together := !slices.ContainsFunc(ports, func(p port) bool { return p.vertex != first })
	if together && b.plan.Vertices[first].Parallelism == parallelism && (keys == nil || parallelism == 1) {
		return joint{vertex: first, ports: ports}
	}
	v := b.vertex(uid, parallelism)
	for _, pt := range ports {
		b.edge(pt, v, keys)
	}
	return joint{vertex: v, edges: len(ports)}
}

func (b *builder) edge(pt port, to int, keys []int) {
	from := &b.plan.Vertices[pt.vertex]
	e := job.Edge{From: pt.vertex, To: to, Exchange: job.Rebalance}
	switch {
	case keys != nil:
		e.Exchange = job.Hash
		for _, k := range keys {
			e.Keys = append(e.Keys, pt.schema.Fields[k].Name)
		}
	case from.Parallelism == b.plan.Vertices[to].Parallelism:
		e.Exchange = job.Forward
	}
	b.plan.Graph.Edges = append(b.plan.Graph.Edges, e)
	b.plan.EdgeSchemas = append(b.plan.EdgeSchemas, pt.schema)
	b.plan.EdgeKeys = append(b.plan.EdgeKeys, keys)
	b.attach(pt, task.Target{Kind: task.ToOutput, Index: from.Outputs})
	from.Outputs++
}

// enter attaches a target to a joint.
func (b *builder) enter(j joint, t task.Target) {
	for _, pt := range j.ports {
		b.attach(pt, t)
	}
	for range j.edges {
		b.plan.Vertices[j.vertex].Inputs = append(b.plan.Vertices[j.vertex].Inputs, t)
	}
}

// stepInputs opens the inputs of a step. If filters are pushed into the sources, the ports carry their columns
// too; where is what is left for the step itself.
func (b *builder) stepInputs(s *stepNode) (ports []port, in *batch.Schema, where expr.Node) {
	used, time := s.needs()
	in, where = prune(s.in, used, time), s.where
	var filters []Filter
	if s.pushed() {
		filters, where = append(filters, Filter{s.where, s.wherePlace()}), nil
	}
	filters = append(filters, s.below...)
	for _, r := range s.inputs {
		ports = append(ports, b.open(r, in, filters, s.spec.UID))
	}
	if len(filters) > 0 {
		in = ports[0].schema
		for i := range ports[1:] {
			if !sameColumns(ports[i+1].schema, in) {
				ports[i+1] = b.project(ports[i+1], in, s.spec.UID)
			}
		}
	}
	return ports, in, where
}

// row builds a step without an operator.
func (b *builder) row(s *stepNode) {
	ports, in, where := b.stepInputs(s)
	row := &Row{In: in, Where: where, WherePlace: s.wherePlace(), Out: s.rel.pruned()}
	for i, o := range s.out {
		if s.rel.used[i] {
			row.Columns = append(row.Columns, Output{Name: o.name, Expr: o.node, Place: s.spec.Name + ".select." + o.name})
		}
	}
	if len(ports) == 1 && where == nil && row.identity() && b.plan.Vertices[ports[0].vertex].Parallelism == s.spec.Parallelism {
		b.ports[s.rel] = ports[0]
		if s.whereText() != "" {
			b.describe(ports[0].vertex, job.Operator{UID: s.spec.UID, Kind: "filter", Detail: rowDetail(s)})
		}
		return
	}
	j := b.join(s.spec.UID, ports, s.spec.Parallelism, b.order(s, ports, in))
	i := b.addStage(j.vertex, Stage{UID: s.spec.UID, Row: row, OnError: s.spec.OnError})
	b.enter(j, task.Target{Kind: task.ToStage, Index: i})
	b.ports[s.rel] = port{vertex: j.vertex, kind: stagePort, index: i, schema: row.Out}
	b.describe(j.vertex, job.Operator{UID: s.spec.UID, Kind: rowKind(row), Detail: rowDetail(s)})
}

// order returns the columns of in by which rows must be sent to the subtasks of a step without an operator: the
// key of updates, whose order counts, if they change hands at all. nil means that any subtask may have any row.
func (b *builder) order(s *stepNode, ports []port, in *batch.Schema) (keys []int) {
	for i, r := range s.inputs {
		if r.mode != Upsert || b.plan.Vertices[ports[i].vertex].Parallelism == s.spec.Parallelism {
			continue
		}
		keys = nil
		for _, name := range r.keys {
			k := in.Index(name)
			if k < 0 {
				return nil // the step drops the key: nobody behind it can tell whose updates these are
			}
			keys = append(keys, k)
		}
	}
	return keys
}

// identity says that the row stage changes nothing.
func (r *Row) identity() bool {
	if r.Where != nil || len(r.Columns) != len(r.In.Fields) || r.In.HasTime != r.Out.HasTime {
		return false
	}
	for i, c := range r.Columns {
		if PlainColumn(c.Expr, r.In) != i || c.Name != r.In.Fields[i].Name {
			return false
		}
	}
	return true
}

func rowKind(r *Row) string {
	if r.Where != nil {
		return "filter and project"
	}
	return "project"
}

func rowDetail(s *stepNode) string {
	var parts []string
	if where := s.whereText(); where != "" {
		parts = append(parts, where)
	}
	if s.spec.Select != nil {
		var names []string
		for i, o := range s.out {
			if s.rel.used[i] {
				names = append(names, o.name)
			}
		}
		parts = append(parts, "columns "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; ")
}
