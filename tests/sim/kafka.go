package sim

import "fmt"

// code is a broker's answer.
type code int

// The codes that matter here.
const (
	ok code = iota
	concurrentTransactions
	producerFenced
	invalidTxnState
	invalidProducerIDMapping
)

// txnState is the state of a transactional id at its coordinator.
type txnState string

const (
	empty          txnState = "Empty"
	ongoing        txnState = "Ongoing"
	prepareCommit  txnState = "PrepareCommit"
	prepareAbort   txnState = "PrepareAbort"
	completeCommit txnState = "CompleteCommit"
	completeAbort  txnState = "CompleteAbort"
)

func (s txnState) open() bool { return s == ongoing || s == prepareCommit || s == prepareAbort }

// producerID is what the coordinator knows of one transactional id.
type producerID struct {
	id    string
	pid   int64
	epoch int16
	state txnState
	began int
	cur   *txn
	// lastSeq is the newest sequence number written under the current epoch.
	lastSeq int
}

// txn is one transaction, for the reader and for the checks.
type txn struct {
	id    string
	pid   int64
	epoch int16
	state txnState
	by    string
	began int
	// expired: the broker aborted it at its timeout.
	expired bool
	// afterEnd: a zombie opened it when the sinks had been brought to rest for good; nothing but the broker's
	// timeout can end it.
	afterEnd bool
}

func (t *txn) String() string { return fmt.Sprintf("%s@%d of %s", t.id, t.epoch, t.by) }

// outputs is the number of partitions of the output topic.
const outputs = 2

// record is one output: key's count after this input.
type record struct{ key, count int }

// broker is the model of Kafka: transaction coordinator, output log, timeouts.
type broker struct {
	service
	w *world
	// protocol is transaction.version.
	protocol int
	// timeout in ticks after which an ongoing transaction is aborted; 0: beyond the run's end.
	timeout int
	ids     map[string]*producerID
	order   []*producerID
	log     [outputs][]entry
	all     []*txn
}

type entry struct {
	in *txn
	record
}

// grant is the answer to an InitProducerID.
type grant struct {
	code  code
	pid   int64
	epoch int16
}

// initProducer takes a new epoch for id; what is open under it is aborted first.
func (b *broker) initProducer(id string) grant {
	t := b.ids[id]
	if t == nil {
		t = &producerID{id: id, pid: int64(1000 + len(b.order)), state: empty, lastSeq: -1}
		b.ids[id] = t
		b.order = append(b.order, t)
		return grant{ok, t.pid, t.epoch}
	}
	switch t.state {
	case prepareCommit, prepareAbort:
		return grant{code: concurrentTransactions}
	case ongoing:
		t.epoch++
		t.set(prepareAbort)
		b.w.tracef("kafka: InitProducerID aborts %s", t.cur)
		return grant{code: concurrentTransactions}
	}
	t.epoch++
	t.state, t.cur, t.lastSeq = empty, nil, -1
	return grant{ok, t.pid, t.epoch}
}

func (t *producerID) set(s txnState) {
	t.state = s
	t.cur.state = s
}

// produce writes one record, which opens a transaction if none is open. A sequence number that is known is a
// repetition and changes nothing.
func (b *broker) produce(id string, pid int64, epoch int16, seq int, r record, by string) code {
	t := b.ids[id]
	switch {
	case t == nil || t.pid != pid || t.epoch != epoch:
		return producerFenced
	case seq <= t.lastSeq:
		return ok
	case t.state == prepareCommit || t.state == prepareAbort:
		return concurrentTransactions
	}
	if t.state != ongoing {
		t.cur = &txn{id: id, pid: pid, epoch: epoch, by: by, began: b.w.now, afterEnd: b.w.audit.atRest}
		t.began = b.w.now
		t.set(ongoing)
		b.all = append(b.all, t.cur)
		if t.cur.afterEnd {
			b.w.count("transactions opened after the end by a zombie")
		}
	}
	t.lastSeq = seq
	b.log[r.key%outputs] = append(b.log[r.key%outputs], entry{t.cur, r})
	return ok
}

// end is EndTxn, by the rules of both protocol versions (TransactionCoordinator.endTransaction).
func (b *broker) end(id string, pid int64, epoch int16, commit bool) code {
	t := b.ids[id]
	if t == nil || t.pid != pid {
		return invalidProducerIDMapping
	}
	want := epoch
	if b.protocol == 2 && t.state != ongoing {
		want++ // the end itself has raised the epoch
	}
	if t.epoch != want {
		return producerFenced
	}
	preparing, complete := prepareAbort, completeAbort
	if commit {
		preparing, complete = prepareCommit, completeCommit
	}
	switch t.state {
	case ongoing:
		if b.protocol == 2 {
			t.epoch++
			t.lastSeq = -1
		}
		t.set(preparing)
		return ok
	case preparing:
		return concurrentTransactions
	case complete:
		return ok
	}
	return invalidTxnState
}

// description is the answer to DescribeTransactions.
type description struct {
	known bool
	pid   int64
	epoch int16
	state txnState
}

func (b *broker) describe(id string) description {
	if t := b.ids[id]; t != nil {
		return description{true, t.pid, t.epoch, t.state}
	}
	return description{}
}

// listed is one line of ListTransactions.
type listed struct {
	id    string
	pid   int64
	epoch int16
}

// list names the ongoing transactions. It takes effect at one moment.
func (b *broker) list() []listed {
	var out []listed
	for _, t := range b.order {
		if t.state == ongoing {
			out = append(out, listed{t.id, t.pid, t.epoch})
		}
	}
	return out
}

// tick completes what is being ended and aborts what is too old.
func (b *broker) tick() {
	if b.down {
		return
	}
	done := false
	for _, t := range b.order {
		switch {
		case t.state == ongoing && b.timeout > 0 && b.w.now > t.began+b.timeout:
			t.epoch++
			t.lastSeq = -1
			t.set(prepareAbort)
			t.cur.expired = true
			b.w.count("transactions timed out")
			b.w.trouble(0)
			b.w.tracef("kafka: timeout aborts %s", t.cur)
		case t.state == prepareCommit && b.w.chance(20):
			t.set(completeCommit)
			b.w.tracef("kafka: %s is committed", t.cur)
			done = true
		case t.state == prepareAbort && b.w.chance(20):
			t.set(completeAbort)
			b.w.tracef("kafka: %s is aborted", t.cur)
			done = true
		}
	}
	if done {
		b.w.reader.read()
	}
}

// find returns the transaction of a manifest's line, nil if it was never seen.
func (b *broker) find(id string, pid int64, epoch int16) *txn {
	for _, t := range b.all {
		if t.id == id && t.pid == pid && t.epoch == epoch {
			return t
		}
	}
	return nil
}
