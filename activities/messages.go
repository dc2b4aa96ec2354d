package activities

import (
	"encoding/json"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// The inputs and results of the activities. They pass through Temporal's history, so they are small:
// whatever may be large lies in the snapshot store and goes by reference.

// Job names a job to every activity: who it is and where its objects are.
type Job struct {
	// Name is the StreamJob's workflow id, Run the first run id of its chain of runs: a StreamJob that was
	// started later under the same name has another one.
	Name string `json:"name"`
	Run  string `json:"run"`
	// UID is this life of the job.
	UID job.UID `json:"uid"`
	// Storage is the URL of the snapshot store, Spec the key of the SpecObject in it.
	Storage string `json:"storage"`
	Spec    string `json:"spec"`
}

// Ref is the reference of one attempt of the job.
func (j Job) Ref(a job.Attempt) job.Ref { return job.Ref{UID: j.UID, Attempt: a} }

// SpecObject is what stands at Job.Spec: the spec and what the planner made of it, so that no later step
// has to plan again.
type SpecObject struct {
	Spec json.RawMessage `json:"spec"`
	Plan Plan            `json:"plan"`
}

// PlanJobInput is a spec to be planned.
type PlanJobInput struct {
	Name string          `json:"name"`
	Run  string          `json:"run"`
	Spec json.RawMessage `json:"spec"`
	// Options are StartOptions as the user gave them; empty: none.
	Options json.RawMessage `json:"options,omitempty"`
}

// StartOptions say how to start a job: the second input of a StreamJob.
type StartOptions struct {
	// From is "" (refuse when checkpoints of an unfinished job exist), FromLatest (go on from them) or
	// FromFresh (leave them alone and begin again).
	From string `json:"from,omitempty"`
	// HistoryLimit makes a run of the workflow continue as new after that many history events; 0 leaves it
	// to the server.
	HistoryLimit int `json:"history_limit,omitempty"`
}

// The values of StartOptions.From.
const (
	FromLatest = "latest"
	FromFresh  = "fresh"
)

// Planned is what a StreamJob knows of its job for the rest of its life.
type Planned struct {
	Job     Job     `json:"job"`
	Options Options `json:"options"`
	// Graph is for people: without details where those are long.
	Graph    job.Graph `json:"graph"`
	Slots    int       `json:"slots"`
	Bounded  bool      `json:"bounded"`
	Summary  string    `json:"summary"`
	Warnings []string  `json:"warnings,omitempty"`
	// Start are the options that the job was started with.
	Start StartOptions `json:"start"`
}

// ClaimInput asks for a new attempt number.
type ClaimInput struct {
	Job Job `json:"job"`
	// Above is the highest attempt that the asker knows of; the new one is higher.
	Above job.Attempt `json:"above"`
	// OnlyIfNewest makes the claim void when the store knows of an attempt above Above: somebody else has
	// planned since.
	OnlyIfNewest bool `json:"only_if_newest,omitempty"`
}

// Claim is a new attempt number and the state of the job's checkpoints at that moment.
type Claim struct {
	Attempt job.Attempt `json:"attempt"`
	// Newest is the newest durable checkpoint, Final whether nothing comes after it.
	Newest job.CheckpointID `json:"newest"`
	Final  bool             `json:"final,omitempty"`
	// First is the lowest checkpoint id that the attempt may use.
	First job.CheckpointID `json:"first"`
	// Floor is the id below which every checkpoint is void.
	Floor job.CheckpointID `json:"floor"`
	// Superseded is set (and nothing else) when OnlyIfNewest was asked and does not hold.
	Superseded bool `json:"superseded,omitempty"`
}

// RecoverInput asks to bring the transactions of a manifest to their end on behalf of a new attempt.
type RecoverInput struct {
	Job      Job              `json:"job"`
	Attempt  job.Attempt      `json:"attempt"`
	Manifest job.CheckpointID `json:"manifest"`
}

// The verdicts of RecoverSinks.
const (
	// Recovered: every transaction of the manifest is committed.
	Recovered = "recovered"
	// Again: the manifest is no longer there; plan again.
	Again = "again"
	// AllLost: the systems aborted all of them; fall back to the checkpoint before.
	AllLost = "all_lost"
	// SomeLost: some are committed, some lost; the job stops.
	SomeLost = "some_lost"
)

// Recovery is what RecoverSinks found.
type Recovery struct {
	Verdict   string `json:"verdict"`
	Committed int    `json:"committed,omitempty"`
	Aborted   int    `json:"aborted,omitempty"`
	Lost      int    `json:"lost,omitempty"`
	// Stake says which records are at stake when transactions are lost.
	Stake string `json:"stake,omitempty"`
}

// FallBackInput asks to repeat, as checkpoint ID, the newest durable checkpoint below Lost.
type FallBackInput struct {
	Job     Job              `json:"job"`
	Attempt job.Attempt      `json:"attempt"`
	Lost    job.CheckpointID `json:"lost"`
	ID      job.CheckpointID `json:"id"`
}

// FellBack is the checkpoint whose content ID repeats. Taken: another decision stands at ID; plan again.
type FellBack struct {
	From  job.CheckpointID `json:"from"`
	Taken bool             `json:"taken,omitempty"`
}

// PlaceInput asks for nodes for an attempt.
type PlaceInput struct {
	Job     Job              `json:"job"`
	Attempt job.Attempt      `json:"attempt"`
	Restore job.CheckpointID `json:"restore"`
	First   job.CheckpointID `json:"first"`
	Slots   int              `json:"slots"`
	// Avoid are nodes that were lost a moment ago: they are used only when the others have too few slots.
	Avoid []job.NodeID `json:"avoid,omitempty"`
}

// Placed is the attempt's placement, which now stands in the store as attempt-<n>.
type Placed struct {
	Nodes []job.NodeSlot `json:"nodes"`
	// Watchers are nodes that can watch the attempt's nodes, the best first: those outside the attempt.
	Watchers []job.NodeID `json:"watchers"`
	// Taken: the number was used by somebody else; plan again.
	Taken bool `json:"taken,omitempty"`
}

// TaskInput orders something of one attempt on one node.
type TaskInput struct {
	Job     Job         `json:"job"`
	Attempt job.Attempt `json:"attempt"`
}

// WatchInput names the nodes to watch.
type WatchInput struct {
	Job     Job          `json:"job"`
	Attempt job.Attempt  `json:"attempt"`
	Nodes   []job.NodeID `json:"nodes"`
}

// Watched is why a watch ended: a node is lost, or the StreamJob is closed.
type Watched struct {
	Lost job.NodeID `json:"lost,omitempty"`
	// Gone are all nodes that were not among the living then, Lost included.
	Gone   []job.NodeID `json:"gone,omitempty"`
	Closed bool         `json:"closed,omitempty"`
}

// SnapshotInput orders one node's share of a checkpoint.
type SnapshotInput struct {
	Barrier checkpoint.Barrier `json:"barrier"`
	// Hold is how long the node waits before it injects the barrier: workflow timers are no finer than a
	// second, so shorter intervals are paced here.
	Hold time.Duration `json:"hold,omitempty"`
}

// CommitInput asks to make a checkpoint durable.
type CommitInput struct {
	Job     Job              `json:"job"`
	Attempt job.Attempt      `json:"attempt"`
	ID      job.CheckpointID `json:"id"`
	Acks    []checkpoint.Ack `json:"acks"`
	// Floor is the id below which every checkpoint is void.
	Floor job.CheckpointID `json:"floor"`
}

// AbortInput asks to decide that a checkpoint never will be.
type AbortInput struct {
	Job     Job              `json:"job"`
	Attempt job.Attempt      `json:"attempt"`
	ID      job.CheckpointID `json:"id"`
	Floor   job.CheckpointID `json:"floor"`
	Reason  string           `json:"reason"`
}

// The verdicts about a checkpoint.
const (
	// Durable: the manifest stands.
	Durable = "durable"
	// Aborted: an abort record stands; the attempt goes on.
	Aborted = "aborted"
	// Refused: an abort record stands and the attempt must end (acks that do not match the plan, or a
	// transaction too old to be committed in time).
	Refused = "refused"
)

// Decision is what stands in the store at a checkpoint's key, as read or written.
type Decision struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	// Foreign: an abort was asked for, and another decision stood there.
	Foreign bool `json:"foreign,omitempty"`
	// The rest describes a durable checkpoint.
	Final        bool             `json:"final,omitempty"`
	Transactions int              `json:"transactions,omitempty"`
	Stats        checkpoint.Stats `json:"stats"`
}

// SinksInput asks to commit the transactions of a durable checkpoint.
type SinksInput struct {
	Job     Job              `json:"job"`
	Attempt job.Attempt      `json:"attempt"`
	ID      job.CheckpointID `json:"id"`
}

// SinksResult is the definitive answer about a checkpoint's transactions.
type SinksResult struct {
	// Committed is false when a transaction is lost: the attempt must end and RecoverSinks decides.
	Committed bool   `json:"committed"`
	Count     int    `json:"count,omitempty"`
	Stake     string `json:"stake,omitempty"`
}

// RetentionInput asks to retire what is no longer needed.
type RetentionInput struct {
	Job  Job `json:"job"`
	Keep int `json:"keep"`
}

// Retention is what was retired.
type Retention struct {
	Checkpoints int `json:"checkpoints"`
	Objects     int `json:"objects"`
	// Floor is the id below which every checkpoint is void now.
	Floor job.CheckpointID `json:"floor"`
}

// AttemptEnded is the end of an attempt, as told to its StreamJob.
type AttemptEnded struct {
	UID     job.UID     `json:"uid"`
	Attempt job.Attempt `json:"attempt"`
	Outcome Ending      `json:"outcome"`
}

// Ending is why an attempt ended.
type Ending struct {
	// Kind is Stopped or one of the failure types.
	Kind string     `json:"kind"`
	Node job.NodeID `json:"node,omitempty"`
	// Cause is a message of at most a kilobyte.
	Cause string `json:"cause,omitempty"`
}

// Stopped is the Kind of an attempt that ended because its job asked it to.
const Stopped = "Stopped"
