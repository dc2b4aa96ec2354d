package job

import "encoding/json"

// Deployment is the plan of one attempt. It is written to the snapshot store as attempt-<n> (create if
// absent) before anything of the attempt starts, and read by every node that takes part.
type Deployment struct {
	Ref
	// JobName is the workflow id of the StreamJob, for people and metrics only.
	JobName string `json:"job_name"`
	// Spec is the job spec as JSON. Every node compiles it to the same graph; GraphDigest proves it.
	Spec        json.RawMessage `json:"spec"`
	GraphDigest string          `json:"graph_digest"`
	// Restore is the checkpoint that this attempt starts from; always set (0 is the start position).
	Restore CheckpointID `json:"restore"`
	// FirstCheckpoint is the lowest id that a checkpoint of this attempt can have.
	FirstCheckpoint CheckpointID `json:"first_checkpoint"`
	Placement       Placement    `json:"placement"`
	// Storage is the URL of the snapshot store (s3://bucket/prefix or file:///path).
	Storage string `json:"storage"`
}
