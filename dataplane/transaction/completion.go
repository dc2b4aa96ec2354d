package transaction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Outcome is the definitive answer about one transaction.
type Outcome uint8

// The outcomes.
const (
	// Committed: its records are visible, now or since long.
	Committed Outcome = iota + 1
	// Lost: the system aborted it or knows it no more; it can never be committed.
	Lost
)

// Action is what to do next.
type Action uint8

// The actions.
const (
	// Commit: commit Step.Transaction, repeated until the answer is definitive, and Report it.
	Commit Action = iota + 1
	// Abort: abort Step.Transaction, repeated likewise; the answer is Lost, or Committed if that came too late.
	Abort
	// ReadMarker: something is lost. Look whether chk-<n>/committed exists, and ReportMarker.
	ReadMarker
	// PutMarker: every transaction is committed: write chk-<n>/committed, and ReportMarker(true).
	PutMarker
	// Done: Verdict says what to conclude.
	Done
)

// Step is an action with its transaction.
type Step struct {
	Action      Action
	Transaction checkpoint.Transaction
}

// Verdict is what a finished completion means.
type Verdict uint8

// The verdicts.
const (
	// Pending: not finished.
	Pending Verdict = iota
	// Complete: every transaction is committed and the marker says so.
	Complete
	// AllLost: none of the transactions that no marker covers is committed, and none can be any more. Recovery falls
	// back, loudly, to FallBackTarget.
	AllLost
	// SomeLost: some are committed and some are lost. Nothing can mend that; the job stops and names Lost.
	SomeLost
)

// String returns the verdict in words.
func (v Verdict) String() string {
	return [...]string{"pending", "complete", "all lost", "some lost"}[v]
}

// Completion decides what becomes of the transactions of one manifest. Drive it with
//
//	for {
//		switch s := c.Next(); s.Action { … carry it out, Report or ReportMarker … }
//	}
//
// Every action may be repeated, by any number of workers at once: a commit that was done already answers
// Committed. It is the whole of CommitSinks and the core of RecoverSinks; they differ in what they conclude from
// the verdict.
type Completion struct {
	id   job.CheckpointID
	todo []checkpoint.Transaction // oldest first
	// at is the position in todo; committed and lost are what came of those before it.
	at              int
	committed, lost []checkpoint.Transaction
	verdict         Verdict
}

// NewCompletion starts the completion of m's transactions. covered lists the checkpoints that have a committed
// marker (checkpoint.Summary.Committed): what a marker at or after a transaction's own checkpoint covers is
// committed, and its slot may be in use again, so it is never touched. If m itself is covered nothing is to do.
// If m is an abort record or a tombstone, the caller is superseded: a fenced error says so.
func NewCompletion(m checkpoint.Manifest, covered []job.CheckpointID) (*Completion, error) {
	if m.Kind != checkpoint.Durable {
		return nil, job.AsFenced(fmt.Errorf("complete transactions: %s stands there, no checkpoint", m.Name()))
	}
	c := &Completion{id: m.ID}
	upTo := job.CheckpointID(-1)
	for _, n := range covered {
		if n <= m.ID { // later ones belong to another line of history
			upTo = max(upTo, n)
		}
	}
	if upTo == m.ID {
		c.verdict = Complete
		return c, nil
	}
	for _, t := range m.Transactions {
		if t.Checkpoint > upTo {
			c.todo = append(c.todo, t)
		}
	}
	slices.SortStableFunc(c.todo, func(a, b checkpoint.Transaction) int {
		return cmp.Or(cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.BeginUnixMs, b.BeginUnixMs), cmp.Compare(a.ID, b.ID))
	})
	return c, nil
}

// Next returns what to do now. Without a report in between it returns the same again.
func (c *Completion) Next() Step {
	switch {
	case c.verdict != Pending:
		return Step{Action: Done}
	case c.at < len(c.todo):
		a := Commit
		if len(c.lost) > 0 && len(c.committed) == 0 {
			a = Abort // falling back must stay possible
		}
		return Step{Action: a, Transaction: c.todo[c.at]}
	case len(c.lost) == 0:
		return Step{Action: PutMarker}
	}
	return Step{Action: ReadMarker}
}

// Report tells the definitive outcome of the transaction that Next named.
func (c *Completion) Report(id string, o Outcome) {
	s := c.Next()
	if s.Action != Commit && s.Action != Abort || s.Transaction.ID != id {
		panic(fmt.Sprintf("transaction: outcome of %q reported, the next step is %+v", id, s))
	}
	switch o {
	case Committed:
		c.committed = append(c.committed, s.Transaction)
	case Lost:
		c.lost = append(c.lost, s.Transaction)
	default:
		panic(fmt.Sprintf("transaction: outcome %d of %q is not definitive", o, id))
	}
	c.at++
}

// ReportMarker tells whether chk-<n>/committed exists, after ReadMarker or PutMarker.
func (c *Completion) ReportMarker(exists bool) {
	switch a := c.Next().Action; {
	case a != ReadMarker && a != PutMarker, a == PutMarker && !exists:
		panic(fmt.Sprintf("transaction: marker of %d reported %v, the next action is %d", c.id, exists, a))
	case exists:
		c.verdict, c.lost = Complete, nil
	case len(c.committed) == 0:
		c.verdict = AllLost
	default:
		c.verdict = SomeLost
	}
}

// Verdict is Pending until Next says Done.
func (c *Completion) Verdict() Verdict { return c.verdict }

// Lost are the transactions that can never be committed, oldest first.
func (c *Completion) Lost() []checkpoint.Transaction { return c.lost }

// Loss describes what is at stake, for the message with which a job stops or falls back.
func (c *Completion) Loss() string {
	var b strings.Builder
	var records int64
	for _, t := range c.lost {
		records += t.Records
	}
	fmt.Fprintf(&b, "checkpoint %d: %d of %d transactions, %d records, were aborted by their system before they could be committed", c.id, len(c.lost), len(c.lost)+len(c.committed), records)
	for i, t := range c.lost {
		if i == 10 {
			fmt.Fprintf(&b, "; and %d more", len(c.lost)-i)
			break
		}
		fmt.Fprintf(&b, "; sink %s subtask %d: %d records of checkpoint %d in %s", t.Sink, t.Subtask, t.Records, t.Checkpoint, t.ID)
	}
	return b.String()
}
