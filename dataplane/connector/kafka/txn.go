package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

const (
	// initTimeout is how long a producer id may take before its slot is given up, and how long Open asks for the
	// first one.
	initTimeout = 30 * time.Second
	// repeatFor is how long the client of a transaction repeats requests that have failed: kgo's default.
	repeatFor = 30 * time.Second
	// warmFor is how long a client that waits for its first record is good: coordinators forget unused ids
	// after transactional.id.expiration.ms, a week by default.
	warmFor = time.Hour
	// abortTimeout bounds the abort of the current transaction at Close.
	abortTimeout = 5 * time.Second
)

// producer is the client of one transaction. It is closed after the pre-commit, without ending the
// transaction: that is the committer's.
type producer struct {
	cl    *kgo.Client
	id    transaction.ID
	pid   int64
	epoch int16
	// made is when the producer id was given, begun when the first record was written.
	made, begun time.Time
	records     int64
}

// warmed is a producer that is ready, or why there is none for that id.
type warmed struct {
	*producer
	id  transaction.ID
	err error
}

// transactions are the producers, slots and prepared transactions of one writer. They belong to the goroutine
// that sends.
type transactions struct {
	sink  *Sink
	facts topicFacts
	pool  *transaction.SlotPool
	// ledger holds what is prepared and not known to be committed.
	ledger  transaction.Ledger
	current *producer
	// next delivers the producer of the next transaction, which is made ready while the current one is
	// written, so that a barrier does not wait for a connection and an InitProducerID.
	next chan warmed
	// warming is set while next is owed a producer; fails counts those in a row that could not be had.
	warming bool
	fails   int
	closing sync.WaitGroup
}

func newTransactions(s *Sink, f topicFacts, base transaction.ID) *transactions {
	return &transactions{sink: s, facts: f, pool: transaction.NewSlotPool(base), next: make(chan warmed, 1)}
}

// warmUp makes the next producer ready in the background. At most one is under way.
func (t *transactions) warmUp(ctx context.Context) {
	t.warming = true
	id, delay := t.pool.Acquire(), time.Duration(0)
	if t.fails > 0 {
		delay = backOff(t.fails - 1)
	}
	go func() {
		pause(ctx, delay)
		p, err := t.sink.newProducer(ctx, t.facts, id)
		t.next <- warmed{producer: p, id: id, err: err}
	}()
}

// newProducer opens a client and takes a producer id, which fences whoever used the transactional id before. It
// asks again only after an answer: a request without one may take effect at any time, so that nothing may be
// written under its id any more.
func (s *Sink) newProducer(ctx context.Context, f topicFacts, id transaction.ID) (*producer, error) {
	cl, err := s.cfg.Conn.client(s.txOptions(f, id.String())...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	p := &producer{cl: cl, id: id}
	for n := 0; ; n++ {
		p.pid, p.epoch, err = cl.ProducerID(ctx)
		if err == nil {
			p.made = time.Now()
			return p, nil
		}
		again := answered(err)
		err = classify(err, "initialise producer", id.String(), "Write")
		if !again || job.ClassOf(err) != job.Retryable || !pause(ctx, backOff(n)) {
			cl.Close()
			return nil, err
		}
	}
}

// askOnce is how long the client of a transaction repeats a request by itself, by the request's kind: an
// InitProducerID is sent once, and newProducer decides what follows.
func askOnce(key int16) time.Duration {
	if key == int16(kmsg.InitProducerID) {
		return time.Nanosecond // shorter than any back-off; zero would mean for ever
	}
	return repeatFor
}

// pause waits for d; false: ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ready waits for the first producer id, so that a missing right shows when the sink is opened and not at its
// first record. It asks under one id after another until ctx ends or the error is not retryable. life is the
// writer's.
func (t *transactions) ready(ctx, life context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, initTimeout, fmt.Errorf("no producer id within %s", initTimeout))
	defer cancel()
	var last error
	for {
		w, err := t.take(ctx)
		switch {
		case err == nil:
			t.warming = true
			t.next <- w
			return nil
		case ctx.Err() != nil:
			return errors.Join(err, last)
		case job.ClassOf(err) != job.Retryable:
			return err
		}
		last = err
		t.fails++
		t.warmUp(life)
	}
}

// take waits for the producer that is being made ready. If there is none, its slot is given up: a late
// InitProducerID could abort what comes next under that id.
func (t *transactions) take(ctx context.Context) (warmed, error) {
	select {
	case w := <-t.next:
		t.warming = false
		if w.err != nil {
			t.pool.Abandon(w.id.Slot)
		}
		return w, w.err
	case <-ctx.Done():
		return warmed{}, context.Cause(ctx)
	}
}

// open returns the current transaction's producer; the first call after a barrier begins the transaction. It
// tries again until ctx ends or the error is not retryable.
func (t *transactions) open(ctx context.Context) (*producer, error) {
	for t.current == nil {
		w, err := t.take(ctx)
		switch {
		case ctx.Err() != nil || job.ClassOf(err) != job.Retryable:
			return nil, err
		case err != nil:
			t.fails++
		case time.Since(w.made) > warmFor:
			w.cl.Close()
			t.pool.Release(w.id.Slot)
		default:
			if err := w.cl.BeginTransaction(); err != nil {
				w.cl.Close()
				t.pool.Abandon(w.id.Slot)
				return nil, classify(err, "begin transaction", w.id.String(), "Write")
			}
			t.fails = 0
			t.current, w.begun = w.producer, time.Now()
		}
		t.warmUp(ctx)
	}
	return t.current, nil
}

// errProducerChanged says that the client took another producer id within a transaction: what it wrote
// before is not in the transaction that it has now.
var errProducerChanged = errors.New("the producer id changed within the transaction")

// prepare pre-commits the current transaction at barrier b, all of whose records must be acknowledged. It
// returns all transactions that the snapshot has to list.
func (t *transactions) prepare(ctx context.Context, b checkpoint.Barrier, cfg subtask) ([]checkpoint.Transaction, error) {
	p := t.current
	if p == nil {
		return t.ledger.List(), nil
	}
	// Only right after a flush: otherwise this could run an InitProducerID of its own.
	pid, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return nil, classify(err, "pre-commit", p.id.String(), "Write")
	}
	if pid != p.pid || epoch != p.epoch {
		return nil, fmt.Errorf("pre-commit %s: %w: from %d/%d to %d/%d", p.id, errProducerChanged, p.pid, p.epoch, pid, epoch)
	}
	t.ledger.Prepare(checkpoint.Transaction{
		Sink: cfg.operator, Connector: Connector, Resource: t.sink.cfg.Resource, Subtask: cfg.index,
		ID: p.id.String(), ProducerID: p.pid, ProducerEpoch: p.epoch, Protocol: t.facts.protocol,
		Checkpoint: b.ID, BeginUnixMs: p.begun.UnixMilli(), TimeoutMs: t.facts.txTimeout.Milliseconds(), Records: p.records,
	})
	t.pool.Prepare(p.id.Slot, b.ID)
	t.current = nil
	t.closing.Go(p.cl.Close) // does not end the transaction
	return t.ledger.List(), nil
}

// learn applies the committed number of a barrier that has reached the sink.
func (t *transactions) learn(committed job.CheckpointID) {
	t.ledger.Learn(committed)
	t.pool.Covered(committed)
}

// close aborts the current transaction, best effort, and closes the clients. The writer's context has ended, so
// that the producer under way comes soon.
func (t *transactions) close(ctx context.Context) error {
	var err error
	if p := t.current; p != nil {
		t.current = nil
		ctx, cancel := context.WithTimeout(ctx, abortTimeout)
		defer cancel()
		err = p.cl.AbortBufferedRecords(ctx)
		if err == nil {
			err = p.cl.EndTransaction(ctx, kgo.TryAbort)
		}
		if err != nil {
			err = classify(err, "abort", p.id.String(), "Write")
		}
		p.cl.Close()
	}
	if t.warming {
		t.warming = false
		if w := <-t.next; w.producer != nil {
			w.cl.Close()
		}
	}
	t.closing.Wait()
	return err
}
