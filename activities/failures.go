package activities

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/dataplane/job"
)

// The types of the application errors that the activities return. Workflows decide by type, people read
// the message.
const (
	TypeInvalidSpec = "InvalidSpec" // the spec has mistakes; not retried
	TypeRefused     = "Refused"     // the job cannot start as asked; not retried
	TypeFatal       = "Fatal"       // trying again cannot help; not retried
	TypeDamaged     = "Damaged"     // an object in the store does not verify; the job stops
	TypeTooFewSlots = "TooFewSlots" // the cluster is too small at the moment

	TypePeerLost    = "PeerLost"    // a node of the attempt is gone
	TypeNodeLeaving = "NodeLeaving" // the node was asked to stop
	TypeSubtask     = "Subtask"     // a subtask failed
	TypeStale       = "Stale"       // superseded by a higher attempt, or stopped before
	TypeDeclined    = "Declined"    // the node takes no part in this checkpoint
)

// maxCause bounds a message that goes through Temporal, which cuts activity failures at 4 KiB.
const maxCause = 1024

// Cut shortens text to the length that a cause may have.
func Cut(text string) string {
	if len(text) <= maxCause {
		return text
	}
	cut := maxCause
	for cut > 0 && text[cut]&0xC0 == 0x80 { // never inside a UTF-8 sequence
		cut--
	}
	return text[:cut] + "…"
}

// FailureDetails travel with the typed failures of RunTasks.
type FailureDetails struct {
	Node    job.NodeID `json:"node,omitempty"`
	Subtask string     `json:"subtask,omitempty"`
}

// failure is a typed error that Temporal does not retry.
func failure(kind, message string, details FailureDetails) error {
	return temporal.NewApplicationErrorWithOptions(Cut(message), kind,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{details}})
}

// taskFailure types the end of an attempt on a node, so that the Attempt can say who failed and why.
func taskFailure(node job.NodeID, err error) error {
	var (
		peer    *job.PeerLostError
		subtask *job.SubtaskError
		stale   *job.StaleError
		stopped *job.StoppedError
	)
	switch {
	case errors.As(err, &stale), errors.As(err, &stopped):
		return failure(TypeStale, err.Error(), FailureDetails{Node: node})
	case isDamaged(err):
		return failure(TypeDamaged, err.Error(), FailureDetails{Node: node})
	case errors.Is(err, job.ErrNodeLeaving):
		return failure(TypeNodeLeaving, fmt.Sprintf("node %s: %v", node, err), FailureDetails{Node: node})
	case errors.As(err, &peer):
		return failure(TypePeerLost, err.Error(), FailureDetails{Node: peer.Node})
	case errors.As(err, &subtask):
		return failure(TypeSubtask, err.Error(), FailureDetails{Node: subtask.Node, Subtask: subtask.Subtask.String()})
	default:
		return failure(TypeFatal, fmt.Sprintf("node %s: %v", node, err), FailureDetails{Node: node})
	}
}

// classified turns an error of a control activity into one that Temporal retries, or not.
func classified(err error) error {
	if err == nil {
		return nil
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return err
	}
	if isDamaged(err) {
		return failure(TypeDamaged, err.Error(), FailureDetails{})
	}
	if job.ClassOf(err) == job.Fatal {
		return failure(TypeFatal, err.Error(), FailureDetails{})
	}
	return temporal.NewApplicationErrorWithOptions(Cut(err.Error()), "Retryable", temporal.ApplicationErrorOptions{})
}

// failureUncut is failure for a message that is bounded already.
func failureUncut(kind, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{NonRetryable: true})
}
