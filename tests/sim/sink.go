package sim

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// output is what waits in a sink's queue: a record or a pre-commit.
type output struct {
	record
	pre *precommit
}

// precommit is the end of a transaction's input; list is valid once done is set.
type precommit struct {
	barrier checkpoint.Barrier
	list    []checkpoint.Transaction
	done    bool
}

// producer is the client of one transaction.
type producer struct {
	id      transaction.ID
	pid     int64
	epoch   int16
	seq     int
	began   int
	records int64
}

// sinkRoom is the number of outputs that wait while a transaction is flushed.
const sinkRoom = 8

// sink writes the counter's output in transactions, as connector/kafka does: the slots are a
// transaction.SlotPool, what is prepared a transaction.Ledger, the next producer is made ready ahead.
type sink struct {
	c      *counter
	queue  []output
	pool   *transaction.SlotPool
	ledger transaction.Ledger
	// current has records in it; next is ready for the first one after the barrier.
	current, next *producer
	warming       bool
	// ahead was opened before its time, by a broken rule.
	ahead *producer
	// known are the producers that each slot had last, for a broken rule.
	known map[int]*producer
}

func newSink(c *counter) *sink {
	return &sink{c: c, known: map[int]*producer{}, pool: transaction.NewSlotPool(transaction.ID{
		Prefix: transaction.DefaultPrefix, UID: uid, Sink: sinkOperator, Attempt: c.d.ref.Attempt, Subtask: c.index,
	})}
}

// prepare puts the end of the current transaction's input into the queue.
func (s *sink) prepare(b checkpoint.Barrier) *precommit {
	pre := &precommit{barrier: b}
	if s.c.d.w.broken(AckBeforeFlush) {
		pre.list, pre.done = s.ledger.List(), true
		if p := s.current; p != nil {
			pre.list = append(pre.list, s.line(p, b.ID))
		}
	}
	s.queue = append(s.queue, output{pre: pre})
	return pre
}

// learn applies the committed number of a barrier.
func (s *sink) learn(committed job.CheckpointID) {
	s.ledger.Learn(committed)
	s.pool.Covered(committed)
}

func (s *sink) run(p *proc) {
	w := s.c.d.w
	s.warmUp()
	for {
		p.await(func() bool { return len(s.queue) > 0 })
		o := s.queue[0]
		if o.pre == nil {
			if w.broken(NoBuffer) {
				s.sendAhead(p)
			}
			s.write(p, s.open(p), o.record)
			s.queue = s.queue[1:]
			continue
		}
		s.precommit(p, o.pre)
		s.queue = s.queue[1:]
	}
}

// precommit ends the current transaction's input: everything in it is acknowledged by now.
func (s *sink) precommit(p *proc, pre *precommit) {
	w, b := s.c.d.w, pre.barrier
	switch {
	case w.broken(LearnEarly):
	case w.broken(SlotEarly):
		s.ledger.Learn(b.Committed)
		s.pool.Covered(b.ID - 1)
	default:
		s.learn(b.Committed)
	}
	if s.current != nil {
		p.at("flushed")
		p.step()
		t := s.line(s.current, b.ID)
		s.ledger.Prepare(t)
		s.pool.Prepare(s.current.id.Slot, b.ID)
		w.tracef("%s: %s@%d prepared for %d", p.name, t.ID, t.ProducerEpoch, b.ID)
		s.current = nil
	}
	if s.ahead != nil {
		s.current, s.ahead = s.ahead, nil
		s.warmUp()
	}
	if !pre.done {
		pre.list = s.ledger.List()
		if w.broken(ListOwnOnly) {
			pre.list = onlyOf(pre.list, b.ID)
		}
		pre.done = true
	}
	p.step()
}

func onlyOf(ts []checkpoint.Transaction, n job.CheckpointID) (out []checkpoint.Transaction) {
	for _, t := range ts {
		if t.Checkpoint == n {
			out = append(out, t)
		}
	}
	return out
}

// line is a transaction as a manifest lists it.
func (s *sink) line(p *producer, n job.CheckpointID) checkpoint.Transaction {
	w := s.c.d.w
	t := checkpoint.Transaction{
		Sink: sinkOperator, Connector: "sim", Subtask: s.c.index, ID: p.id.String(), ProducerID: p.pid, ProducerEpoch: p.epoch,
		Protocol: w.kafka.protocol, Checkpoint: n, Records: p.records,
		BeginUnixMs: epoch.UnixMilli() + int64(p.began+s.c.d.host.skew)*tick.Milliseconds(),
	}
	if w.kafka.timeout > 0 {
		t.TimeoutMs = int64(w.kafka.timeout) * tick.Milliseconds()
	}
	return t
}

// warmUp makes the next producer ready in the background.
func (s *sink) warmUp() {
	if s.warming || s.next != nil {
		return
	}
	s.warming = true
	s.c.d.spawn(fmt.Sprintf("warm%d", s.c.index), func(p *proc) {
		for s.next == nil {
			id := s.pool.Acquire()
			if old := s.known[id.Slot]; old != nil && p.w.broken(NoReinit) {
				s.next = &producer{id: id, pid: old.pid, epoch: p.w.kafka.ids[id.String()].epoch, seq: old.seq}
				break
			}
			s.next = s.initialise(p, id)
		}
		s.known[s.next.id.Slot] = s.next
		s.warming = false
	})
}

// initialise takes a producer id. Without an answer the slot is given up; nil then.
func (s *sink) initialise(p *proc, id transaction.ID) *producer {
	b := p.w.kafka
	for {
		g, answered := send(p, &b.service, "InitProducerID", func() grant { return b.initProducer(id.String()) })
		switch {
		case answered && g.code == ok:
			return &producer{id: id, pid: g.pid, epoch: g.epoch}
		case answered:
			p.sleep(2) // the transaction before is being completed
		case !p.w.broken(ReuseUnanswered):
			s.pool.Abandon(id.Slot)
			p.w.count("slots abandoned")
			p.sleep(4)
			return nil
		}
	}
}

// open returns the current transaction's producer, waiting for one after a barrier.
func (s *sink) open(p *proc) *producer {
	if s.current == nil {
		p.await(func() bool { return s.next != nil })
		s.current, s.next = s.next, nil
		s.current.began = p.w.now
		s.warmUp()
	}
	return s.current
}

// write sends one record until the broker has acknowledged it.
func (s *sink) write(p *proc, tx *producer, r record) {
	b := p.w.kafka
	seq := tx.seq
	tx.seq++
	tx.records++
	for {
		c, err := ask(p, &b.service, "Produce", func() code {
			return b.produce(tx.id.String(), tx.pid, tx.epoch, seq, r, string(s.c.d.host.id))
		})
		switch {
		case err == nil && c == ok:
			return
		case err == nil && c != concurrentTransactions:
			s.c.d.end(errors.New("the producer is fenced"))
			panic(killed{})
		}
	}
}

// abortCurrent aborts what is written and not prepared, once, best effort.
func (s *sink) abortCurrent(p *proc) error {
	tx, b := s.current, p.w.kafka
	if tx == nil {
		return nil
	}
	_, err := ask(p, &b.service, "EndTxn abort", func() code { return b.end(tx.id.String(), tx.pid, tx.epoch, false) })
	return err // recovery aborts the rest
}

// sendAhead breaks a rule: with records before a barrier still to be sent, one from behind it goes out first.
func (s *sink) sendAhead(p *proc) {
	for i := range s.queue {
		if s.queue[i].pre == nil {
			continue
		}
		if i == 0 || i+1 == len(s.queue) || s.queue[i+1].pre != nil || s.next == nil || s.ahead != nil {
			return
		}
		r := s.queue[i+1].record
		s.queue = append(s.queue[:i+1], s.queue[i+2:]...)
		s.ahead, s.next = s.next, nil
		s.ahead.began = p.w.now
		s.write(p, s.ahead, r)
		return
	}
}
