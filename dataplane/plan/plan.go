package plan

import (
	"github.com/weirstream/weir/config"
)

// New plans a parsed job. The error is a config.Problems with every mistake.
func New(j *config.Job) (*Plan, error) {
	p := &planner{job: j, byName: map[string]*relation{}, busy: map[string]bool{}}
	for i := range j.Sources {
		p.source(&j.Sources[i])
	}
	for i := range j.Steps {
		p.step(&j.Steps[i])
	}
	for i := range j.Sinks {
		p.sink(&j.Sinks[i])
	}
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
