// Package activities holds the idempotent steps of the control plane: what workflows ask of the nodes, of
// the snapshot store and of the systems behind the sinks. It talks to the data plane through the interfaces
// declared here; cmd wires the implementations in.
package activities

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Node is the worker process that the node-bound activities run in (queue weir-node-<id>). All methods may
// be called concurrently.
type Node interface {
	ID() job.NodeID
	// RunTasks deploys dep at most once in the life of the process, or attaches to the deployment in
	// progress or running, or returns the remembered outcome of one that ended. It returns when the attempt
	// has ended on this node (never nil: *job.PeerLostError, *job.SubtaskError, *job.StoppedError, …), or
	// with ctx's cause as soon as ctx is done, leaving the tasks running: it watches, it does not own.
	RunTasks(ctx context.Context, dep job.Deployment) error
	// StopTasks ends the attempt on this node, remembers the stop of one that was never deployed here, and
	// aborts the node's own unprepared transactions, best effort.
	StopTasks(ctx context.Context, ref job.Ref) error
	// Snapshot injects the barrier into the node's sources (or joins a checkpoint that a peer's barrier
	// announced) and returns when the node's part object is durable. A declined checkpoint is a
	// *DeclinedError; it does not end the attempt.
	Snapshot(ctx context.Context, b checkpoint.Barrier) (checkpoint.Ack, error)
	// AwaitEnd returns nil when every source subtask of the attempt on this node has reached its end.
	AwaitEnd(ctx context.Context, ref job.Ref) error
	// Live returns the newest figures of the attempt on this node, for heartbeats.
	Live(ref job.Ref) Live
}

// Live are a node's fresh figures of one attempt.
type Live struct {
	Records    int64 `json:"records"`     // read by sources since the attempt began
	Emitted    int64 `json:"emitted"`     // written by sinks
	LagRecords int64 `json:"lag_records"` // still to read, as far as known; -1 unknown
	Late       int64 `json:"late"`
	Skipped    int64 `json:"skipped"`
}

// DeclinedError says that this node does not take part in a checkpoint (deadline passed, a newer barrier
// came, an upload failed). The checkpoint aborts; the attempt goes on.
type DeclinedError struct {
	ID  job.CheckpointID
	Why string
}

// Error implements error.
func (e *DeclinedError) Error() string { return "checkpoint " + e.ID.String() + " declined: " + e.Why }

// Members is the cluster as this process sees it (memberlist).
type Members interface {
	// Nodes lists the alive nodes with their free slots.
	Nodes() []job.NodeSlots
	// Watch returns the first of ids that is lost, or ctx's error. A node that was never seen counts as
	// lost only some seconds after this process joined the cluster.
	Watch(ctx context.Context, ids []job.NodeID) (job.NodeID, error)
}

// Plan is what the planner makes of a spec.
type Plan struct {
	Graph    job.Graph `json:"graph"`
	Name     string    `json:"name"`
	Bounded  bool      `json:"bounded"`
	Warnings []string  `json:"warnings,omitempty"`
	// Options are the spec's settings that the control plane acts on, defaults filled in.
	Options Options `json:"options"`
	// Summary is one line for the UI: sources → sinks, parallelism.
	Summary string `json:"summary"`
}

// Options are the settings of a job that the control plane acts on.
type Options struct {
	Interval  time.Duration `json:"interval"`
	Timeout   time.Duration `json:"timeout"`
	MinPause  time.Duration `json:"min_pause"`
	Keep      int           `json:"keep"`
	Aligned   bool          `json:"aligned"` // false: at-least-once
	Storage   string        `json:"storage"` // URL; empty: the cluster's default
	Restart   Restart       `json:"restart"`
	TxTimeout time.Duration `json:"tx_timeout"` // smallest sink transaction timeout; 0: no transactional sink
}

// Restart is the restart strategy; Kind is "backoff", "fixed", "rate" or "none".
type Restart struct {
	Kind       string        `json:"kind"`
	Initial    time.Duration `json:"initial,omitempty"`     // backoff
	Max        time.Duration `json:"max,omitempty"`         // backoff
	ResetAfter time.Duration `json:"reset_after,omitempty"` // backoff: a run this long forgets earlier failures
	Delay      time.Duration `json:"delay,omitempty"`       // fixed, rate
	Attempts   int           `json:"attempts,omitempty"`    // fixed: restarts allowed
	Failures   int           `json:"failures,omitempty"`    // rate
	Per        time.Duration `json:"per,omitempty"`         // rate
}

// Planner turns specs into plans. Both methods are called on queue weir, in any process.
type Planner interface {
	// Plan validates the spec completely and returns every mistake at once in a *SpecError.
	Plan(ctx context.Context, spec json.RawMessage) (Plan, error)
	// Start resolves start and end offsets, once, before attempt 1: the states of chk-0. It also checks
	// that brokers answer, topics exist and transaction timeouts fit; those errors are classified.
	Start(ctx context.Context, spec json.RawMessage) ([]checkpoint.OperatorState, error)
}

// SpecError is a spec with mistakes. Problems are complete messages with their places.
type SpecError struct{ Problems []string }

// Error implements error: one problem a line.
func (e *SpecError) Error() string {
	s := ""
	for i, p := range e.Problems {
		if i > 0 {
			s += "\n"
		}
		s += p
	}
	return s
}

// Outcome is the definitive answer about one transaction.
type Outcome string

// The outcomes. Committed: its records are visible, now or since long. Lost: the system aborted it or
// forgot it, it can never be committed.
const (
	Committed Outcome = "committed"
	Lost      Outcome = "lost"
)

// OpenTransaction is a transaction of ours that is ongoing in the sink's system.
type OpenTransaction struct {
	checkpoint.Transaction
	// Attempt is read from the transaction's id.
	Attempt job.Attempt
}

// Transactions acts on sink transactions from any process, by what the manifest says of them. spec is
// needed to reach the systems (connections, secrets resolved on this process).
type Transactions interface {
	// Commit drives one prepared transaction until the answer is definitive or ctx ends. Any error means
	// "not known yet".
	Commit(ctx context.Context, spec json.RawMessage, t checkpoint.Transaction) (Outcome, error)
	// Abort ends one transaction of the manifest without committing it; Committed if that was too late.
	Abort(ctx context.Context, spec json.RawMessage, t checkpoint.Transaction) (Outcome, error)
	// Open lists the ongoing transactions of uid in every system that the spec's sinks write to. A missing
	// right or the failure of any shard is an error, never an empty list.
	Open(ctx context.Context, spec json.RawMessage, uid job.UID) ([]OpenTransaction, error)
	// AbortOpen aborts and fences one ongoing transaction found by Open, if it is still the same one.
	AbortOpen(ctx context.Context, spec json.RawMessage, t OpenTransaction) error
}
