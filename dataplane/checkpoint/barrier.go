package checkpoint

import (
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// Barrier is the control element that separates the records before checkpoint ID from those after it. It
// carries the same numbers as the node's Snapshot order, since it may arrive before that order does.
type Barrier struct {
	job.Ref
	ID job.CheckpointID `json:"id"`
	// Remaining is the time left until the deadline, counted by each node on its own monotonic clock from
	// receipt. When it has passed, alignment is released and the checkpoint declined locally.
	Remaining time.Duration `json:"remaining"`
	// Decided is the newest checkpoint that is decided in the store, Durable the newest durable one (state
	// files named by its manifest may be named again), Committed the newest whose transactions are all
	// known to be committed (slots covered by it are free once this barrier reaches the sink).
	Decided   job.CheckpointID `json:"decided"`
	Durable   job.CheckpointID `json:"durable"`
	Committed job.CheckpointID `json:"committed"`
	// Aligned is false in at-least-once mode: a channel that has delivered its barrier is read on while the
	// others are waited for.
	Aligned bool `json:"aligned"`
}
