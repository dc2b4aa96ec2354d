// Package operatortest runs one instance of an operator in a test: it makes batches of Go values, collects
// what is emitted as text, and takes and restores checkpoints.
package operatortest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/state"
)

// Store is where checkpoints go, such as statetest.Store.
type Store interface {
	state.Uploader
	state.Downloader
}

// Setup says how to start an operator.
type Setup struct {
	New func() (operator.Operator, error)
	// State opens the keyed state; nil for operators without.
	State   func(state.Config) (state.Backend, error)
	Store   Store
	OnError operator.OnError
	// Index and Parallelism place the subtask; zero Parallelism is one subtask.
	Index, Parallelism int
}

const maxParallelism = 128

// Run is a running operator. It belongs to the test's goroutine.
type Run struct {
	Counters *operator.Counters

	t     testing.TB
	setup Setup
	op    operator.Operator
	back  state.Backend
	out   collector
	next  job.CheckpointID
}

// Checkpoint is the state of one or more subtasks of an operator.
type Checkpoint struct{ states []checkpoint.OperatorState }

// Join is the checkpoint of several subtasks.
func Join(parts ...Checkpoint) (all Checkpoint) {
	for _, p := range parts {
		all.states = append(all.states, p.states...)
	}
	return all
}

// Start opens the operator, with the state of from if that is not nil.
func Start(t testing.TB, s Setup, from *Checkpoint) *Run {
	t.Helper()
	r := &Run{t: t, setup: s, Counters: new(operator.Counters), next: 1}
	var err error
	if r.op, err = s.New(); err != nil {
		t.Fatalf("new: %v", err)
	}
	p := max(1, s.Parallelism)
	env := &operator.Env{
		UID: "step", Index: s.Index, Parallelism: p, MaxParallelism: maxParallelism,
		KeyRange: job.RangeOf(s.Index, p, maxParallelism), Counters: r.Counters, OnError: s.OnError,
	}
	if s.State != nil {
		if r.back, err = s.State(state.Config{Dir: t.TempDir(), KeyRange: env.KeyRange, MaxParallelism: maxParallelism, CacheBytes: 64 << 20}); err != nil {
			t.Fatalf("open state: %v", err)
		}
		env.State = r.back
	}
	if err := r.op.Open(t.Context(), env, &r.out); err != nil {
		t.Fatalf("open: %v", err)
	}
	if from != nil {
		r.restore(from)
	}
	t.Cleanup(r.close)
	return r
}

func (r *Run) restore(from *Checkpoint) {
	r.t.Helper()
	var inline, files []checkpoint.OperatorState
	for _, s := range from.states {
		if s.Inline != nil {
			inline = append(inline, s)
		} else {
			files = append(files, s)
		}
	}
	if res, ok := r.back.(state.Restorer); ok {
		if err := res.Restore(r.t.Context(), files, r.setup.Store); err != nil {
			r.t.Fatalf("restore state: %v", err)
		}
	}
	if err := r.op.Restore(inline); err != nil {
		r.t.Fatalf("restore: %v", err)
	}
}

func (r *Run) close() {
	if err := r.op.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	if r.back != nil {
		if err := r.back.Close(); err != nil {
			r.t.Errorf("close state: %v", err)
		}
	}
}

// Process gives the operator a batch and returns its error.
func (r *Run) Process(b *batch.Batch) error {
	err := r.op.Process(0, b)
	if err == nil && r.back != nil {
		err = r.back.EndBatch()
	}
	return err
}

// Must gives the operator a batch that it takes without an error.
func (r *Run) Must(b *batch.Batch) {
	r.t.Helper()
	if err := r.Process(b); err != nil {
		r.t.Fatalf("process: %v", err)
	}
}

// End ends the input.
func (r *Run) End() {
	r.t.Helper()
	if err := r.op.End(); err != nil {
		r.t.Fatalf("end: %v", err)
	}
}

// Checkpoint freezes the operator and persists its state.
func (r *Run) Checkpoint() Checkpoint {
	r.t.Helper()
	var c Checkpoint
	if f := r.op.Freeze(); f != nil {
		inline, err := f.Inline()
		if err != nil {
			r.t.Fatalf("inline state: %v", err)
		}
		c.states = append(c.states, checkpoint.OperatorState{Operator: "step", Subtask: r.setup.Index, Inline: inline})
	}
	if r.back != nil {
		c.states = append(c.states, r.persist())
	}
	r.next++
	return c
}

// persist writes the frozen content while the owner pays for the copies, as a subtask does.
func (r *Run) persist() checkpoint.OperatorState {
	r.t.Helper()
	f, err := r.back.Freeze(r.next)
	if err != nil {
		r.t.Fatalf("freeze: %v", err)
	}
	type result struct {
		s   checkpoint.OperatorState
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := f.Persist(context.WithoutCancel(r.t.Context()), r.setup.Store)
		done <- result{s, err}
	}()
	for {
		pending, ok := r.back.(state.Pending)
		if ok && pending.Pending() {
			if err := r.back.EndBatch(); err != nil {
				r.t.Fatalf("end batch: %v", err)
			}
			continue
		}
		res := <-done
		if res.err != nil {
			r.t.Fatalf("persist: %v", res.err)
		}
		return res.s
	}
}

// Rows returns the rows emitted since the last call: "+I value value @time", in order. Text is quoted, the
// time left out where there is none.
func (r *Run) Rows() []string {
	var rows []string
	for _, b := range r.out.batches {
		rows = append(rows, Text(b)...)
	}
	r.out.batches = nil
	return rows
}

// Batches returns the batches emitted since the last call, those without rows included.
func (r *Run) Batches() []*batch.Batch {
	b := r.out.batches
	r.out.batches = nil
	return b
}

// Watermark is the last watermark emitted, batch.NoWatermark if there was none.
func (r *Run) Watermark() int64 {
	if !r.out.any {
		return batch.NoWatermark
	}
	return r.out.watermark
}

// Violation is a row that was emitted behind a watermark which had promised that no such row would come; nil
// if there was none.
func (r *Run) Violation() error { return r.out.violation }

// collector implements operator.Output.
type collector struct {
	batches   []*batch.Batch
	any       bool
	watermark int64
	violation error
}

// Emit implements operator.Output.
func (c *collector) Emit(b *batch.Batch) error {
	for i := range b.Len() {
		if b.Time != nil && c.any && b.Time[b.Row(i)] <= c.watermark && c.violation == nil {
			c.violation = fmt.Errorf("a row at %d came after watermark %d", b.Time[b.Row(i)], c.watermark)
		}
	}
	if b.Watermark != batch.NoWatermark {
		c.any, c.watermark = true, b.Watermark
	}
	c.batches = append(c.batches, b)
	return nil
}

// Text is the logical rows of b as Run.Rows writes them.
func Text(b *batch.Batch) []string {
	var rows []string
	for i := range b.Len() {
		r := b.Row(i)
		var s strings.Builder
		s.WriteString(b.ChangeAt(r).String())
		for c := range b.Cols {
			s.WriteByte(' ')
			s.WriteString(value(&b.Cols[c], r))
		}
		if b.Time != nil {
			fmt.Fprintf(&s, " @%d", b.Time[r])
		}
		rows = append(rows, s.String())
	}
	return rows
}

func value(c *batch.Column, r int) string {
	if c.Null(r) {
		return "null"
	}
	switch c.Type.Kind {
	case batch.Bool:
		return strconv.FormatBool(c.Bools.Get(r))
	case batch.Float64:
		return strconv.FormatFloat(c.Floats[r], 'g', -1, 64)
	case batch.Decimal:
		return c.Decs[r].Text(c.Type.Scale)
	case batch.String, batch.Bytes:
		return strconv.Quote(c.Text(r))
	}
	return strconv.FormatInt(c.Ints[r], 10)
}

// Row is a row to process: its event time and a value per column: nil, bool, int, float64, string (of a
// decimal column: its text).
type Row struct {
	Time   int64
	Values []any
}

// At makes a Row.
func At(time int64, values ...any) Row { return Row{time, values} }

// Batch makes a batch of rows.
func Batch(t testing.TB, s *batch.Schema, watermark int64, rows ...Row) *batch.Batch {
	t.Helper()
	n := len(rows)
	b := &batch.Batch{Schema: s, Rows: n, Watermark: watermark}
	for c, f := range s.Fields {
		col := batch.NewColumn(f.Type, n)
		for i, r := range rows {
			if err := set(&col, i, n, r.Values[c]); err != nil {
				t.Fatalf("row %d, column %s: %v", i, f.Name, err)
			}
		}
		b.Cols = append(b.Cols, col)
	}
	if s.HasTime {
		b.Time = make([]int64, n)
		for i, r := range rows {
			b.Time[i] = r.Time
		}
	}
	return b
}

func set(c *batch.Column, i, n int, v any) error {
	switch v := v.(type) {
	case nil:
		c.SetNull(i, n)
	case bool:
		c.Bools.SetTo(i, v)
	case int:
		c.Ints[i] = int64(v)
	case int64:
		c.Ints[i] = v
	case float64:
		c.Floats[i] = v
	case string:
		if c.Type.Kind == batch.Decimal {
			d, err := batch.ParseDecimal(v, c.Type.Precision, c.Type.Scale)
			c.Decs[i] = d
			return err
		}
		c.SetBytes(i, []byte(v))
	default:
		return fmt.Errorf("cannot store a %T", v)
	}
	return nil
}

// Program compiles an expression over the columns of s.
func Program(t testing.TB, s *batch.Schema, src string) *expr.Program {
	t.Helper()
	n, err := expr.Parse(src)
	if err != nil {
		t.Fatalf("parse %q: %v", src, err)
	}
	typed, err := expr.Bind(n, expr.SchemaScope(s))
	if err != nil {
		t.Fatalf("bind %q: %v", src, err)
	}
	p, err := expr.Compile(typed, nil)
	if err != nil {
		t.Fatalf("compile %q: %v", src, err)
	}
	return p
}

// Predicate compiles a condition over the columns of s.
func Predicate(t testing.TB, s *batch.Schema, src string) *expr.Predicate {
	t.Helper()
	q, err := expr.NewPredicate(Program(t, s, src))
	if err != nil {
		t.Fatalf("predicate %q: %v", src, err)
	}
	return q
}
