package plan

import (
	"fmt"
	"io"
	"strings"

	"github.com/weirstream/weir/dataplane/job"
)

// Summary is the plan in one line: sources → sinks, and how wide it runs.
func Summary(p *Plan) string {
	var sources, sinks []string
	for i := range p.Job.Sources {
		sources = append(sources, p.Job.Sources[i].Name)
	}
	for i := range p.Job.Sinks {
		sinks = append(sinks, p.Job.Sinks[i].Name)
	}
	return fmt.Sprintf("%s → %s · parallelism %d", strings.Join(sources, ", "), strings.Join(sinks, ", "), p.Graph.MaxVertexParallelism())
}

// Explain writes the plan for people: vertices, operators, what they keep and why it is finite, and channels.
func Explain(w io.Writer, p *Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s: %s, %d slots, %d key groups\n", p.Job.Name, Summary(p), p.Graph.MaxVertexParallelism(), p.Graph.MaxParallelism)
	for v := range p.Graph.Vertices {
		explainVertex(&b, p, v)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", w)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func explainVertex(b *strings.Builder, p *Plan, v int) {
	g := &p.Graph.Vertices[v]
	fmt.Fprintf(b, "\n[%d] %s × %d\n", v, g.UID, g.Parallelism)
	for _, e := range p.Graph.Inputs(v) {
		fmt.Fprintf(b, "    ← [%d] %s (%s)\n", p.Graph.Edges[e].From, exchangeOf(&p.Graph.Edges[e]), p.EdgeSchemas[e])
	}
	for _, o := range g.Operators {
		fmt.Fprintf(b, "    %s (uid %s)", o.Kind, o.UID)
		if o.Detail != "" {
			fmt.Fprintf(b, ": %s", o.Detail)
		}
		b.WriteByte('\n')
		if o.State != "" {
			fmt.Fprintf(b, "        keeps %s\n", o.State)
		}
	}
	if s := p.Vertices[v].Source; s != nil {
		for i, br := range s.Branches {
			what := "reads"
			if i == s.TimeBranch {
				what = "event time from"
			}
			fmt.Fprintf(b, "    branch %d %s: %s", i, what, br.Full)
			for i, f := range br.Filters {
				fmt.Fprintf(b, "%s %s", [...]string{"; where", " and then"}[min(i, 1)], f.Expr)
			}
			b.WriteByte('\n')
		}
	}
}

func exchangeOf(e *job.Edge) string {
	if e.Exchange == job.Hash {
		return fmt.Sprintf("hash by %s", strings.Join(e.Keys, ", "))
	}
	return string(e.Exchange)
}
