package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// The states of a transaction that matter here, as DescribeTransactions names them.
const (
	stateOngoing        = "Ongoing"
	stateCompleteCommit = "CompleteCommit"
	statePrepareCommit  = "PrepareCommit"
)

// Committer is a connector.Committer for the transactions of one cluster. It holds no transaction itself and
// works from any process.
type Committer struct {
	prefix string
	cl     *kgo.Client
	// old ends transactions that were begun under transaction.version 1: with EndTxn 4 at most.
	old *kgo.Client
	adm *kadm.Client
}

var _ connector.Committer = (*Committer)(nil)

// NewCommitter returns a committer; nothing is dialled. prefix is that of the sinks ("" for the default).
func NewCommitter(conn ConnConfig, prefix string) (*Committer, error) {
	cl, err := conn.client()
	if err != nil {
		return nil, err
	}
	old, err := conn.client(kgo.MaxVersions(protocol1()))
	if err != nil {
		cl.Close()
		return nil, err
	}
	return &Committer{prefix: orDefault(prefix, transaction.DefaultPrefix), cl: cl, old: old, adm: kadm.NewClient(cl)}, nil
}

// Close closes the connections.
func (c *Committer) Close() {
	var wg sync.WaitGroup
	wg.Go(c.cl.Close)
	wg.Go(c.old.Close)
	wg.Wait()
}

// Commit commits t and returns when the answer is definitive. Lost means that the broker aborted it, or that
// its id belongs to a newer producer. That includes a transaction that was committed so long ago that its
// slot is in use again: a caller that can be superseded looks at the committed marker before it believes a loss.
func (c *Committer) Commit(ctx context.Context, t checkpoint.Transaction) (connector.Outcome, error) {
	code, err := c.end(ctx, t, true)
	switch {
	case err != nil:
		return 0, err
	case code == nil:
		return connector.Committed, nil
	}
	return c.refused(ctx, t, code)
}

// Abort aborts t and returns when the answer is definitive.
func (c *Committer) Abort(ctx context.Context, t checkpoint.Transaction) (connector.Outcome, error) {
	code, err := c.end(ctx, t, false)
	switch {
	case err != nil:
		return 0, err
	case code == nil:
		return connector.Lost, nil
	case code == kerr.InvalidTxnState:
		// It has ended. Asked to commit, the broker agrees if that is how, and can do no harm if not.
		return c.Commit(ctx, t)
	}
	return c.refused(ctx, t, code)
}

// end sends EndTxn with the stored producer id and epoch until the answer is definitive: nil, or the code of
// a refusal.
func (c *Committer) end(ctx context.Context, t checkpoint.Transaction, commit bool) (*kerr.Error, error) {
	cl := c.cl
	if t.Protocol < 2 {
		cl = c.old
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.ID, t.ProducerID, t.ProducerEpoch, commit
	var refused *kerr.Error
	err := c.persist(ctx, "end transaction", t.ID, func() error {
		failpoint.Hit("endtxn.before")
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			failpoint.Hit("endtxn.after")
			err = failpoint.Err("endtxn.reply-lost")
		}
		if err != nil {
			return err
		}
		err = codeError(resp.ErrorCode)
		switch err {
		case kerr.InvalidTxnState, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping: //nolint:errorlint // codeError returns bare values
			errors.As(err, &refused)
			return nil
		}
		return err
	})
	return refused, err
}

// refused finds out what became of a transaction that the broker does not end (any more). What is ending, or
// contradicts itself, is asked again until it is clear.
func (c *Committer) refused(ctx context.Context, t checkpoint.Transaction, code *kerr.Error) (connector.Outcome, error) {
	outcome := connector.Lost
	err := c.persist(ctx, "describe transaction", t.ID, func() error {
		d, known, err := c.describe(ctx, t.ID)
		if err != nil || !known {
			return err // forgotten: it cannot be committed any more
		}
		if d.ProducerID != t.ProducerID {
			return nil
		}
		// With protocol 2 the end itself raises the epoch by one; before that, a raised epoch is another
		// producer's.
		ours := d.ProducerEpoch == t.ProducerEpoch || t.Protocol >= 2 && d.ProducerEpoch == t.ProducerEpoch+1
		switch {
		case ours && d.State == stateCompleteCommit:
			outcome = connector.Committed
		case ours && d.State == statePrepareCommit,
			d.ProducerEpoch == t.ProducerEpoch && d.State == stateOngoing:
			return fmt.Errorf("%w: %w, while the transaction is %s", errUnclear, code, d.State)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return outcome, nil
}

// errUnclear says that the answers so far do not decide; ask again.
var errUnclear = errors.New("not decided yet")

// describe looks at a transaction; known is false when its coordinator has no such id.
func (c *Committer) describe(ctx context.Context, id string) (d kadm.DescribedTransaction, known bool, err error) {
	ds, err := c.adm.DescribeTransactions(ctx, id)
	if err != nil {
		return d, false, err
	}
	d, ok := ds[id]
	switch {
	case !ok:
		return d, false, errors.New("the coordinator did not answer about it")
	case errors.Is(d.Err, kerr.TransactionalIDNotFound):
		return d, false, nil
	}
	return d, true, d.Err
}

// persist repeats do with back-off until it succeeds, fails for good, or ctx ends.
func (c *Committer) persist(ctx context.Context, op, id string, do func() error) error {
	for n := 0; ; n++ {
		err := do()
		if err == nil {
			return nil
		}
		err = classify(err, op, id, "Write and Describe")
		if job.ClassOf(err) != job.Retryable {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; gave up: %w", err, context.Cause(ctx))
		case <-time.After(backOff(n)):
		}
	}
}

// Open lists the ongoing transactions of uid. Brokers leave out of a listing what the caller may not describe,
// so that the right is asked for first.
func (c *Committer) Open(ctx context.Context, uid job.UID) ([]connector.Open, error) {
	probe := transaction.ID{Prefix: c.prefix, UID: uid, Sink: "probe", Attempt: 1}.String()
	if _, _, err := c.describe(ctx, probe); err != nil {
		return nil, classify(err, "describe transactions of", string(uid), "Describe")
	}
	// No pattern: brokers before 4.1 ignore it. A single broker's failure fails the listing.
	listed, err := c.adm.ListTransactions(ctx, nil, []string{stateOngoing})
	if err != nil {
		return nil, classify(err, "list transactions of", string(uid), "Describe")
	}
	var open []connector.Open
	for _, l := range listed.Sorted() {
		id, err := transaction.Parse(l.TxnID)
		if err != nil || id.UID != uid || id.Prefix != c.prefix {
			continue // somebody else's
		}
		d, known, err := c.describe(ctx, l.TxnID)
		if err != nil {
			return nil, classify(err, "describe transaction", l.TxnID, "Describe")
		}
		if !known || d.State != stateOngoing {
			continue // ended meanwhile
		}
		open = append(open, connector.Open{Attempt: id.Attempt, Transaction: checkpoint.Transaction{
			Sink: id.Sink, Connector: Connector, Subtask: id.Subtask, ID: l.TxnID,
			ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch,
			BeginUnixMs: d.StartTimestamp, TimeoutMs: int64(d.TimeoutMillis),
		}})
	}
	return open, nil
}

// AbortOpen aborts o and fences its producer by taking a new producer id for its transactional id, if it is
// still the transaction that Open saw.
func (c *Committer) AbortOpen(ctx context.Context, o connector.Open) error {
	t := o.Transaction
	return c.persist(ctx, "abort transaction", t.ID, func() error {
		d, known, err := c.describe(ctx, t.ID)
		if err != nil {
			return err
		}
		if !known || d.ProducerID != t.ProducerID || !stillOpen(d, t.ProducerEpoch) {
			return nil
		}
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr(t.ID)
		req.TransactionTimeoutMillis = 60_000
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := req.RequestWith(ctx, c.cl)
		if err != nil {
			return err
		}
		return codeError(resp.ErrorCode)
	})
}

// stillOpen reports whether d is the transaction of the given epoch and not ended yet. The abort of an
// InitProducerID raises the epoch by one, and is over only when the state is no longer Prepare….
func stillOpen(d kadm.DescribedTransaction, epoch int16) bool {
	ending := strings.HasPrefix(d.State, "Prepare")
	return d.ProducerEpoch == epoch && (d.State == stateOngoing || ending) || d.ProducerEpoch == epoch+1 && ending
}
