package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/failpoint"
)

// errClosed says that the writer was closed.
var errClosed = errors.New("kafka sink is closed")

// subtask says who a writer is.
type subtask struct {
	operator string
	index    int
}

// writer is a connector.Writer. Rows are encoded by the caller's goroutine and queued, in order with the
// barriers; one goroutine (run) takes them from there. While it waits for the flush of a transaction, the
// records of the next one wait in the queue: so they are never sent before the flush is done, and per-key
// order holds.
type writer struct {
	cfg    SinkConfig
	who    subtask
	failed func(error)
	rows   *rows

	ctx    context.Context
	cancel context.CancelCauseFunc
	queue  queue
	// room bounds the bytes in the queue.
	room *semaphore.Weighted
	// slabs are free ones. A sync.Pool would lose them, with their grown buffers, at every garbage collection.
	slabs chan *slab

	// txs is nil at least once, plain is nil exactly once.
	txs   *transactions
	plain *kgo.Client
	// produced counts the records handed to a client, acked those that it has written.
	produced, acked atomic.Int64

	failOnce   sync.Once
	background sync.WaitGroup
	ended      chan struct{} // run has returned
}

func newWriter(cfg SinkConfig, wc connector.WriterConfig, f topicFacts) *writer {
	w := &writer{
		cfg: cfg, who: subtask{wc.Operator, wc.Index}, failed: wc.Failed,
		room: semaphore.NewWeighted(int64(cfg.BufferBytes)), queue: queue{wake: make(chan struct{}, 1)},
		slabs: make(chan *slab, maxFreeSlabs), ended: make(chan struct{}),
	}
	w.rows = newRows(&w.cfg, f.maxRecord)
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	return w
}

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	s := w.slab()
	if err := w.rows.encode(s, b); err != nil {
		w.free(s)
		return err
	}
	if len(s.records) == 0 {
		w.free(s)
		return nil
	}
	if err := w.reserve(ctx, min(s.bytes(), int64(w.cfg.BufferBytes))); err != nil {
		return err
	}
	w.queue.push(item{slab: s})
	return nil
}

// reserve waits for n bytes of room in the queue, until ctx or the writer ends.
func (w *writer) reserve(ctx context.Context, n int64) error {
	if w.room.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })
	defer stop()
	if w.room.Acquire(ctx, n) != nil {
		return fmt.Errorf("topic %q: waiting for room: %w", w.cfg.Topic, context.Cause(ctx))
	}
	return nil
}

// maxFreeSlabs bounds the slabs that are kept for later: as many as are in the client at a time when it keeps up.
const maxFreeSlabs = 16

// free keeps a slab that nobody uses any more.
func (w *writer) free(s *slab) {
	select {
	case w.slabs <- s:
	default:
	}
}

func (w *writer) slab() *slab {
	select {
	case s := <-w.slabs:
		return s
	default:
	}
	s := new(slab)
	s.promise = func(r *kgo.Record, err error) {
		if errors.Is(err, kerr.MessageTooLarge) {
			err = fmt.Errorf("record of %d bytes, batches of up to %d: %w", len(r.Key)+len(r.Value), w.rows.maxRecord, err)
		}
		if err != nil {
			w.fail(classify(err, "write to topic", w.cfg.Topic, "Write"))
		} else {
			w.acked.Add(1)
		}
		if s.unacked.Add(-1) == 0 {
			w.free(s)
		}
	}
	return s
}

// Prepare implements connector.Writer.
func (w *writer) Prepare(b checkpoint.Barrier) connector.Prepared {
	p := &prepared{writer: w, barrier: b, done: make(chan struct{})}
	w.queue.push(item{prepared: p})
	return p
}

// prepared is a connector.Prepared: list is valid once done is closed.
type prepared struct {
	writer  *writer
	barrier checkpoint.Barrier
	done    chan struct{}
	list    []checkpoint.Transaction
}

// Wait implements connector.Prepared.
func (p *prepared) Wait(ctx context.Context) ([]checkpoint.Transaction, error) {
	select {
	case <-p.done:
		return p.list, nil
	case <-p.writer.ended:
	case <-ctx.Done():
		return nil, fmt.Errorf("pre-commit of checkpoint %s: %w", p.barrier.ID, context.Cause(ctx))
	}
	select {
	case <-p.done: // it ended after this one
		return p.list, nil
	default:
		return nil, fmt.Errorf("pre-commit of checkpoint %s: %w", p.barrier.ID, context.Cause(p.writer.ctx))
	}
}

// run carries out the queue, in order.
func (w *writer) run() {
	defer close(w.ended)
	for {
		it, ok := w.queue.pop(w.ctx)
		if !ok {
			return
		}
		var err error
		if it.slab != nil {
			err = w.send(it.slab)
		} else {
			err = w.precommit(it.prepared)
		}
		if err != nil {
			w.fail(err)
			return
		}
	}
}

// send hands a slab to the client, which may block while its buffer is full.
func (w *writer) send(s *slab) error {
	cl := w.plain
	n := len(s.records)
	if w.txs != nil {
		p, err := w.txs.open(w.ctx)
		if err != nil {
			return err
		}
		p.records += int64(n)
		cl = p.cl
	}
	bytes := min(s.bytes(), int64(w.cfg.BufferBytes))
	s.unacked.Store(int64(n))
	w.produced.Add(int64(n))
	records := s.records // the slab may be in use again after its last promise
	for i := range records {
		cl.Produce(w.ctx, &records[i], s.promise)
	}
	w.room.Release(bytes)
	return nil
}

// precommit waits until everything before the barrier is acknowledged, and lists the transactions.
func (w *writer) precommit(p *prepared) error {
	if w.txs != nil {
		w.txs.learn(p.barrier.Committed)
	}
	failpoint.Hit("precommit.before-flush")
	if err := w.flush(); err != nil {
		return err
	}
	failpoint.Hit("precommit.after-flush")
	if w.txs != nil {
		list, err := w.txs.prepare(w.ctx, p.barrier, w.who)
		if err != nil {
			return err
		}
		p.list = list
	}
	close(p.done)
	return nil
}

// flush waits until every record handed to the client is acknowledged.
func (w *writer) flush() error {
	cl := w.plain
	if w.txs != nil {
		if w.txs.current == nil {
			return nil
		}
		cl = w.txs.current.cl
	}
	if err := cl.Flush(w.ctx); err != nil {
		return classify(err, "flush topic", w.cfg.Topic, "Write")
	}
	if acked, produced := w.acked.Load(), w.produced.Load(); acked != produced {
		return fmt.Errorf("flush topic %q: %d of %d records are acknowledged", w.cfg.Topic, acked, produced)
	}
	return nil
}

// fail ends the writer, once, and tells the subtask unless it is closing.
func (w *writer) fail(err error) {
	w.failOnce.Do(func() {
		w.cancel(fmt.Errorf("sink %s[%d]: %w", w.who.operator, w.who.index, err))
		if w.failed != nil && !errors.Is(err, errClosed) {
			w.failed(context.Cause(w.ctx))
		}
	})
}

// Close implements connector.Writer.
func (w *writer) Close(ctx context.Context) error {
	w.failOnce.Do(func() { w.cancel(errClosed) })
	w.background.Wait() // the client lets go when its context ends
	if w.txs != nil {
		return w.txs.close(ctx)
	}
	w.plain.Close()
	return nil
}

// item is what waits in the queue: a slab or a barrier.
type item struct {
	slab     *slab
	prepared *prepared
}

// queue is an unbounded queue with one consumer. What bounds it is the writer's room for slabs, and that
// barriers are few.
type queue struct {
	mu struct {
		sync.Mutex
		items []item
	}
	wake chan struct{}
}

func (q *queue) push(it item) {
	q.mu.Lock()
	q.mu.items = append(q.mu.items, it)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pop takes the oldest item, waiting for one; ok is false when ctx has ended.
func (q *queue) pop(ctx context.Context) (it item, ok bool) {
	for {
		if ctx.Err() != nil {
			return item{}, false
		}
		q.mu.Lock()
		if len(q.mu.items) > 0 {
			it = q.mu.items[0]
			q.mu.items[0] = item{}
			q.mu.items = q.mu.items[1:]
			q.mu.Unlock()
			return it, true
		}
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

var _ connector.Writer = (*writer)(nil)
