// Package operator is the contract of the steps of a pipeline. Implementations live in subpackages and do
// not import each other.
package operator

import (
	"context"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// Output receives what an operator emits: the next operator of the chain, or the task's channels. Called
// on the subtask's goroutine. Emit takes over the batch.
type Output interface {
	Emit(b *batch.Batch) error
}

// OnError says what happens to a row that cannot be evaluated.
type OnError int

// The policies of on_error.
const (
	Fail OnError = iota
	Skip
	Divert
)

// Env is what an operator instance knows of its surroundings. It is valid for the life of the instance.
type Env struct {
	UID            string // the operator's uid
	Index          int    // subtask
	Parallelism    int
	MaxParallelism int
	KeyRange       job.KeyGroupRange
	// State is the keyed state of the subtask; nil for operators that did not ask for it.
	State state.Backend
	// Counters are the operator's counters, written by the subtask's goroutine.
	Counters *Counters
	OnError  OnError
}

// Counters are counted per operator and subtask. They are read by other goroutines while the subtask runs:
// use the methods.
type Counters struct {
	Late, Skipped, Rows counter
}

// Operator is one instance of a step. All methods are called on the subtask's goroutine, in this order:
// Open, then Process / Freeze in any order, then at most one End (after which only Freeze comes), then Close.
//
// Event time: b.Watermark is already the minimum over all inputs of the operator. An operator emits what
// the new watermark completes before it emits a batch that carries it; it emits the watermark onwards even
// if it has no rows to go with it (an empty batch). Batches emitted with a watermark promise that no later
// emitted row has a time at or before it.
type Operator interface {
	Open(ctx context.Context, env *Env, out Output) error
	// Process takes a batch from input (0 for operators with one). The operator may keep and share its
	// buffers but must not change them.
	Process(input int, b *batch.Batch) error
	// End tells that every input has ended: event time is over, emit what is left.
	End() error
	// Freeze takes the operator's state at this instant in O(1). nil if it has none outside env.State
	// (which the task freezes itself). The returned value is used on another goroutine.
	Freeze() Frozen
	// Restore is called after Open and before the first Process with every state of this operator in the
	// manifest, of all subtasks (the parallelism may have changed): only Inline ones, env.State is restored
	// by the task.
	Restore(states []checkpoint.OperatorState) error
	Close() error
}

// Frozen is an operator's own small state at a barrier.
type Frozen interface {
	// Inline returns its JSON, at most a few kilobytes.
	Inline() ([]byte, error)
}
