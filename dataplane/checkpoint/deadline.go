package checkpoint

import (
	"fmt"
	"math"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// ExpiringError says that a prepared transaction may be aborted by its system before it could be committed:
// the checkpoint that lists it must not become durable.
type ExpiringError struct {
	Transaction Transaction
	// Left is the time until the system aborts it; negative when that is past.
	Left time.Duration
	// Margin is the least time that must be left.
	Margin time.Duration
}

// Error implements error.
func (e *ExpiringError) Error() string {
	return fmt.Sprintf("transaction %q of sink %q, subtask %d, begun before checkpoint %d, has %s left until its timeout of %s, less than the margin of %s",
		e.Transaction.ID, e.Transaction.Sink, e.Transaction.Subtask, e.Transaction.Checkpoint, e.Left,
		time.Duration(e.Transaction.TimeoutMs)*time.Millisecond, e.Margin)
}

// CheckDeadline refuses, with a fatal *ExpiringError about the most urgent one, when the begin of a transaction
// plus its timeout minus margin has passed at now (Unix milliseconds). Transactions without a timeout never
// expire.
func CheckDeadline(ts []Transaction, nowUnixMs int64, margin time.Duration) error {
	var worst *Transaction
	least := int64(math.MaxInt64)
	for i := range ts {
		t := &ts[i]
		if t.TimeoutMs == 0 {
			continue
		}
		end := t.BeginUnixMs + t.TimeoutMs
		if end < t.BeginUnixMs {
			continue // beyond the end of time
		}
		if left := end - nowUnixMs; left < least {
			worst, least = t, left
		}
	}
	if worst == nil || least >= margin.Milliseconds() {
		return nil
	}
	least = max(least, math.MinInt64/int64(time.Millisecond))
	return job.AsFatal(&ExpiringError{Transaction: *worst, Left: time.Duration(least) * time.Millisecond, Margin: margin})
}
