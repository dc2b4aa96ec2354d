package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirstream/weir/dataplane/transaction"
)

// Held is a transaction of Weir that a cluster has not ended.
type Held struct {
	// ID is what its transactional id says.
	ID transaction.ID
	// State is Ongoing, PrepareCommit, PrepareAbort or PrepareEpochFence. The latter three end by themselves.
	State         string
	ProducerID    int64
	ProducerEpoch int16
	Began         time.Time
	// Timeout is how long after Began the coordinator aborts it, if it is ongoing then.
	Timeout    time.Duration
	Partitions []HeldPartition
}

// HeldPartition is a partition that a transaction has written to.
type HeldPartition struct {
	Topic     string
	Partition int32
	// Stable is where read-committed readers stop, End the end of the partition.
	Stable, End int64
	// First is the transaction's first offset; −1: the partition's leader knows none.
	First int64
}

// Blocks reports whether it is this transaction at which readers stop. One further behind holds nobody up until
// the one before it has ended.
func (p HeldPartition) Blocks() bool { return p.First >= 0 && p.First == p.Stable && p.Stable < p.End }

// Blocks reports whether read-committed readers wait for this transaction in any partition.
func (h Held) Blocks() bool { return slices.ContainsFunc(h.Partitions, HeldPartition.Blocks) }

// Left is how much time the transaction has before the coordinator aborts it.
func (h Held) Left(now time.Time) time.Duration { return h.Began.Add(h.Timeout).Sub(now) }

// heldStates are those of transactions that have not ended.
var heldStates = []string{stateOngoing, statePrepareCommit, "PrepareAbort", "PrepareEpochFence"}

// Held lists the transactions of every job and prefix in the cluster that have not ended: those that block
// readers first, then the oldest first. Brokers leave out of it what the caller may not describe.
func (c *Committer) Held(ctx context.Context) ([]Held, error) {
	listed, err := c.adm.ListTransactions(ctx, nil, nil) // brokers differ in the states that they can filter by
	if err != nil {
		return nil, classify(err, "list transactions of", "the cluster", "Describe")
	}
	var held []Held
	for _, l := range listed.Sorted() {
		id, err := transaction.Parse(l.TxnID)
		if err != nil || !slices.Contains(heldStates, l.State) {
			continue
		}
		d, known, err := c.describe(ctx, l.TxnID)
		if err != nil {
			return nil, classify(err, "describe transaction", l.TxnID, "Describe")
		}
		if !known || !slices.Contains(heldStates, d.State) {
			continue // ended meanwhile
		}
		h := Held{
			ID: id, State: d.State, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch,
			Began: time.UnixMilli(d.StartTimestamp), Timeout: time.Duration(d.TimeoutMillis) * time.Millisecond,
		}
		if h.Partitions, err = c.partitions(ctx, d); err != nil {
			return nil, err
		}
		held = append(held, h)
	}
	slices.SortStableFunc(held, func(a, b Held) int {
		if a.Blocks() != b.Blocks() {
			if a.Blocks() {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return held, nil
}

// partitions looks at how far readers come in the partitions of a transaction.
func (c *Committer) partitions(ctx context.Context, d kadm.DescribedTransaction) ([]HeldPartition, error) {
	topics := d.Topics.Topics()
	if len(topics) == 0 {
		return nil, nil // without topics kadm would ask for all of them
	}
	what := fmt.Sprint(topics)
	stable, err := c.adm.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return nil, classify(err, "read the stable offsets of", what, "Describe")
	}
	ends, err := c.adm.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, classify(err, "read the end offsets of", what, "Describe")
	}
	producers, err := c.adm.DescribeProducers(ctx, d.Topics)
	if err != nil {
		return nil, classify(err, "describe the producers of", what, "Read")
	}
	var out []HeldPartition
	for _, t := range d.Topics.Sorted() {
		for _, p := range t.Partitions {
			h := HeldPartition{Topic: t.Topic, Partition: p, First: -1}
			if o, ok := stable.Lookup(t.Topic, p); ok {
				h.Stable = o.Offset
			}
			if o, ok := ends.Lookup(t.Topic, p); ok {
				h.End = o.Offset
			}
			at := producers[t.Topic].Partitions[p]
			if at.Err != nil {
				return nil, classify(at.Err, "describe the producers of", fmt.Sprintf("%s/%d", t.Topic, p), "Read")
			}
			if w, ok := at.ActiveProducers[d.ProducerID]; ok {
				h.First = w.CurrentTxnStartOffset
			}
			out = append(out, h)
		}
	}
	return out, nil
}
