package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/task"
)

// relation is what a source, a step or a side output produces: full schema, mode, and (after the backward
// pass) which of its columns and whether its event time are read.
type relation struct {
	name   string
	schema *batch.Schema
	mode   Mode
	keys   []string // Upsert: the columns that identify a row
	used   []bool
	time   bool // event time is read

	source *sourceNode
	step   *stepNode
	errors bool // the side output "errors" of source
}

type sourceNode struct {
	spec   *config.Source
	leaves []leaf
	at     expr.Node // event time, or nil
	rel    *relation
	errs   *relation // nil unless diverted
}

// stepNode is a step with its expressions parsed.
type stepNode struct {
	spec   *config.Step
	inputs []*relation
	in     *batch.Schema // common schema of the inputs
	where  expr.Node
	// below are the filters of later steps that are applied together with where; lowered is the step's own filter
	// if it has become one of those (where is nil then).
	below   []Filter
	lowered expr.Node
	keys    []output
	calls   []expr.AggregateCall
	columns []output // of the operator's aggregate expressions, over mid
	mid     *batch.Schema
	out     []output // the projection, over in (no operator) or over the operator's columns
	rel     *relation
}

type sinkNode struct {
	spec   *config.Sink
	inputs []*relation
}

// output is a named expression with its place.
type output struct {
	name string
	node expr.Node
	at   config.Place
	typ  batch.Type
	null bool
}

// planner collects the logical plan and its problems.
type planner struct {
	job      *config.Job
	flaws    flaws
	problems config.Problems
	warnings []string
	sources  []*sourceNode
	steps    []*stepNode // in topological order
	sinks    []*sinkNode
	byName   map[string]*relation
	busy     map[string]bool
}

func newPlanner(j *config.Job, f flaws) *planner {
	return &planner{job: j, flaws: f, byName: map[string]*relation{}, busy: map[string]bool{}}
}

// logical plans every source, step and sink as far as problems allow.
func (p *planner) logical() {
	for i := range p.job.Sources {
		p.source(&p.job.Sources[i])
	}
	for i := range p.job.Steps {
		p.step(&p.job.Steps[i])
	}
	for i := range p.job.Sinks {
		p.sink(&p.job.Sinks[i])
	}
}

// input finds the relation that a name refers to, planning its step first. nil after a problem.
func (p *planner) input(in config.Input) *relation {
	if in.Output != "" {
		if src := p.job.Source(in.Name); src != nil {
			if s := p.source(src); s != nil && s.errs != nil {
				return s.errs
			}
		}
		return nil
	}
	src, st := p.job.Source(in.Name), p.job.Step(in.Name)
	switch {
	case src != nil && st != nil: // the parser has reported it
		return nil
	case src != nil:
		return p.source(src).rel
	case st != nil:
		return p.step(st)
	}
	return nil
}

func (p *planner) source(src *config.Source) *sourceNode {
	for _, s := range p.sources {
		if s.spec == src {
			return s
		}
	}
	s := &sourceNode{spec: src}
	p.sources = append(p.sources, s)
	if src.OnError == config.Divert {
		s.errs = &relation{name: src.Name + "." + config.ErrorsOutput, schema: task.ErrorsSchema, source: s, errors: true}
	}
	path := "sources." + src.Name
	if p.flaws.beyond(path, apartFromColumns...) {
		return s
	}
	s.leaves = sourceLeaves(src)
	s.rel = &relation{name: src.Name, schema: leavesSchema(s.leaves, src.EventTime != nil), source: s}
	for _, m := range src.Metadata {
		if m.Kind == config.MetadataHeader {
			p.problems.Add(m.At, "headers are not available yet", "use key, timestamp, partition or offset")
		}
	}
	if src.EventTime != nil {
		// Event time is read before there is one, and from the records only.
		sc := *s.rel.schema
		sc.HasTime = false
		if t, n := p.bind(src.EventTime.Expr, &sc, src.Name); t != nil {
			s.at = n
			if t.Type().Kind != batch.Timestamp {
				p.problems.Add(src.EventTime.Expr.At, fmt.Sprintf("event time must be a timestamp, not %s", t.Type()),
					"declare the column as timestamp(3), or convert with to_timestamp or cast")
			}
		}
	}
	return s
}

// step plans a step and, before it, those that it reads.
func (p *planner) step(spec *config.Step) *relation {
	if r, ok := p.byName[spec.Name]; ok {
		return r
	}
	if p.busy[spec.Name] {
		return nil // the parser has reported the cycle
	}
	p.busy[spec.Name] = true
	s := &stepNode{spec: spec}
	p.byName[spec.Name] = nil
	if !p.inputs(spec.From, &s.inputs) {
		return nil
	}
	if s.in = p.union(spec.Name, spec.From, s.inputs); s.in == nil || !p.operate(s) {
		return nil
	}
	p.byName[spec.Name] = s.rel
	p.steps = append(p.steps, s)
	return s.rel
}

// operate plans what a step does with its input. It returns false if that is not known, for all the mistakes in it.
func (p *planner) operate(s *stepNode) bool {
	spec, path, before := s.spec, "steps."+s.spec.Name, len(p.problems)
	s.rel = &relation{name: spec.Name, step: s}
	if spec.OnError == config.Divert {
		p.problems.Add(p.job.PlaceOf(path+".on_error"), "divert is available for sources only", "use fail or skip")
	}
	p.where(s)
	if p.flaws.beyond(path, append([]string{"where", "select"}, apartFromColumns...)...) {
		return false
	}
	if spec.Aggregate != nil {
		p.aggregate(s)
	} else {
		p.plain(s)
	}
	return len(p.problems) == before && !p.flaws.beyond(path, apartFromColumns...)
}

func (p *planner) inputs(from []config.Input, out *[]*relation) bool {
	ok := true
	for _, in := range from {
		r := p.input(in)
		if r == nil {
			ok = false
			continue
		}
		*out = append(*out, r)
	}
	return ok
}

// union checks that the inputs have equal columns and returns them, in the order of the first.
func (p *planner) union(name string, from []config.Input, inputs []*relation) *batch.Schema {
	if len(inputs) == 0 {
		return nil
	}
	first := inputs[0].schema
	u := &batch.Schema{Fields: slices.Clone(first.Fields), HasTime: first.HasTime}
	ok := true
	for i, r := range inputs[1:] {
		u.HasTime = u.HasTime && r.schema.HasTime
		for k, f := range u.Fields {
			j := r.schema.Index(f.Name)
			switch {
			case j < 0:
				ok = false
				p.problems.Add(from[i+1].At, fmt.Sprintf("%q has no column %q, which %q has", r.name, f.Name, inputs[0].name), "select equal columns before the union")
			case r.schema.Fields[j].Type != f.Type:
				ok = false
				p.problems.Add(from[i+1].At, fmt.Sprintf("column %q is %s in %q and %s in %q", f.Name, r.schema.Fields[j].Type, r.name, f.Type, inputs[0].name), "cast one of them before the union")
			default:
				u.Fields[k].Nullable = f.Nullable || r.schema.Fields[j].Nullable
			}
		}
		if ok && len(r.schema.Fields) != len(u.Fields) {
			ok = false
			p.problems.Add(from[i+1].At, fmt.Sprintf("%q has %d columns, %q has %d", r.name, len(r.schema.Fields), inputs[0].name, len(u.Fields)), "select equal columns before the union")
		}
	}
	if !ok {
		return nil
	}
	return u
}

func (p *planner) where(s *stepNode) {
	if s.spec.Where == nil || p.flaws.at("steps."+s.spec.Name+".where") {
		return
	}
	t, n := p.bind(*s.spec.Where, s.in, s.spec.Name)
	if t == nil {
		return
	}
	if t.Type().Kind != batch.Bool {
		p.problems.Add(s.spec.Where.At, fmt.Sprintf("must be a condition, but is %s", t.Type()), "compare it with something")
	}
	s.where = n
}

// plain plans a step without an operator: the mode is that of its inputs, if it keeps the key.
func (p *planner) plain(s *stepNode) {
	s.out = p.projection(s, s.in)
	s.rel.schema = outputSchema(s.out, s.in.HasTime)
	for i, in := range s.inputs {
		if s.where != nil && in.mode != Append {
			// A row that an update makes unfit would have to be deleted behind the filter.
			p.problems.Add(s.spec.Where.At, fmt.Sprintf("reads inserts only, %s", updates(in)), "filter before the aggregate, or aggregate in a window")
		}
		switch {
		case i == 0:
			s.rel.mode, s.rel.keys = renamed(in.mode, in.keys, s.out)
		case in.mode != Append || s.rel.mode != Append:
			s.rel.mode, s.rel.keys = Retract, nil // two tables in one stream: nobody knows whose row it is
		}
	}
}

// renamed is the mode after a projection: an upsert key lives on if all of its columns do.
func renamed(m Mode, keys []string, out []output) (Mode, []string) {
	if m != Upsert {
		return m, nil
	}
	var now []string
	for _, k := range keys {
		i := slices.IndexFunc(out, func(o output) bool {
			c, ok := o.node.(*expr.Column)
			return ok && strings.Join(c.Path, ".") == k
		})
		if i < 0 {
			return Retract, nil
		}
		now = append(now, out[i].name)
	}
	return Upsert, now
}

func outputSchema(out []output, hasTime bool) *batch.Schema {
	s := &batch.Schema{HasTime: hasTime}
	for _, o := range out {
		s.Fields = append(s.Fields, batch.Field{Name: o.name, Type: o.typ, Nullable: o.null})
	}
	return s
}

// projection expands and types a select list over the columns of schema; without one, all columns.
func (p *planner) projection(s *stepNode, schema *batch.Schema) []output {
	switch {
	case p.flaws.at("steps." + s.spec.Name + ".select"):
		return nil
	case s.spec.Select == nil:
		return allColumns(schema, "", "", s.spec.At)
	}
	named := map[string]bool{}
	for _, c := range s.spec.Select {
		if !c.Star {
			named[c.Name] = true
		}
	}
	var out []output
	for _, c := range s.spec.Select {
		if !c.Star {
			if t, n := p.bind(c.Expr, schema, s.spec.Name); t != nil {
				out = append(out, output{name: c.Name, node: n, at: c.At, typ: t.Type(), null: t.Nullable()})
			}
			continue
		}
		cols := allColumns(schema, c.Path.String(), c.Prefix, c.At)
		if len(cols) == 0 {
			p.problems.Add(c.At, fmt.Sprintf("%q is no struct of %s", c.Path.String(), s.spec.Name), "")
		}
		for _, o := range cols {
			if !named[o.name] { // a named item replaces a star's column
				out = append(out, o)
			}
		}
	}
	p.doubles(out)
	return out
}

func (p *planner) doubles(out []output) {
	seen := map[string]bool{}
	for _, o := range out {
		if seen[o.name] {
			p.problems.Add(o.at, fmt.Sprintf("two columns %q", o.name), `rename one or prefix, {"a_*": …}`)
		}
		seen[o.name] = true
	}
}

// allColumns are the columns below path, named by what follows it.
func allColumns(s *batch.Schema, path, prefix string, at config.Place) []output {
	if path != "" {
		path += "."
	}
	var out []output
	for _, f := range s.Fields {
		if name, ok := strings.CutPrefix(f.Name, path); ok {
			out = append(out, output{name: prefix + name, node: column(f.Name), at: at, typ: f.Type, null: f.Nullable})
		}
	}
	return out
}

// windowTime is the type of window_start and window_end.
var windowTime = batch.Type{Kind: batch.Timestamp, Precision: 3}

// window returns the length of the step's tumbling windows, 0 without.
func (s *stepNode) window() time.Duration {
	if s.spec.Window == nil {
		return 0
	}
	return s.spec.Window.Tumble
}
