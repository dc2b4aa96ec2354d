package files

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
)

// SinkConfig is what a sink needs.
type SinkConfig struct {
	// Dir is the directory of the parts, on storage that all nodes share. It is made if it is missing.
	Dir string
	// NewEncoder returns an encoder for one writer. Its values become lines, so they must have no line breaks.
	NewEncoder func() (format.Encoder, error)
	// Resource is carried in the transactions, for whoever looks for their committer.
	Resource string
}

// Sink writes part files exactly once. It implements connector.Sink and is safe for concurrent use.
type Sink struct{ cfg SinkConfig }

var _ connector.Sink = (*Sink)(nil)

// NewSink returns a sink.
func NewSink(cfg SinkConfig) *Sink { return &Sink{cfg: cfg} }

// Open implements connector.Sink. The first subtask removes the markers of lower attempts: they are decided and
// recorded before a new attempt runs.
func (s *Sink) Open(_ context.Context, cfg connector.WriterConfig) (connector.Writer, error) {
	if err := checkUID(cfg.Ref.UID); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("files: open sink %s: %w", cfg.Operator, classify(err))
	}
	e, err := s.cfg.NewEncoder()
	if err != nil {
		return nil, fmt.Errorf("files: open sink %s: %w", cfg.Operator, err)
	}
	w := &writer{
		dir: directory(s.cfg.Dir), resource: s.cfg.Resource, encoder: e, failed: cfg.Failed,
		part: part{uid: cfg.Ref.UID, sink: cfg.Operator, subtask: cfg.Index, attempt: cfg.Ref.Attempt},
	}
	if cfg.Index == 0 {
		if err := w.sweep(); err != nil {
			return nil, fmt.Errorf("files: open sink %s: remove old markers: %w", cfg.Operator, classify(err))
		}
	}
	return w, nil
}

// writer is one subtask. Its background goroutines only touch the part that they are given.
type writer struct {
	dir      directory
	resource string
	encoder  format.Encoder
	encoded  format.Encoded
	cols     []int
	part     part // number counts the parts begun

	current *current
	// pending are the prepared parts that are not known to be committed, oldest first.
	pending []*prepared
	failed  func(error)
	once    sync.Once
	flushes sync.WaitGroup
}

// current is the part that is being written.
type current struct {
	part    part
	file    *os.File
	buf     []byte
	size    int64
	records int64
	begun   time.Time
}

// prepared is a part that is being made durable. err is valid once done is closed.
type prepared struct {
	part part
	txn  checkpoint.Transaction
	done chan struct{}
	err  error
}

// bufferSize is how much is collected before it is written to the file.
const bufferSize = 1 << 18

// Write implements connector.Writer. If a row cannot be encoded nothing of b is written.
func (w *writer) Write(_ context.Context, b *batch.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	for len(w.cols) < len(b.Cols) {
		w.cols = append(w.cols, len(w.cols))
	}
	w.encoded.Reset()
	if err := w.encoder.Encode(&w.encoded, b, w.cols[:len(b.Cols)]); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	if w.current == nil {
		if err := w.begin(); err != nil {
			return fmt.Errorf("files: begin part: %w", classify(err))
		}
	}
	c := w.current
	for i := range w.encoded.Ends {
		c.buf = append(append(c.buf, w.encoded.At(i)...), '\n')
	}
	c.records += int64(b.Len())
	if len(c.buf) < bufferSize {
		return nil
	}
	return c.flush()
}

func (w *writer) begin() error {
	w.part.number++
	f, err := os.OpenFile(w.dir.open(w.part), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w.current = &current{part: w.part, file: f, begun: time.Now()}
	return nil
}

func (c *current) flush() error {
	n, err := c.file.Write(c.buf)
	c.size += int64(n)
	c.buf = c.buf[:0]
	if err != nil {
		return fmt.Errorf("files: write %s: %w", c.file.Name(), err)
	}
	return nil
}

// Prepare implements connector.Writer. The part is made durable in the background.
func (w *writer) Prepare(b checkpoint.Barrier) connector.Prepared {
	var forget []part
	kept := w.pending[:0]
	for _, p := range w.pending {
		if p.txn.Checkpoint <= b.Committed {
			forget = append(forget, p.part)
		} else {
			kept = append(kept, p)
		}
	}
	w.pending = kept
	if c := w.current; c != nil {
		w.current = nil
		p := &prepared{part: c.part, done: make(chan struct{})}
		p.part.number = int64(b.ID)
		p.txn = p.part.transaction(p.part.name())
		p.txn.Resource, p.txn.BeginUnixMs, p.txn.Records = w.resource, c.begun.UnixMilli(), c.records
		w.pending = append(w.pending, p)
		w.flushes.Go(func() {
			defer close(p.done)
			if p.err = p.finish(w.dir, c); p.err != nil {
				w.fail(p.err)
			}
		})
	}
	if forget != nil {
		w.flushes.Go(func() { w.forget(forget) })
	}
	return waiter{append([]*prepared(nil), w.pending...)}
}

// finish makes the part durable under its prepared name and completes its transaction.
func (p *prepared) finish(dir directory, c *current) error {
	if err := c.flush(); err != nil {
		_ = c.file.Close() // the write's error says more
		return err
	}
	if err := c.file.Sync(); err != nil {
		_ = c.file.Close() // the sync's error says more
		return fmt.Errorf("files: sync %s: %w", c.file.Name(), err)
	}
	if err := c.file.Close(); err != nil {
		return fmt.Errorf("files: close: %w", err)
	}
	if err := os.Rename(dir.open(c.part), dir.prepared(p.part)); err != nil {
		return fmt.Errorf("files: prepare: %w", classify(err))
	}
	if err := dir.sync(); err != nil {
		return fmt.Errorf("files: sync directory: %w", err)
	}
	d, err := json.Marshal(data{Size: c.size})
	if err != nil {
		return fmt.Errorf("files: prepare: %w", err)
	}
	p.txn.Data = d
	return nil
}

func (w *writer) fail(err error) {
	w.once.Do(func() {
		if w.failed != nil {
			w.failed(err)
		}
	})
}

// forget removes the markers of parts whose commit is recorded. What it leaves behind the next attempt removes.
func (w *writer) forget(parts []part) {
	for _, p := range parts {
		_ = os.Remove(w.dir.marker(p))
	}
}

// sweep removes the markers of the sink's lower attempts.
func (w *writer) sweep() error {
	found, err := w.dir.list(w.part.uid, markerSuffix)
	if err != nil {
		return err
	}
	var old []part
	for _, p := range found[markerSuffix] {
		if p.sink == w.part.sink && p.attempt < w.part.attempt {
			old = append(old, p)
		}
	}
	w.forget(old)
	return nil
}

// Close implements connector.Writer.
func (w *writer) Close(ctx context.Context) error {
	flushed := make(chan struct{})
	go func() {
		w.flushes.Wait()
		close(flushed)
	}()
	var err error
	if c := w.current; c != nil {
		w.current = nil
		_ = c.file.Close() // its content is not wanted
		if err = os.Remove(w.dir.open(c.part)); err != nil {
			err = fmt.Errorf("files: abort part: %w", err)
		}
	}
	select {
	case <-flushed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("files: close: %w", context.Cause(ctx))
	}
}

// waiter implements connector.Prepared.
type waiter struct{ parts []*prepared }

// Wait implements connector.Prepared.
func (w waiter) Wait(ctx context.Context) ([]checkpoint.Transaction, error) {
	var txns []checkpoint.Transaction
	for _, p := range w.parts {
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("files: prepare: %w", context.Cause(ctx))
		}
		if p.err != nil {
			return nil, p.err
		}
		txns = append(txns, p.txn)
	}
	return txns, nil
}
