// Package workflows is the durable control plane: StreamJob, the JobManager of one job, and its children
// Attempt (one deployment) and Checkpoint (one snapshot). Workflows decide, activities act; decisions that
// need no Temporal are in files without its SDK (restart.go, pace.go, outcome.go, render.go, views.go).
//
// Determinism: nothing here reads a clock, draws a random number or ranges over a map. A change of the order
// of commands needs workflow.GetVersion with a named change id and a recorded history in testdata/replay.
package workflows

import "go.temporal.io/sdk/worker"

// The names that users and our own workflows call by.
const (
	// Queries of a StreamJob.
	QueryStatus      = "status"
	QueryCheckpoints = "checkpoints"
	QueryGraph       = "graph"
	QueryAttempts    = "attempts"

	// UpdateCheckpoint takes a checkpoint now and waits for its result.
	UpdateCheckpoint = "checkpoint"

	// SignalAttemptEnded (activities.AttemptEnded) and SignalSourcesEnded (SourcesEnded) come from Attempts.
	SignalAttemptEnded = "attempt-ended"
	SignalSourcesEnded = "sources-ended"
)

// The types of the application errors that workflows end with or refuse updates with.
const (
	TypeJobFailed   = "JobFailed"   // the job gave up; the message has the cause
	TypeRecordsLost = "RecordsLost" // some transactions of a durable checkpoint cannot be committed
	TypeAborted     = "CheckpointAborted"
	TypeDraining    = "Draining"   // try again in a moment
	TypeNotRunning  = "NotRunning" // the job has no running attempt at the moment
)

// Register registers the workflows with a worker that polls activities.ControlQueue.
func Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflow(StreamJob)
	r.RegisterWorkflow(Attempt)
	r.RegisterWorkflow(Checkpoint)
}
