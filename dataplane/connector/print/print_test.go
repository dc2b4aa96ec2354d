package print

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/format/json"
)

var schema = &batch.Schema{Fields: []batch.Field{{Name: "x", Type: batch.Type{Kind: batch.Float64}}}}

func open(t *testing.T, s *Sink) connector.Writer {
	t.Helper()
	w, err := s.Open(t.Context(), connector.WriterConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newSink(out *bytes.Buffer) *Sink {
	return New(Config{Output: out, NewEncoder: func() (format.Encoder, error) { return json.NewEncoder(json.Options{}, schema) }})
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	w := open(t, newSink(&out))
	b := &batch.Batch{Schema: schema, Rows: 4, Cols: []batch.Column{batch.NewColumn(schema.Fields[0].Type, 4)}, Sel: []int32{0, 1, 3}}
	b.Cols[0].Floats = []float64{1, 2, 3, 4}
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b.Change = []batch.Change{batch.Insert, batch.UpdateBefore, batch.UpdateAfter, batch.Delete}
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	want := "{\"x\":1}\n{\"x\":2}\n{\"x\":4}\n{\"x\":1}\n-U {\"x\":2}\n-D {\"x\":4}\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Cols[0].Floats[3] = math.NaN()
	var re *batch.RowError
	if err := w.Write(t.Context(), b); !errors.As(err, &re) || re.Row != 3 {
		t.Errorf("err=%v, want a RowError of row 3", err)
	}
	if got := out.String(); got != want {
		t.Errorf("rows before the bad one were printed: %q", got)
	}
	if txns, err := w.Prepare(checkpoint.Barrier{}).Wait(t.Context()); err != nil || len(txns) != 0 {
		t.Errorf("prepare: %v, %v, want nothing", txns, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Ensure lines of concurrent writers do not mix.
func TestPrintConcurrently(t *testing.T) {
	var out bytes.Buffer
	s := newSink(&out)
	var group sync.WaitGroup
	for range 4 {
		w := open(t, s)
		group.Go(func() {
			b := &batch.Batch{Schema: schema, Rows: 50, Cols: []batch.Column{batch.NewColumn(schema.Fields[0].Type, 50)}}
			for range 20 {
				if err := w.Write(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got, want := strings.Count(out.String(), "{\"x\":0}\n"), 4*50*20; got != want || out.Len() != want*len("{\"x\":0}\n") {
		t.Errorf("%d whole lines in %d bytes, want %d", got, out.Len(), want)
	}
}
