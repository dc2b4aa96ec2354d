package batch

import (
	"math"

	"github.com/weirstream/weir/dataplane/checkpoint"
)

// NoWatermark is the watermark before any is known; MaxWatermark ends event time.
const (
	NoWatermark  = math.MinInt64
	MaxWatermark = math.MaxInt64
)

// Change says what a row does to the table that a stream stands for.
type Change uint8

// The changes, with Flink's names: +I, −U (the old row), +U (the new row), −D.
const (
	Insert Change = iota
	UpdateBefore
	UpdateAfter
	Delete
)

// String returns +I, -U, +U or -D.
func (c Change) String() string { return [...]string{"+I", "-U", "+U", "-D"}[c] }

// Batch is a columnar run of rows. Physical row indices are [0, Rows); if Sel is set only the rows that it
// lists, in its order, exist logically.
type Batch struct {
	Schema *Schema
	// Rows is the number of physical rows: the length of every column.
	Rows int
	Cols []Column
	// Time is the event time of each physical row in µs; nil when the schema has none.
	Time []int64
	// Change is the kind of change of each physical row; nil means all are inserts.
	Change []Change
	// Sel lists the logical rows, ascending; nil means all.
	Sel []int32
	// Hash is the hash of each physical row's key, where the planner asked for it; else nil.
	Hash []uint64
	// Watermark holds after these rows: no later row has a time at or before it. NoWatermark says nothing.
	Watermark int64
	// Idle says that after these rows the sender has nothing to say about event time until its next batch.
	Idle bool
}

// Len is the number of logical rows.
func (b *Batch) Len() int {
	if b.Sel != nil {
		return len(b.Sel)
	}
	return b.Rows
}

// Row maps the i-th logical row to its physical index.
func (b *Batch) Row(i int) int {
	if b.Sel != nil {
		return int(b.Sel[i])
	}
	return i
}

// ChangeAt is the change of physical row i.
func (b *Batch) ChangeAt(i int) Change {
	if b.Change == nil {
		return Insert
	}
	return b.Change[i]
}

// WatermarkOnly returns an empty batch that carries a lone watermark.
func WatermarkOnly(s *Schema, wm int64, idle bool) *Batch {
	return &Batch{Schema: s, Watermark: wm, Idle: idle, Cols: emptyColumns(s)}
}

func emptyColumns(s *Schema) []Column {
	cols := make([]Column, len(s.Fields))
	for i := range cols {
		cols[i].Type = s.Fields[i].Type
	}
	return cols
}

// ElementKind tells the elements of a channel apart.
type ElementKind uint8

// The elements of a channel, in order with each other.
const (
	BatchElement ElementKind = iota
	BarrierElement
	EndElement // nothing follows but barriers
)

// Element is what travels through a channel.
type Element struct {
	Kind    ElementKind
	Batch   *Batch              // BatchElement
	Barrier *checkpoint.Barrier // BarrierElement
}

// Predicate selects rows. It is declared here so that formats can evaluate it while they decode, and is
// implemented by compiled expressions. Not safe for concurrent use: each subtask has its own.
type Predicate interface {
	// Select appends to dst the rows of sel (nil: all physical rows) for which the predicate is true (not
	// false, not null) and returns dst. A row that cannot be evaluated is a *RowError.
	Select(b *Batch, sel, dst []int32) ([]int32, error)
}

// RowError says that one row cannot be evaluated, encoded or stored: overflow, division by zero, bad cast.
type RowError struct {
	Row   int    // physical row
	Place string // where in the job: the step, the column, the position in the expression
	Err   error
}

// Error implements error.
func (e *RowError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }
