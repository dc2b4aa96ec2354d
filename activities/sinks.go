package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
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
	e, err := c.settle(ctx, s, prog.Spec, m)
	if err != nil {
		return SinksResult{}, classified(err)
	}
	if len(e.lost) > 0 {
		return SinksResult{Count: len(e.committed), Stake: stake(e.lost)}, nil
	}
	if _, err := c.abortLower(ctx, prog.Spec, m, m.Attempt); err != nil {
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
	e, err := c.settle(ctx, s, prog.Spec, m)
	if err != nil {
		return Recovery{}, classified(err)
	}
	aborted, err := c.abortLower(ctx, prog.Spec, m, in.Attempt)
	if err != nil {
		return Recovery{}, classified(err)
	}
	r := Recovery{Verdict: Recovered, Committed: len(e.committed), Aborted: aborted, Lost: len(e.lost), Stake: stake(e.lost)}
	switch {
	case len(e.lost) > 0 && len(e.committed) > 0:
		r.Verdict = SomeLost
	case len(e.lost) > 0:
		r.Verdict = AllLost
	}
	return r, nil
}

// ends are the definitive answers about the transactions of one manifest.
type ends struct{ committed, lost []checkpoint.Transaction }

// settle commits the transactions of m, oldest first, and writes the marker if every one is committed. Where
// the marker stands already nothing is asked: a broker that has forgotten a transaction since, or fences
// it, says nothing about loss. When the oldest is lost and none is committed, the rest is aborted, so that
// falling back to the checkpoint before stays possible.
func (c *Control) settle(ctx context.Context, s snapshot.Store, spec json.RawMessage, m checkpoint.Manifest) (ends, error) {
	var e ends
	if done, err := snapshot.IsCommitted(ctx, s, m.UID, m.ID); err != nil || done {
		return e, err
	}
	for _, t := range oldestFirst(m.Transactions) {
		act := c.Transactions.Commit
		if len(e.lost) > 0 && len(e.committed) == 0 {
			act = c.Transactions.Abort
		}
		o, err := act(ctx, spec, t)
		if err != nil {
			return e, fmt.Errorf("settle transaction %s of checkpoint %d: %w", t.ID, m.ID, err)
		}
		if o == Committed {
			e.committed = append(e.committed, t)
			continue
		}
		// Another CommitSinks may have been faster and the id be in use again: read the marker first.
		if done, err := snapshot.IsCommitted(ctx, s, m.UID, m.ID); err != nil || done {
			return ends{}, err
		}
		e.lost = append(e.lost, t)
	}
	if len(e.lost) > 0 {
		return e, nil
	}
	if err := snapshot.MarkCommitted(ctx, s, m.UID, m.ID); err != nil {
		return e, fmt.Errorf("mark checkpoint %d as committed: %w", m.ID, err)
	}
	return e, nil
}

// oldestFirst orders transactions by the checkpoint that ended them and then by their begin.
func oldestFirst(ts []checkpoint.Transaction) []checkpoint.Transaction {
	ts = slices.Clone(ts)
	slices.SortStableFunc(ts, func(a, b checkpoint.Transaction) int {
		return cmp.Or(cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.BeginUnixMs, b.BeginUnixMs), cmp.Compare(a.ID, b.ID))
	})
	return ts
}

// abortLower aborts the open transactions of attempts below a, except those that m lists: a zombie may have
// opened one late, and it would block every reader.
func (c *Control) abortLower(ctx context.Context, spec json.RawMessage, m checkpoint.Manifest, a job.Attempt) (int, error) {
	open, err := c.Transactions.Open(ctx, spec, m.UID)
	if err != nil {
		return 0, fmt.Errorf("list open transactions: %w", err)
	}
	aborted := 0
	for _, t := range open {
		if t.Attempt >= a || listed(m, t.Transaction) {
			continue
		}
		if err := c.Transactions.AbortOpen(ctx, spec, t); err != nil {
			return aborted, fmt.Errorf("abort transaction %s of attempt %d: %w", t.ID, t.Attempt, err)
		}
		aborted++
	}
	return aborted, nil
}

// listed reports whether the manifest lists exactly this transaction: an id alone is not enough, since a
// newer transaction may be open under it.
func listed(m checkpoint.Manifest, t checkpoint.Transaction) bool {
	return slices.ContainsFunc(m.Transactions, func(l checkpoint.Transaction) bool {
		return l.ID == t.ID && l.ProducerID == t.ProducerID && l.ProducerEpoch == t.ProducerEpoch
	})
}

// stake says which records are at stake when transactions are lost.
func stake(lost []checkpoint.Transaction) string {
	if len(lost) == 0 {
		return ""
	}
	records := int64(0)
	var names []string
	for i, t := range lost {
		records += t.Records
		if i < 3 {
			names = append(names, fmt.Sprintf("%s (sink %s, subtask %d, checkpoint %d, %d records)", t.ID, t.Sink, t.Subtask, t.Checkpoint, t.Records))
		}
	}
	if len(lost) > len(names) {
		names = append(names, fmt.Sprintf("%d more", len(lost)-len(names)))
	}
	return fmt.Sprintf("%d transactions with %d records are lost: %s", len(lost), records, strings.Join(names, ", "))
}
