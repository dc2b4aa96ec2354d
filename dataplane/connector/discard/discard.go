// Package discard is a sink that reads everything and keeps nothing. It reads every column of every row that
// reaches it, so that a benchmark that ends in it has paid for its columns.
package discard

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
)

// Sink implements connector.Sink. It is safe for concurrent use.
type Sink struct {
	rows     atomic.Int64
	checksum atomic.Uint64
}

var _ connector.Sink = (*Sink)(nil)

// New returns a sink.
func New() *Sink { return &Sink{} }

// Rows is the number of rows that the writers of this process have discarded.
func (s *Sink) Rows() int64 { return s.rows.Load() }

// Checksum is a sum over all values that were read: the same for the same rows in any order. It is no digest; it
// keeps the compiler from dropping the reading, and tells runs apart that cannot have had the same rows.
func (s *Sink) Checksum() uint64 { return s.checksum.Load() }

// Open implements connector.Sink.
func (s *Sink) Open(context.Context, connector.WriterConfig) (connector.Writer, error) {
	return &writer{s}, nil
}

type writer struct{ sink *Sink }

// Write implements connector.Writer.
func (w *writer) Write(_ context.Context, b *batch.Batch) error {
	sum := uint64(0)
	for c := range b.Cols {
		sum += read(&b.Cols[c], b)
	}
	w.sink.checksum.Add(sum)
	w.sink.rows.Add(int64(b.Len()))
	return nil
}

// read sums the values of c's logical rows. Of a string it reads the length and the ends.
func read(c *batch.Column, b *batch.Batch) (sum uint64) {
	var value func(row int) uint64
	switch kind := c.Type.Kind; {
	case c.Type.IsInt64():
		return readInts(c, b)
	case c.Type.IsView():
		return readBytes(c, b)
	case kind == batch.Float64:
		value = func(row int) uint64 { return math.Float64bits(c.Floats[row]) }
	case kind == batch.Decimal:
		value = func(row int) uint64 { return c.Decs[row].Lo + uint64(c.Decs[row].Hi)*31 }
	default:
		value = func(row int) uint64 {
			if c.Bools.Get(row) {
				return 3
			}
			return 0
		}
	}
	for i := range b.Len() {
		if row := b.Row(i); c.Null(row) {
			sum++
		} else {
			sum += value(row)
		}
	}
	return sum
}

// readInts is read for integers and times.
func readInts(c *batch.Column, b *batch.Batch) (sum uint64) {
	if c.Valid == nil && b.Sel == nil {
		for _, v := range c.Ints[:b.Rows] {
			sum += uint64(v)
		}
		return sum
	}
	for i := range b.Len() {
		if row := b.Row(i); c.Null(row) {
			sum++
		} else {
			sum += uint64(c.Ints[row])
		}
	}
	return sum
}

// readBytes is read for strings and bytes.
func readBytes(c *batch.Column, b *batch.Batch) (sum uint64) {
	for i := range b.Len() {
		row := b.Row(i)
		if c.Null(row) {
			sum++
			continue
		}
		if v := c.Bytes(row); len(v) > 0 {
			sum += uint64(len(v))<<16 | uint64(v[0])<<8 | uint64(v[len(v)-1])
		}
	}
	return sum
}

// Prepare implements connector.Writer: there is nothing to commit.
func (w *writer) Prepare(checkpoint.Barrier) connector.Prepared { return nothing{} }

// Close implements connector.Writer.
func (w *writer) Close(context.Context) error { return nil }

type nothing struct{}

// Wait implements connector.Prepared.
func (nothing) Wait(context.Context) ([]checkpoint.Transaction, error) { return nil, nil }
