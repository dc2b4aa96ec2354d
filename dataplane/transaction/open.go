package transaction

import (
	"slices"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Leftovers picks, from the transactions that are ongoing in the sinks' systems, those to abort: all of this uid
// with an attempt lower than below, except those that m lists. A transaction of m is told by id, producer id and
// epoch: a newer one under the same id was opened by a zombie and goes. Ids of others, or that do not parse, are
// left alone. In CommitSinks below is the manifest's own attempt; in RecoverSinks the new one.
//
// open must be complete: a missing right or a failed broker is an error of the listing and not an empty list. It
// holds ongoing transactions only; what is being completed is settled already.
func Leftovers(open []checkpoint.Transaction, m checkpoint.Manifest, below job.Attempt) []checkpoint.Transaction {
	var out []checkpoint.Transaction
	for _, o := range open {
		id, err := Parse(o.ID)
		if err != nil || id.UID != m.UID || id.Attempt >= below {
			continue
		}
		listed := slices.ContainsFunc(m.Transactions, func(t checkpoint.Transaction) bool {
			return t.ID == o.ID && t.ProducerID == o.ProducerID && t.ProducerEpoch == o.ProducerEpoch
		})
		if !listed {
			out = append(out, o)
		}
	}
	return out
}

// FallBackTarget is the checkpoint to return to when all transactions of the newest one, lost, are lost: the
// newest durable one before every lost transaction, since the records of those are in its past no more, all of
// whose own transactions are committed, and none before the newest marker, whose output is out already. decisions
// are those of the job, covered its committed markers; what lies below the newest one's floor is void, even if a
// delayed PUT brought it back. ok is false when none is left: then the job stops, as where only some are lost.
func FallBackTarget(decisions []checkpoint.Manifest, covered []job.CheckpointID, lost []checkpoint.Transaction) (target checkpoint.Manifest, ok bool) {
	if len(lost) == 0 {
		return checkpoint.Manifest{}, false
	}
	first := lost[0].Checkpoint
	for _, t := range lost {
		first = min(first, t.Checkpoint)
	}
	committed := job.CheckpointID(-1)
	for _, n := range covered {
		committed = max(committed, n)
	}
	newest, _ := checkpoint.NewestDurable(decisions)
	for _, m := range decisions {
		if m.ID < committed || m.ID < newest.Floor {
			continue // would emit again what is visible, or is void
		}
		safe := len(m.Transactions) == 0 || slices.Contains(covered, m.ID)
		if m.Kind == checkpoint.Durable && m.ID < first && safe && (!ok || m.ID > target.ID) {
			target, ok = m, true
		}
	}
	return target, ok
}
