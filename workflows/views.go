package workflows

import (
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// The answers to queries: small, flat and in words, since people read them in a terminal.

// Status answers the query "status".
type Status struct {
	Job string  `json:"job"`
	UID job.UID `json:"uid,omitempty"`
	// State is starting, waiting, running, restarting, cancelling, finishing, failing, done, cancelled or failed.
	State string `json:"state"`
	// WaitingFor says what the job cannot do at the moment and why.
	WaitingFor string           `json:"waiting_for,omitempty"`
	Summary    string           `json:"summary,omitempty"`
	Attempt    job.Attempt      `json:"attempt,omitempty"`
	Nodes      []job.NodeID     `json:"nodes,omitempty"`
	Since      string           `json:"running_since,omitempty"`
	Durable    job.CheckpointID `json:"latest_checkpoint"`
	DurableAt  string           `json:"latest_checkpoint_at,omitempty"`
	InFlight   job.CheckpointID `json:"checkpoint_in_flight,omitempty"`
	Succeeded  int              `json:"checkpoints_succeeded"`
	Failed     int              `json:"checkpoints_failed"`
	// Records are those read by the running attempt before the latest checkpoint, Lag what was left then.
	Records     int64    `json:"records"`
	Lag         int64    `json:"lag_records"`
	StateBytes  int64    `json:"state_bytes"`
	Restarts    int      `json:"restarts"`
	LastFailure string   `json:"last_failure,omitempty"`
	Storage     string   `json:"storage,omitempty"`
	Bounded     bool     `json:"bounded,omitempty"`
	StartedAt   string   `json:"started_at,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

// CheckpointView is one line of the answer to "checkpoints", newest first.
type CheckpointView struct {
	ID       job.CheckpointID `json:"id"`
	Result   string           `json:"result"`
	At       string           `json:"at"`
	Took     string           `json:"took"`
	State    string           `json:"state"`
	Uploaded string           `json:"uploaded"`
	Records  int64            `json:"records"`
	Lag      int64            `json:"lag_records"`
	Align    string           `json:"align"`
	Sync     string           `json:"sync"`
	Attempt  job.Attempt      `json:"attempt"`
	Final    bool             `json:"final,omitempty"`
	Reason   string           `json:"reason,omitempty"`
}

// status describes the state; phase and waiting are what the run is at.
func (s *State) status(name, phase, waiting string, inFlight job.CheckpointID) Status {
	v := Status{
		Job: name, UID: s.Planned.Job.UID, State: phase, WaitingFor: waiting, Summary: s.Planned.Summary,
		Durable: s.Durable, InFlight: inFlight, Succeeded: s.Succeeded, Failed: s.Failed,
		Restarts: s.Restarts.Total, LastFailure: s.Restarts.Last, Storage: s.Planned.Job.Storage,
		Bounded: s.Planned.Bounded, StartedAt: stamp(s.StartedAt), Warnings: s.Planned.Warnings,
	}
	if len(s.Attempts) > 0 { // the latest one that ran, also when none does at the moment
		v.Attempt = s.Attempts[0].Attempt
	}
	if r := s.Running; r != nil {
		v.Attempt, v.Since = r.Attempt, stamp(r.Since)
		for _, n := range r.Nodes {
			v.Nodes = append(v.Nodes, n.Node)
		}
	}
	for _, c := range s.Checkpoints {
		if c.Result == Committed || c.Result == Durable {
			v.DurableAt, v.Records, v.Lag, v.StateBytes = stamp(c.At), c.Stats.Records, c.Stats.LagRecords, c.Stats.Bytes
			break
		}
	}
	return v
}

func (s *State) checkpoints() []CheckpointView {
	out := make([]CheckpointView, 0, len(s.Checkpoints))
	for _, c := range s.Checkpoints {
		out = append(out, c.view())
	}
	return out
}

func (c CheckpointRecord) view() CheckpointView {
	return CheckpointView{
		ID: c.ID, Result: c.Result, At: stamp(c.At), Took: millis(c.TookMs), State: size(c.Stats.Bytes),
		Uploaded: size(c.Stats.Uploaded), Records: c.Stats.Records, Lag: c.Stats.LagRecords,
		Align: millis(c.Stats.AlignMs), Sync: (time.Duration(c.Stats.SyncUs) * time.Microsecond).String(),
		Attempt: c.Attempt, Final: c.Final, Reason: c.Reason,
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
