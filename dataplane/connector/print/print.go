// Package print is a sink that writes rows as lines of text, for people: the encoded row, after its kind of
// change (-U, +U, -D) unless it is an insert.
package print

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
)

// Config is what a sink needs.
type Config struct {
	// Output receives the lines; nil is os.Stdout. Its writes are serialised within the sink, and each has
	// only whole lines.
	Output io.Writer
	// NewEncoder returns an encoder for one writer.
	NewEncoder func() (format.Encoder, error)
}

// Sink implements connector.Sink. It is safe for concurrent use.
type Sink struct {
	cfg Config
	mu  sync.Mutex // serialises Output
}

var _ connector.Sink = (*Sink)(nil)

// New returns a sink.
func New(cfg Config) *Sink {
	if cfg.Output == nil {
		cfg.Output = os.Stdout
	}
	return &Sink{cfg: cfg}
}

// Open implements connector.Sink.
func (s *Sink) Open(context.Context, connector.WriterConfig) (connector.Writer, error) {
	e, err := s.cfg.NewEncoder()
	if err != nil {
		return nil, fmt.Errorf("print: open: %w", err)
	}
	return &writer{sink: s, encoder: e}, nil
}

type writer struct {
	sink    *Sink
	encoder format.Encoder
	encoded format.Encoded
	lines   []byte
	cols    []int
}

// Write implements connector.Writer. If a row cannot be encoded nothing of b is printed.
func (w *writer) Write(_ context.Context, b *batch.Batch) error {
	for len(w.cols) < len(b.Cols) {
		w.cols = append(w.cols, len(w.cols))
	}
	w.encoded.Reset()
	if err := w.encoder.Encode(&w.encoded, b, w.cols[:len(b.Cols)]); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	w.lines = w.lines[:0]
	for i := range b.Len() {
		if c := b.ChangeAt(b.Row(i)); c != batch.Insert {
			w.lines = append(append(w.lines, c.String()...), ' ')
		}
		w.lines = append(append(w.lines, w.encoded.At(i)...), '\n')
	}
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if _, err := w.sink.cfg.Output.Write(w.lines); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Prepare implements connector.Writer: what was written is printed already, there is nothing to commit.
func (w *writer) Prepare(checkpoint.Barrier) connector.Prepared { return nothing{} }

// Close implements connector.Writer.
func (w *writer) Close(context.Context) error { return nil }

type nothing struct{}

// Wait implements connector.Prepared.
func (nothing) Wait(context.Context) ([]checkpoint.Transaction, error) { return nil, nil }
