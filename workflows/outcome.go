package workflows

import "github.com/weirstream/weir/dataplane/job"

// The results of a checkpoint.
const (
	Committed = "committed" // durable, and its transactions are all committed
	Durable   = "durable"   // durable; recovery commits its transactions
	Aborted   = "aborted"   // it will never be; the attempt goes on
	Lost      = "lost"      // durable, but a transaction of it is lost; the attempt ends and recovery decides
	Refused   = "refused"   // it could not be made durable safely; the attempt ends
	Undecided = "undecided" // the child ended without telling; planning decides
	// Superseded: no node takes it any more, and it was decided by somebody else: the workflow was reset to a time
	// before that, or the job has another planner.
	Superseded = "superseded"
)

// Action is what a StreamJob does after a checkpoint.
type Action struct {
	// Final: nothing comes after this checkpoint, the job is done.
	Final bool
	// EndAttempt: the attempt must end and the next one be planned, for the reason of the record.
	EndAttempt bool
	// Superseded: what the job remembers is out of date. It must plan anew from the store, which is no failure.
	Superseded bool
}

// after applies a checkpoint's record to the state and says what follows.
func (s *State) after(r CheckpointRecord) Action {
	s.Ended = r.At
	s.addCheckpoint(r)
	if r.Result != Undecided {
		s.Decided = max(s.Decided, r.ID)
	}
	if s.Running != nil && (r.Result == Committed || r.Result == Durable) {
		s.forgive(s.Running.nodes())
	}
	switch r.Result {
	case Committed:
		s.Durable, s.Committed = max(s.Durable, r.ID), max(s.Committed, r.ID)
		s.Unretired++
		return Action{Final: r.Final}
	case Durable:
		s.Durable = max(s.Durable, r.ID)
		s.Unretired++
		return Action{EndAttempt: r.Final}
	case Lost:
		s.Durable = max(s.Durable, r.ID)
		return Action{EndAttempt: true}
	case Refused, Undecided:
		return Action{EndAttempt: true}
	case Superseded:
		return Action{Superseded: true}
	}
	return Action{}
}

// retentionDue reports whether it is time to retire old checkpoints: listing the store after each of them
// would cost more than a checkpoint, so up to half as many as are kept may wait.
func retentionDue(unretired, keep int) bool { return unretired >= max(1, (keep+1)/2) }

// nextID takes the next checkpoint id.
func (s *State) nextID() job.CheckpointID {
	id := s.Next
	s.Next++
	return id
}
