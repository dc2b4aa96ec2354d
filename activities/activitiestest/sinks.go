package activitiestest

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// TxState is where a transaction of the Sinks is.
type TxState string

// The states of a transaction.
const (
	Ongoing   TxState = "ongoing"
	Committed TxState = "committed"
	Aborted   TxState = "aborted"
)

// Sinks is a system that holds transactions, such as a Kafka cluster.
type Sinks struct {
	mu   sync.Mutex
	txs  map[string]*tx
	down error
}

type tx struct {
	checkpoint.Transaction
	uid     job.UID
	attempt job.Attempt
	state   TxState
}

var _ activities.Transactions = (*Sinks)(nil)

// SetDown makes every call fail with err until it is nil again.
func (s *Sinks) SetDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// TxTimeout is after how long the system aborts a transaction.
const TxTimeout = 15 * time.Minute

// Begin opens a transaction of an attempt and returns it as a manifest lists it.
func (s *Sinks) Begin(ref job.Ref, subtask int, id job.CheckpointID) checkpoint.Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.txs == nil {
		s.txs = map[string]*tx{}
	}
	t := checkpoint.Transaction{
		Sink: "out", Connector: "test", Subtask: subtask, Checkpoint: id, Records: 10,
		BeginUnixMs: time.Now().UnixMilli(), TimeoutMs: TxTimeout.Milliseconds(),
		ID: fmt.Sprintf("weir/%s/out/%d/%d/%d", ref.UID, ref.Attempt, subtask, id), ProducerID: int64(len(s.txs) + 1),
	}
	s.txs[t.ID] = &tx{Transaction: t, uid: ref.UID, attempt: ref.Attempt, state: Ongoing}
	return t
}

// Expire aborts a transaction as the system does after its timeout.
func (s *Sinks) Expire(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txs[id].state = Aborted
}

// Forget drops every transaction, as a broker does after some days.
func (s *Sinks) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txs = nil
}

// State is where a transaction is; "" if it is unknown.
func (s *Sinks) State(id string) TxState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.txs[id]; t != nil {
		return t.state
	}
	return ""
}

// Count is the number of transactions of uid in a state.
func (s *Sinks) Count(uid job.UID, state TxState) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.txs {
		if t.uid == uid && t.state == state {
			n++
		}
	}
	return n
}

// Commit implements activities.Transactions.
func (s *Sinks) Commit(_ context.Context, _ json.RawMessage, t checkpoint.Transaction) (activities.Outcome, error) {
	return s.end(t, Committed)
}

// Abort implements activities.Transactions.
func (s *Sinks) Abort(_ context.Context, _ json.RawMessage, t checkpoint.Transaction) (activities.Outcome, error) {
	return s.end(t, Aborted)
}

func (s *Sinks) end(t checkpoint.Transaction, to TxState) (activities.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return "", s.down
	}
	x := s.txs[t.ID]
	if x == nil || x.ProducerID != t.ProducerID {
		return activities.Lost, nil
	}
	if x.state == Ongoing {
		x.state = to
	}
	if x.state == Committed {
		return activities.Committed, nil
	}
	return activities.Lost, nil
}

// Open implements activities.Transactions.
func (s *Sinks) Open(_ context.Context, _ json.RawMessage, uid job.UID) ([]activities.OpenTransaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	var out []activities.OpenTransaction
	for _, t := range s.txs {
		if t.uid == uid && t.state == Ongoing {
			out = append(out, activities.OpenTransaction{Transaction: t.Transaction, Attempt: t.attempt})
		}
	}
	sort.Slice(out, func(i, k int) bool { return out[i].ID < out[k].ID })
	return out, nil
}

// AbortOpen implements activities.Transactions.
func (s *Sinks) AbortOpen(_ context.Context, _ json.RawMessage, t activities.OpenTransaction) error {
	_, err := s.end(t.Transaction, Aborted)
	return err
}

// sorted orders transactions as a part lists them.
func sorted(ts []checkpoint.Transaction) []checkpoint.Transaction {
	ts = append([]checkpoint.Transaction(nil), ts...)
	sort.Slice(ts, func(i, k int) bool { return ts[i].ID < ts[k].ID })
	return ts
}
