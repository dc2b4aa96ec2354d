package expr

import (
	"errors"

	"github.com/weirstream/weir/dataplane/batch"
)

// Reasons why a row cannot be evaluated.
var (
	ErrOverflow     = errors.New("out of range")
	ErrDivideByZero = errors.New("division by zero")
)

// kernel computes one function for a batch. Kernels are stateless and shared by all programs.
type kernel struct {
	run func(f *frame) error
	// nulls says that run may make nulls of its own (frame.null).
	nulls bool
	// lenient kernels get rows with null arguments too; others never see one, and are null there.
	lenient bool
	// views says that results may be views into the arguments (frame.part).
	views bool
}

// frame is one call of a kernel.
type frame struct {
	// rows are the rows to compute, ascending. If dense is set they are 0…n−1.
	rows  []int32
	dense bool
	n     int // physical rows of the batch
	in    []*batch.Column
	out   *batch.Column
	// base[i] is where the buffers of in[i] begin in out.Bufs, for kernels with views.
	base []int32
	buf  []byte // scratch for building one value
}

// rowFailure is a row that a kernel cannot compute.
type rowFailure struct {
	row int32
	err error
}

func (e *rowFailure) Error() string { return e.err.Error() }

// null makes row r of the result null.
func (f *frame) null(r int32) { f.out.SetNull(int(r), f.n) }

// part makes row r of the result the bytes [from, to) of argument i, shared with it.
func (f *frame) part(r int32, i, from, to int) {
	v := f.in[i].Views[r]
	w := batch.MakeView(f.in[i].Bytes(int(r))[from:to], int(v.Buf+f.base[i]), int(v.Off)+from)
	f.out.Views[r] = w
}

// first returns the failure of the first row for which bad holds.
func (f *frame) first(err error, bad func(r int32) bool) error {
	for _, r := range f.rows {
		if bad(r) {
			return &rowFailure{r, err}
		}
	}
	return nil
}

// each makes a kernel's run of a function of one row. For functions whose work outweighs the call.
func each(row func(f *frame, r int32) error) func(*frame) error {
	return func(f *frame) error {
		for _, r := range f.rows {
			if err := row(f, r); err != nil {
				return &rowFailure{r, err}
			}
		}
		return nil
	}
}

// eachOrNull is each with null for a row that fails: TRY_CAST.
func eachOrNull(row func(f *frame, r int32) error) func(*frame) error {
	return func(f *frame) error {
		for _, r := range f.rows {
			if row(f, r) != nil {
				f.null(r)
			}
		}
		return nil
	}
}
