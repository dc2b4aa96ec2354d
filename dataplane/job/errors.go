package job

import (
	"errors"
	"fmt"
)

// Class is the one classification of an error, made where it is first understood.
type Class int

// The classes. Retryable: the same call may succeed later. Fatal: the attempt must end with this cause.
// Fenced: a newer attempt or another decision exists; whoever sees it stops quietly and obeys.
const (
	Retryable Class = iota
	Fatal
	Fenced
)

// String returns the class in words.
func (c Class) String() string { return [...]string{"retryable", "fatal", "fenced"}[c] }

type classified struct {
	class Class
	err   error
}

func (c *classified) Error() string { return c.err.Error() }
func (c *classified) Unwrap() error { return c.err }

// AsFatal marks err as fatal. AsFatal(nil) is nil.
func AsFatal(err error) error { return classify(Fatal, err) }

// AsFenced marks err as fenced. AsFenced(nil) is nil.
func AsFenced(err error) error { return classify(Fenced, err) }

// AsRetryable marks err as retryable, also where it wraps a fatal one. AsRetryable(nil) is nil.
func AsRetryable(err error) error { return classify(Retryable, err) }

func classify(c Class, err error) error {
	if err == nil {
		return nil
	}
	return &classified{class: c, err: err}
}

// ClassOf returns the outermost classification of err; an error that nobody classified is retryable.
func ClassOf(err error) Class {
	var c *classified
	if errors.As(err, &c) {
		return c.class
	}
	return Retryable
}

// PeerLostError says that a node of the attempt is gone. It ends the attempt, not the job.
type PeerLostError struct {
	Node NodeID
	Why  string
}

// Error implements error.
func (e *PeerLostError) Error() string { return fmt.Sprintf("peer lost: node %s: %s", e.Node, e.Why) }

// ErrNodeLeaving says that the node was asked to stop (SIGTERM) and gives up its tasks.
var ErrNodeLeaving = errors.New("node is leaving")

// SubtaskError is the cause of an attempt's end: which node, which subtask, which operator, why.
type SubtaskError struct {
	Node    NodeID
	Subtask SubtaskID
	Err     error
}

// Error implements error.
func (e *SubtaskError) Error() string {
	return fmt.Sprintf("node %s: subtask %s: %v", e.Node, e.Subtask, e.Err)
}

// Unwrap returns the cause.
func (e *SubtaskError) Unwrap() error { return e.Err }
