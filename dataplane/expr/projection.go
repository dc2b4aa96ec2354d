package expr

import (
	"errors"

	"github.com/weirstream/weir/dataplane/batch"
)

// Projection computes the columns of a batch from those of another. It belongs to one goroutine.
type Projection struct {
	programs []*Program
	computes bool
}

// NewProjection returns the projection to what programs compute, which it takes over.
func NewProjection(programs []*Program) *Projection {
	p := &Projection{programs: programs}
	for _, prog := range programs {
		_, plain := prog.typed.Column()
		p.computes = p.computes || !plain
	}
	return p
}

// Computes reports whether any output is more than a column of the input, and thus can fail.
func (p *Projection) Computes() bool { return p.computes }

// Eval returns the output columns, b.Rows rows long and computed for the rows sel (nil: all). They belong to
// the caller and may share memory with b. An error of a row is a *batch.RowError.
func (p *Projection) Eval(b *batch.Batch, sel []int32) ([]batch.Column, error) {
	cols := make([]batch.Column, len(p.programs))
	for i, prog := range p.programs {
		col, err := prog.Eval(b, sel)
		if err != nil {
			return nil, err
		}
		cols[i] = col
	}
	return cols, nil
}

// Check evaluates the outputs for the rows sel and forgets them.
func (p *Projection) Check(b *batch.Batch, sel []int32) error {
	for _, prog := range p.programs {
		if _, err := prog.Borrow(b, sel); err != nil {
			return err
		}
	}
	return nil
}

// Sift calls try with parts of rows, in order. Where it fails with a *batch.RowError the part is halved and
// tried again, down to single rows, which are given to bad: k bad rows of n cost about k·log n calls. Any
// other error, and any of bad, ends it.
func Sift(rows []int32, try func(rows []int32) error, bad func(*batch.RowError) error) error {
	if len(rows) == 0 {
		return nil
	}
	err := try(rows)
	var re *batch.RowError
	switch {
	case err == nil || !errors.As(err, &re):
		return err
	case len(rows) == 1:
		return bad(re)
	}
	half := len(rows) / 2
	if err := Sift(rows[:half], try, bad); err != nil {
		return err
	}
	return Sift(rows[half:], try, bad)
}
