package discard

import (
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
)

// newBatch has three rows of every type.
func newBatch() *batch.Batch {
	s := &batch.Schema{}
	b := &batch.Batch{Rows: 3, Schema: s}
	for k := batch.Bool; k <= batch.Bytes; k++ {
		s.Fields = append(s.Fields, batch.Field{Name: "c", Type: batch.Type{Kind: k}})
		b.Cols = append(b.Cols, batch.NewColumn(batch.Type{Kind: k}, 3))
	}
	return b
}

func write(t testing.TB, b *batch.Batch) *Sink {
	t.Helper()
	s := New()
	w, err := s.Open(t.Context(), connector.WriterConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if txns, err := w.Prepare(checkpoint.Barrier{}).Wait(t.Context()); err != nil || len(txns) != 0 {
		t.Fatalf("prepare: %v, %v, want nothing", txns, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Ensure each column of each logical row is read: changing any value changes the checksum, those of rows that are
// not selected do not.
func TestReadsEverything(t *testing.T) {
	base := write(t, newBatch()).Checksum()
	for c := range newBatch().Cols {
		for row := range 3 {
			b := newBatch()
			set(&b.Cols[c], row)
			if write(t, b).Checksum() == base {
				t.Errorf("%s at row %d was not read", b.Cols[c].Type, row)
			}
			b.Sel = []int32{}
			for other := range 3 {
				if other != row {
					b.Sel = append(b.Sel, int32(other))
				}
			}
			plain := newBatch()
			plain.Sel = b.Sel
			if s := write(t, b); s.Checksum() != write(t, plain).Checksum() || s.Rows() != 2 {
				t.Errorf("%s at row %d was read although it is not selected", b.Cols[c].Type, row)
			}
		}
	}
}

func set(c *batch.Column, row int) {
	switch {
	case c.Type.IsInt64():
		c.Ints[row] = 7
	case c.Type.IsView():
		c.SetBytes(row, []byte("some text that is not inline"))
	case c.Type.Kind == batch.Float64:
		c.Floats[row] = 0.5
	case c.Type.Kind == batch.Decimal:
		c.Decs[row].Hi = 1
	default:
		c.Bools.Set(row)
	}
}

func TestRows(t *testing.T) {
	if got := write(t, newBatch()).Rows(); got != 3 {
		t.Errorf("rows=%d, want 3", got)
	}
}
