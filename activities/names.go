package activities

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/job"
)

// ControlQueue is the task queue of the workflows and of the activities that any process can run.
const ControlQueue = "weir"

// NodeQueue is the task queue that only the process of one node polls.
func NodeQueue(id job.NodeID) string { return "weir-node-" + string(id) }

// AttemptID is the workflow id of one attempt of a job. name is the StreamJob's workflow id.
func AttemptID(name string, ref job.Ref) string {
	return fmt.Sprintf("%s/%s/attempt/%d", name, ref.UID, ref.Attempt)
}

// CheckpointID is the workflow id of one checkpoint of a job.
func CheckpointID(name string, uid job.UID, id job.CheckpointID) string {
	return fmt.Sprintf("%s/%s/checkpoint/%d", name, uid, id)
}

// The search attributes that a StreamJob sets where the namespace has them.
const (
	AttributeState        = "WeirJobState"         // Keyword: starting, running, restarting, …
	AttributeUID          = "WeirJobUid"           // Keyword
	AttributeCheckpoint   = "WeirLastCheckpointId" // Int
	AttributeCheckpointAt = "WeirLastCheckpointAt" // Datetime
	AttributeLag          = "WeirLagRecords"       // Int
)
