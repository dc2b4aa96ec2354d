package transaction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Ledger is a sink subtask's list of prepared transactions that are not known to be committed. Every snapshot
// lists all of it, whatever became of earlier checkpoints. It belongs to the subtask's goroutine.
//
// At barrier n the sink calls, in this order: Learn(n's committed number), SlotPool.Covered(the same),
// Prepare(the transaction that the barrier ended), and, once that is flushed, List.
type Ledger struct {
	open    []checkpoint.Transaction
	learned job.CheckpointID
}

// Prepare adds a transaction that a barrier ended. One in which nothing was written does not exist and is not
// added.
func (l *Ledger) Prepare(t checkpoint.Transaction) {
	if slices.ContainsFunc(l.open, func(o checkpoint.Transaction) bool { return o.ID == t.ID }) {
		panic(fmt.Sprintf("transaction: %s is prepared twice", t.ID))
	}
	l.open = append(l.open, t)
}

// Learn drops what is covered by committed, the number that a barrier carries, when that barrier reaches the
// sink. Heard of earlier it must wait: the snapshot before it would list too little.
func (l *Ledger) Learn(committed job.CheckpointID) {
	if committed <= l.learned {
		return
	}
	l.learned = committed
	l.open = slices.DeleteFunc(l.open, func(t checkpoint.Transaction) bool { return t.Checkpoint <= committed })
}

// List returns what the snapshot has to list, sorted by id; it is a copy.
func (l *Ledger) List() []checkpoint.Transaction {
	out := slices.Clone(l.open)
	slices.SortFunc(out, func(a, b checkpoint.Transaction) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Oldest is the begin of the oldest prepared transaction in Unix milliseconds, for the metric that shows how much
// time is left; ok is false when there is none.
func (l *Ledger) Oldest() (beginUnixMs int64, ok bool) {
	for _, t := range l.open {
		if !ok || t.BeginUnixMs < beginUnixMs {
			beginUnixMs, ok = t.BeginUnixMs, true
		}
	}
	return beginUnixMs, ok
}

// CheckTimeout refuses settings under which a transaction could time out before its checkpoint is durable: a
// transaction lives for up to an interval before its barrier and up to the timeout after it, and what is left
// must outlast an outage. At least half of the transaction's timeout has to be left.
func CheckTimeout(interval, checkpointTimeout, transactionTimeout time.Duration) error {
	if need := 2 * (interval + checkpointTimeout); transactionTimeout < need {
		return fmt.Errorf("checkpoint interval %s and timeout %s need a transaction timeout of at least %s, it is %s; raise transaction_timeout (and the broker's transaction.max.timeout.ms) or lower checkpoint.timeout",
			interval, checkpointTimeout, need, transactionTimeout)
	}
	return nil
}
