package plan

import (
	"github.com/weirstream/weir/config"
)

// Parse reads and plans a job spec; name is what the document is called in messages, params are values for the
// spec's params. The error is a config.Problems with every mistake: those of the spec's shape, and those of columns
// and expressions wherever mistakes of the shape leave enough to tell.
func Parse(name string, spec []byte, params map[string]string) (*Plan, error) {
	j, problems := config.ReadJob(name, spec, params)
	if len(problems) == 0 {
		return New(j)
	}
	if j != nil && !flaws(problems).at("params") { // a param may be anything, anywhere
		p := newPlanner(j, flaws(problems))
		p.logical()
		for _, m := range p.problems {
			problems.Add(m.Place(), m.Message, m.Hint)
		}
	}
	return nil, problems.Err()
}

// New plans a parsed job. The error is a config.Problems with every mistake.
func New(j *config.Job) (*Plan, error) {
	p := newPlanner(j, nil)
	p.logical()
	if err := p.problems.Err(); err != nil {
		return nil, err
	}
	p.lower()
	p.need()
	b := newBuilder(p)
	if err := b.build(); err != nil {
		return nil, err
	}
	b.plan.Warnings = p.warnings
	return b.plan, nil
}
