package workflows

import (
	"slices"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// State is what one run of a StreamJob hands to the next: small, whatever the job's size. The spec and the
// plans are in the snapshot store.
type State struct {
	Planned activities.Planned `json:"planned"`
	// StartedAt is when the first run began to plan.
	StartedAt time.Time `json:"started_at"`
	// Attempt is the highest number claimed so far. Running is the deployed attempt; nil: to be planned.
	Attempt job.Attempt `json:"attempt"`
	Running *Running    `json:"running,omitempty"`
	// Next is the id of the next checkpoint, Decided the newest decided one, Durable the newest durable one,
	// Committed the newest whose transactions are all committed, Floor the id below which all are void.
	Next      job.CheckpointID `json:"next"`
	Decided   job.CheckpointID `json:"decided"`
	Durable   job.CheckpointID `json:"durable"`
	Committed job.CheckpointID `json:"committed"`
	Floor     job.CheckpointID `json:"floor"`
	// Begun and Ended are when the last checkpoint's barrier was due and when it was decided.
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended"`
	// Unretired counts durable checkpoints since retention ran.
	Unretired int      `json:"unretired"`
	Restarts  Restarts `json:"restarts"`
	// Avoid are nodes lost lately.
	Avoid []job.NodeID `json:"avoid,omitempty"`
	// SourcesEnded is the attempt whose sources have all reached their end, until a checkpoint is ordered.
	SourcesEnded job.Attempt `json:"sources_ended,omitempty"`
	// Succeeded and Failed count checkpoints, Runs counts runs of the workflow.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Runs      int `json:"runs"`
	// Checkpoints and Attempts are the latest ones, newest first.
	Checkpoints []CheckpointRecord `json:"checkpoints,omitempty"`
	Attempts    []AttemptRecord    `json:"attempts,omitempty"`
}

// StartOptions are the second input of a StreamJob.
type StartOptions = activities.StartOptions

// Running is the attempt that is deployed.
type Running struct {
	Attempt job.Attempt      `json:"attempt"`
	Restore job.CheckpointID `json:"restore"`
	Nodes   []job.NodeSlot   `json:"nodes"`
	Since   time.Time        `json:"since"`
}

// CheckpointRecord is one line of the checkpoint history.
type CheckpointRecord struct {
	ID      job.CheckpointID `json:"id"`
	Attempt job.Attempt      `json:"attempt"`
	// Result is one of the results of a checkpoint, such as "committed".
	Result string           `json:"result"`
	Reason string           `json:"reason,omitempty"`
	At     time.Time        `json:"at"`
	TookMs int64            `json:"took_ms"`
	Final  bool             `json:"final,omitempty"`
	Stats  checkpoint.Stats `json:"stats"`
}

// AttemptRecord is one line of the history of attempts.
type AttemptRecord struct {
	Attempt job.Attempt      `json:"attempt"`
	Restore job.CheckpointID `json:"restore"`
	Nodes   []job.NodeID     `json:"nodes"`
	Since   time.Time        `json:"since"`
	Until   *time.Time       `json:"until,omitempty"`
	// End is why it ended: a kind of failure, or "Stopped"; empty while it runs.
	End   string     `json:"end,omitempty"`
	Node  job.NodeID `json:"node,omitempty"`
	Cause string     `json:"cause,omitempty"`
}

const (
	keepCheckpoints = 20
	keepAttempts    = 10
	keepAvoid       = 8
)

// addCheckpoint puts a record at the head of the history and counts it.
func (s *State) addCheckpoint(r CheckpointRecord) {
	if r.Result == Committed || r.Result == Durable {
		s.Succeeded++
	} else {
		s.Failed++
	}
	s.Checkpoints = prepend(s.Checkpoints, r, keepCheckpoints)
}

// deployed notes that an attempt runs.
func (s *State) deployed(r Running) {
	s.Running = &r
	s.Begun, s.Ended = r.Since, r.Since
	rec := AttemptRecord{Attempt: r.Attempt, Restore: r.Restore, Since: r.Since}
	for _, n := range r.Nodes {
		rec.Nodes = append(rec.Nodes, n.Node)
	}
	s.Attempts = prepend(s.Attempts, rec, keepAttempts)
}

// stopped notes that the running attempt has ended.
func (s *State) stopped(e activities.Ending, at time.Time) {
	if s.Running == nil {
		return
	}
	if len(s.Attempts) > 0 && s.Attempts[0].Attempt == s.Running.Attempt {
		a := &s.Attempts[0]
		a.Until, a.End, a.Node, a.Cause = &at, e.Kind, e.Node, e.Cause
	}
	if e.Node != "" && (e.Kind == activities.TypePeerLost || e.Kind == activities.TypeNodeLeaving) {
		s.Avoid = slices.DeleteFunc(s.Avoid, func(n job.NodeID) bool { return n == e.Node })
		s.Avoid = prepend(s.Avoid, e.Node, keepAvoid)
	}
	s.Running = nil
}

// forgive strikes nodes that have taken part in a checkpoint off those to avoid: one that was lost for a while is as
// good as any once it has come back.
func (s *State) forgive(nodes []job.NodeID) {
	s.Avoid = slices.DeleteFunc(s.Avoid, func(n job.NodeID) bool { return slices.Contains(nodes, n) })
}

func prepend[T any](list []T, v T, keep int) []T {
	list = slices.Insert(list, 0, v)
	return list[:min(len(list), keep)]
}
