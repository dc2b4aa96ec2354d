package accumulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/operator"
)

// Shape is what an aggregating operator reads and puts out; its operators embed it in their configuration.
// Programs belong to one instance.
type Shape struct {
	// Keys are the key columns of the input; none: one key.
	Keys []int
	// Hashed says that batch.Batch.Hash of the input, where it is set, is the hash of just Keys.
	Hashed bool
	Calls  []Call
	// Mid is the schema that Columns are evaluated over: the keys in the order of Keys, the columns that the
	// operator adds (a window's start and end), the results of Calls.
	Mid *batch.Schema
	// Columns are parallel to Out.Fields. A program that is just a column costs nothing.
	Columns []*expr.Program
	Out     *batch.Schema
	// Divert takes a row of the input or of Mid (a result that overflows) that cannot be evaluated, if the
	// policy is operator.Divert. It is called on the subtask's goroutine and must not keep b.
	Divert func(b *batch.Batch, row int, err error) error
}

// Core is the part of an aggregating operator that does not depend on where entries live.
type Core struct {
	Set     *Set
	Grouper *Grouper
	shape   *Shape
	env     *operator.Env
	proj    *expr.Projection
	all     []int32
	good    []int32
	errs    []*batch.RowError
}

// NewCore checks the shape; added is the number of columns of Mid between keys and results.
func NewCore(s *Shape, added int) (*Core, error) {
	set, err := New(s.Calls)
	if err != nil {
		return nil, err
	}
	if want := len(s.Keys) + added + len(s.Calls); len(s.Mid.Fields) != want {
		return nil, fmt.Errorf("accumulate: the results' schema has %d columns, want %d", len(s.Mid.Fields), want)
	}
	if len(s.Columns) != len(s.Out.Fields) {
		return nil, fmt.Errorf("accumulate: %d columns for a schema of %d", len(s.Columns), len(s.Out.Fields))
	}
	return &Core{Set: set, Grouper: NewGrouper(s.Keys, s.Hashed), shape: s, proj: expr.NewProjection(s.Columns)}, nil
}

// Open tells the core its surroundings.
func (c *Core) Open(env *operator.Env) error {
	if env.State == nil {
		return errors.New("an aggregate needs keyed state")
	}
	if env.OnError == operator.Divert && c.shape.Divert == nil {
		return errors.New("on_error is divert, but nothing takes the rows")
	}
	c.env = env
	return nil
}

// Accept checks that b consists of inserts, as the planner has promised.
func (c *Core) Accept(b *batch.Batch) error {
	if b.Change == nil {
		return nil
	}
	for i := range b.Len() {
		if ch := b.Change[b.Row(i)]; ch != batch.Insert {
			return fmt.Errorf("an aggregate of inserts got a %s row", ch)
		}
	}
	return nil
}

// Prepare is Set.Prepare by the policy for bad rows: it returns the rows that are left, which may be rows
// itself or memory that is valid until the next call.
func (c *Core) Prepare(b *batch.Batch, rows []int32) ([]int32, error) {
	err := c.Set.Prepare(b, rows)
	if err == nil || c.env.OnError == operator.Fail {
		return rows, err
	}
	c.good = c.good[:0]
	err = expr.Sift(rows, func(part []int32) error {
		err := c.Set.Prepare(b, part)
		if err == nil {
			c.good = append(c.good, part...)
		}
		return err
	}, func(e *batch.RowError) error { return c.bad(b, e) })
	if err != nil || len(c.good) == 0 {
		return c.good, err
	}
	return c.good, c.Set.Prepare(b, c.good)
}

func (c *Core) bad(b *batch.Batch, e *batch.RowError) error {
	c.env.Counters.Skipped.Add(1)
	if c.env.OnError == operator.Divert {
		return c.shape.Divert(b, e.Row, e)
	}
	return nil
}

// Finish returns the batch to emit for the rows of mid, whose columns are complete but for the results: it
// appends those of src and evaluates the columns. It returns nil if no row is left.
func (c *Core) Finish(mid *batch.Batch, src Source) (*batch.Batch, error) {
	c.errs = c.errs[:0]
	mid.Cols = c.Set.Results(mid.Cols, src, func(e *batch.RowError) { c.errs = append(c.errs, e) })
	sel, err := c.finishable(mid)
	if err != nil || sel != nil && len(sel) == 0 {
		return nil, err
	}
	cols, err := c.proj.Eval(mid, sel)
	if err != nil {
		return nil, err
	}
	out := &batch.Batch{
		Schema: c.shape.Out, Rows: mid.Rows, Cols: cols, Change: mid.Change, Sel: slices.Clone(sel), Watermark: batch.NoWatermark,
	}
	if c.shape.Out.HasTime {
		out.Time = mid.Time
	}
	return out, nil
}

// finishable deals with the results that do not exist and the columns that cannot be evaluated, and returns
// the other rows; nil means all.
func (c *Core) finishable(mid *batch.Batch) ([]int32, error) {
	if c.env.OnError == operator.Fail {
		if len(c.errs) > 0 {
			return nil, c.errs[0]
		}
		return nil, nil
	}
	if len(c.errs) == 0 && !c.proj.Computes() {
		return nil, nil
	}
	rows := batch.AllRows(mid, nil)
	slices.SortStableFunc(c.errs, func(a, b *batch.RowError) int { return a.Row - b.Row })
	for i, e := range c.errs {
		if i > 0 && c.errs[i-1].Row == e.Row {
			continue
		}
		rows = slices.DeleteFunc(rows, func(r int32) bool { return int(r) == e.Row })
		if err := c.bad(mid, e); err != nil {
			return nil, err
		}
	}
	good := make([]int32, 0, len(rows))
	err := expr.Sift(rows, func(part []int32) error {
		err := c.proj.Check(mid, part)
		if err == nil {
			good = append(good, part...)
		}
		return err
	}, func(e *batch.RowError) error { return c.bad(mid, e) })
	if len(good) == mid.Rows {
		return nil, err
	}
	return good, err
}

// GatherKeys returns the key columns of the rows of b.
func (c *Core) GatherKeys(b *batch.Batch, rows []int32) []batch.Column {
	s := &batch.Schema{}
	src := &batch.Batch{Rows: b.Rows}
	for i, k := range c.shape.Keys {
		s.Fields = append(s.Fields, c.shape.Mid.Fields[i])
		src.Cols = append(src.Cols, b.Cols[k])
	}
	if len(s.Fields) == 0 {
		return nil
	}
	src.Schema = s
	g := batch.NewBuilder(s)
	g.Gather(src, rows)
	return g.Finish(batch.NoWatermark, false).Cols
}

// Rows is the list of b's logical rows, valid until the next call.
func (c *Core) Rows(b *batch.Batch) []int32 {
	if b.Sel != nil {
		return b.Sel
	}
	c.all = batch.AllRows(b, c.all)
	return c.all
}
