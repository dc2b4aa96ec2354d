package checkpoint

import (
	"slices"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// ObjectKind says what a listed object is, by its key.
type ObjectKind string

// The kinds of object below a job's prefix.
const (
	AttemptPlan    ObjectKind = "attempt"
	SharedFile     ObjectKind = "shared"
	NodePart       ObjectKind = "part"
	Decision       ObjectKind = "manifest" // manifest, abort record or tombstone
	CommittedMark  ObjectKind = "committed"
	RetentionOrder ObjectKind = "retention"
)

// Listed is one object of a job, as a listing shows it.
type Listed struct {
	// Name is the key relative to the job's prefix, as in File.Name.
	Name string
	Kind ObjectKind
	// Attempt and ID are what the key says; 0 where it does not.
	Attempt  job.Attempt
	ID       job.CheckpointID
	Modified time.Time
}

// Summary is what a listing says about a job: the ground that planning stands on, whatever a workflow
// remembers (after a reset or the loss of Temporal's database it remembers nothing).
type Summary struct {
	// MaxAttempt is the highest attempt that any key or decision names; MaxID the highest checkpoint.
	MaxAttempt job.Attempt
	MaxID      job.CheckpointID
	// Decided are the checkpoints with a decision, ascending; Committed those with a marker, ascending.
	Decided   []job.CheckpointID
	Committed []job.CheckpointID
}

// Summarise reads a listing, in any order. Parts and files of checkpoints that never came to a decision count
// for the highest numbers too: nothing is numbered twice.
func Summarise(listing []Listed) Summary {
	var s Summary
	for _, o := range listing {
		s.MaxAttempt = max(s.MaxAttempt, o.Attempt)
		switch o.Kind {
		case SharedFile, NodePart, Decision, CommittedMark:
			s.MaxID = max(s.MaxID, o.ID)
		}
		switch o.Kind {
		case Decision:
			s.Decided = append(s.Decided, o.ID)
		case CommittedMark:
			s.Committed = append(s.Committed, o.ID)
		}
	}
	slices.Sort(s.Decided)
	slices.Sort(s.Committed)
	return s
}

// Note adds what a decision that has been read says: its attempt may have left nothing but this record.
func (s *Summary) Note(m Manifest) { s.MaxAttempt = max(s.MaxAttempt, m.Attempt) }

// HighestDecided is the highest checkpoint with a decision; ok is false when there is none, that is, when the
// job has never started.
func (s Summary) HighestDecided() (n job.CheckpointID, ok bool) {
	if len(s.Decided) == 0 {
		return 0, false
	}
	return s.Decided[len(s.Decided)-1], true
}

// NextAttempt is the number of the next attempt: above everything known and listed.
func (s Summary) NextAttempt(own job.Attempt) job.Attempt { return max(own, s.MaxAttempt) + 1 }

// ClaimID is the id that the planner of a new attempt claims: the one after the highest decided. Since
// checkpoint n+1 starts only when n is decided, no other id can have anything in flight.
func (s Summary) ClaimID() job.CheckpointID {
	n, ok := s.HighestDecided()
	if !ok {
		return 0
	}
	return n + 1
}

// CoveredUpTo is the highest committed checkpoint: every transaction that a barrier up to it ended is
// committed. ok is false when there is no marker.
func (s Summary) CoveredUpTo() (n job.CheckpointID, ok bool) {
	if len(s.Committed) == 0 {
		return 0, false
	}
	return s.Committed[len(s.Committed)-1], true
}

// NewestDurable returns the newest checkpoint among decisions (in any order), which must include every decision
// above it. Checkpoints below the newest one's floor are void, whatever stands there.
func NewestDurable(decisions []Manifest) (Manifest, bool) {
	var newest Manifest
	found := false
	for _, m := range decisions {
		if m.Kind == Durable && (!found || m.ID > newest.ID) {
			newest, found = m, true
		}
	}
	return newest, found
}
