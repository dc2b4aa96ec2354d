package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/transaction"
)

// CommitSinks commits the transactions of a durable checkpoint, as its manifest in the store lists them
// (never as a message says), until each answer is definitive; then, if all of them are committed, it marks
// the checkpoint as committed. Last, it aborts transactions that lower attempts have left open.
func (c *Control) CommitSinks(ctx context.Context, in SinksInput) (SinksResult, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return SinksResult{}, classified(err)
	}
	defer beat(ctx, nil)()
	m, err := snapshot.ReadManifest(ctx, s, in.Job.UID, in.ID)
	if err != nil {
		return SinksResult{}, classified(err)
	}
	if m.Kind != checkpoint.Durable {
		return SinksResult{}, failure(TypeFatal, checkpointName(in.Job, in.ID)+" is not durable: "+string(m.Kind), FailureDetails{})
	}
	prog, err := c.program(ctx, s, in.Job)
	if err != nil {
		return SinksResult{}, classified(err)
	}
	done, err := c.complete(ctx, s, prog.Spec, m)
	if err != nil {
		return SinksResult{}, classified(err)
	}
	if done.Verdict() != transaction.Complete {
		return SinksResult{Stake: Cut(done.Loss())}, nil
	}
	if _, err := c.abortLeftovers(ctx, prog.Spec, m, m.Attempt); err != nil {
		return SinksResult{}, classified(err)
	}
	return SinksResult{Committed: true, Count: len(m.Transactions)}, nil
}

// RecoverSinks brings the sinks to the state of a manifest on behalf of a new attempt, before anything of it
// runs: what the manifest lists is committed, every other open transaction of a lower attempt aborted.
func (c *Control) RecoverSinks(ctx context.Context, in RecoverInput) (Recovery, error) {
	s, err := c.store(ctx, in.Job)
	if err != nil {
		return Recovery{}, classified(err)
	}
	defer beat(ctx, nil)()
	failpoint.Hit("recover.before-sinks")
	m, err := snapshot.ReadManifest(ctx, s, in.Job.UID, in.Manifest)
	if isNotFound(err) {
		return Recovery{Verdict: Again}, nil
	}
	if err != nil {
		return Recovery{}, classified(err)
	}
	if m.Kind != checkpoint.Durable {
		return Recovery{Verdict: Again}, nil
	}
	prog, err := c.program(ctx, s, in.Job)
	if err != nil {
		return Recovery{}, classified(err)
	}
	done, err := c.complete(ctx, s, prog.Spec, m)
	if err != nil {
		return Recovery{}, classified(err)
	}
	aborted, err := c.abortLeftovers(ctx, prog.Spec, m, in.Attempt)
	if err != nil {
		return Recovery{}, classified(err)
	}
	lost := len(done.Lost())
	r := Recovery{Verdict: Recovered, Committed: len(m.Transactions) - lost, Aborted: aborted, Lost: lost}
	switch done.Verdict() {
	case transaction.SomeLost:
		r.Verdict, r.Stake = SomeLost, Cut(done.Loss())
	case transaction.AllLost:
		r.Verdict, r.Stake = AllLost, Cut(done.Loss())
	}
	return r, nil
}

// complete carries out what the rules of package transaction order for a manifest's transactions, until it
// is known of each whether it is committed or lost.
func (c *Control) complete(ctx context.Context, s snapshot.Store, spec json.RawMessage, m checkpoint.Manifest) (*transaction.Completion, error) {
	marks, err := covered(ctx, s, m)
	if err != nil {
		return nil, err
	}
	done, err := transaction.NewCompletion(m, marks)
	if err != nil {
		return nil, err
	}
	for {
		step := done.Next()
		t := step.Transaction
		switch step.Action {
		case transaction.Commit, transaction.Abort:
			end := c.Transactions.Commit
			if step.Action == transaction.Abort {
				end = c.Transactions.Abort
			}
			o, err := end(ctx, spec, t)
			if err != nil {
				return nil, fmt.Errorf("end transaction %s of checkpoint %d: %w", t.ID, m.ID, err)
			}
			done.Report(t.ID, outcomes[o])
		case transaction.PutMarker:
			failpoint.Hit("marker.before-put")
			if err := snapshot.MarkCommitted(ctx, s, m.UID, m.ID); err != nil {
				return nil, fmt.Errorf("mark checkpoint %d as committed: %w", m.ID, err)
			}
			failpoint.Hit("marker.after-put")
			done.ReportMarker(true)
		case transaction.ReadMarker:
			exists, err := snapshot.IsCommitted(ctx, s, m.UID, m.ID)
			if err != nil {
				return nil, fmt.Errorf("read marker of checkpoint %d: %w", m.ID, err)
			}
			done.ReportMarker(exists)
		default:
			return done, nil
		}
	}
}

// outcomes are the answers of Transactions in the words of package transaction.
var outcomes = map[Outcome]transaction.Outcome{Committed: transaction.Committed, Lost: transaction.Lost}

// covered looks for the newest marker that may cover transactions of m. Markers below the oldest of them
// cover none.
func covered(ctx context.Context, s snapshot.Store, m checkpoint.Manifest) ([]job.CheckpointID, error) {
	oldest := m.ID
	for _, t := range m.Transactions {
		oldest = min(oldest, t.Checkpoint)
	}
	for id := m.ID; id >= oldest; id-- {
		exists, err := snapshot.IsCommitted(ctx, s, m.UID, id)
		if err != nil {
			return nil, fmt.Errorf("read marker of checkpoint %d: %w", id, err)
		}
		if exists {
			return []job.CheckpointID{id}, nil
		}
	}
	return nil, nil
}

// abortLeftovers aborts the open transactions of attempts below the one given, except those that m lists: a
// zombie may have opened one late, and it would block every reader.
func (c *Control) abortLeftovers(ctx context.Context, spec json.RawMessage, m checkpoint.Manifest, below job.Attempt) (int, error) {
	open, err := c.Transactions.Open(ctx, spec, m.UID)
	if err != nil {
		return 0, fmt.Errorf("list open transactions: %w", err)
	}
	listed := make([]checkpoint.Transaction, len(open))
	attempts := map[string]job.Attempt{}
	for i, t := range open {
		listed[i], attempts[t.ID] = t.Transaction, t.Attempt
	}
	left := transaction.Leftovers(listed, m, below)
	for i, t := range left {
		failpoint.Hit("leftover.before-abort")
		if err := c.Transactions.AbortOpen(ctx, spec, OpenTransaction{Transaction: t, Attempt: attempts[t.ID]}); err != nil {
			return i, fmt.Errorf("abort transaction %s of attempt %d: %w", t.ID, attempts[t.ID], err)
		}
		failpoint.Hit("leftover.after-abort")
	}
	return len(left), nil
}
