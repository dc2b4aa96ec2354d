// Package connector is the contract of the pipeline's edges: sources that read splits, sinks that write in
// transactions, and committers that end those transactions from any process. Implementations live in
// connector/kafka, connector/files, ….
//
// Secrets are resolved when a connector is opened on a node, never before.
package connector

import (
	"context"
	"encoding/json"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// NoEnd is the End of an unbounded split.
const NoEnd = -1

// Split is a part of a source that is read in order by one subtask, with its position: what a checkpoint
// saves of it.
type Split struct {
	// ID names the split within its source: "3" (partition) or a file's path.
	ID string `json:"id"`
	// Position is the offset of the next record to read: always a concrete number.
	Position int64 `json:"position"`
	// End is the position at which the split ends, or NoEnd.
	End int64 `json:"end"`
	// Data is what else the connector must remember (a topic's id), opaque here.
	Data json.RawMessage `json:"data,omitempty"`
}

// Done reports whether the split has been read to its end.
func (s Split) Done() bool { return s.End != NoEnd && s.Position >= s.End }

// Fetch is a run of records of one split, or news about it.
type Fetch struct {
	// Split is the split with Position *after* this fetch (past control records and gaps).
	Split Split
	// Records may be nil or empty: then only the position (or a newly found split) is news.
	Records *format.Records
	// Lag is the number of records between Position and what the split has now; −1 unknown. Of a split that
	// has nothing left but has not ended, 0 is said again at least every second: silence is not idleness.
	Lag int64
	// Gap is the number of records that were lost before these and skipped because the user allowed it
	// (on_lost: earliest).
	Gap int64
	// Err ends the reader: it is classified (fatal for lost data or missing rights).
	Err error
}

// Source is one configured source of a job.
type Source interface {
	// Resolve finds all splits with their start and end positions. It is called once, before attempt 1.
	Resolve(ctx context.Context) ([]Split, error)
	// Owner is the subtask of p that reads the split called id.
	Owner(id string, p int) int
	// Open starts reading the given splits (those that Owner gives to subtask index of p, positions
	// restored). Splits that are found later are announced by an empty Fetch; bounded sources find none.
	Open(ctx context.Context, index, p int, splits []Split) (Reader, error)
}

// Reader reads splits in the background. Fetches of one split are in order.
type Reader interface {
	// Fetches delivers what was read; at most a few fetches wait. It is closed after Close, or after every
	// split has reached its end. A nil-record Fetch tells that a split's position or end has been reached.
	Fetches() <-chan Fetch
	// Committed tells the positions of a checkpoint that is durable, for the outside world's monitoring
	// (consumer group offsets). Best effort, never blocks.
	Committed(splits []Split)
	// Close stops reading and waits for its goroutines. Fetches may still be buffered.
	Close() error
}

// WriterConfig says who a writer is.
type WriterConfig struct {
	Ref      job.Ref
	Operator string // uid of the sink
	Index    int    // subtask
	// Restored are the transactions of the restored manifest that belong to this subtask; RecoverSinks has
	// already decided them, they are never listed again.
	Restored []checkpoint.Transaction
	// Failed is called at most once, from any goroutine, when the writer fails in the background.
	Failed func(error)
}

// Sink is one configured sink of a job.
type Sink interface {
	Open(ctx context.Context, cfg WriterConfig) (Writer, error)
}

// Writer writes the rows of one sink subtask. Write, Prepare and Close are called by one goroutine.
type Writer interface {
	// Write takes the logical rows of b. It may block for back-pressure until ctx is done. b is not kept
	// after Write returns unless its buffers are only read.
	Write(ctx context.Context, b *batch.Batch) error
	// Prepare ends the current transaction's input at barrier n (PROTOCOL "Transactions"): everything
	// written before belongs to it. It returns at once; what follows waits until it is flushed. b.Committed
	// takes effect here.
	Prepare(b checkpoint.Barrier) Prepared
	// Close releases everything. It aborts the current, not prepared transaction, best effort and within
	// ctx; prepared ones stay open.
	Close(ctx context.Context) error
}

// Prepared is a pre-commit in progress.
type Prepared interface {
	// Wait returns when everything before the barrier is flushed: all transactions of the writer that are
	// prepared and not known to be committed, those of earlier checkpoints included. Nothing written =
	// nothing new. At-least-once writers return none. Called from another goroutine than the writer's.
	Wait(ctx context.Context) ([]checkpoint.Transaction, error)
}

// Outcome is the definitive answer about a transaction.
type Outcome int

// The outcomes. Lost: the system aborted it or forgot it; it can never be committed.
const (
	Committed Outcome = iota + 1
	Lost
)

// String returns the outcome in lower case.
func (o Outcome) String() string { return [...]string{"unknown", "committed", "lost"}[o] }

// Open is an ongoing transaction of ours, as the sink's system lists it.
type Open struct {
	Transaction checkpoint.Transaction
	Attempt     job.Attempt // read from its id
}

// Committer ends transactions from any process, by what the manifest says of them. Methods may be called
// concurrently. An error means "not known yet" and is classified.
type Committer interface {
	Commit(ctx context.Context, t checkpoint.Transaction) (Outcome, error)
	// Abort ends t without committing; Committed if it was too late for that.
	Abort(ctx context.Context, t checkpoint.Transaction) (Outcome, error)
	// Open lists the ongoing transactions of uid, from every broker or an error.
	Open(ctx context.Context, uid job.UID) ([]Open, error)
	// AbortOpen aborts and fences an ongoing transaction if it is still the same one.
	AbortOpen(ctx context.Context, o Open) error
	Close()
}
