package task

import (
	"context"
	"errors"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
)

// ErrWoken is returned by Gate.Next when Wake was called: there is something in the mailbox.
var ErrWoken = errors.New("woken")

// Gate is the reading side of all channels into one subtask. Called by the subtask only, but for Wake.
type Gate interface {
	// Next returns the next element of a channel that is not blocked, fairly, waiting for one.
	Next(ctx context.Context) (channel int, e batch.Element, err error)
	// Ready reports whether Next would return an element at once.
	Ready() bool
	// Block stops reading a channel, Unblock reads all again.
	Block(channel int)
	Unblock()
	// Wake makes the current or next Next return ErrWoken. Any goroutine.
	Wake()
}

// Output is the writing side of one outgoing edge: it distributes batches over the channels to the subtasks
// of the next vertex. Called by the subtask only. Send blocks for credit until ctx is done.
type Output interface {
	Send(ctx context.Context, b *batch.Batch) error
	// Flush sends what is gathered in open batches, watermarks included.
	Flush(ctx context.Context) error
	// Barrier flushes, then sends the barrier to every channel.
	Barrier(ctx context.Context, b checkpoint.Barrier) error
	// End flushes, then tells every channel that no more records come.
	End(ctx context.Context) error
}
