package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// cause is the message of the innermost error that we made, without the wrapping that Temporal puts around
// activities and children.
func cause(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return fmt.Sprintf("no answer in time (%s)", timeout.TimeoutType())
	}
	return err.Error()
}

// kind is the type of the application error inside err; "" if there is none.
func kind(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

// endingOf says why RunTasks ended on node n.
func endingOf(n job.NodeID, err error) activities.Ending {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		e := activities.Ending{Kind: app.Type(), Node: n, Cause: app.Message()}
		var d activities.FailureDetails
		if app.HasDetails() && app.Details(&d) == nil && d.Node != "" {
			e.Node = d.Node
		}
		return e
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return activities.Ending{Kind: activities.TypePeerLost, Node: n, Cause: fmt.Sprintf("peer lost: node %s: no sign of life (%s)", n, timeout.TimeoutType())}
	}
	if err == nil {
		return activities.Ending{Kind: activities.Stopped, Node: n}
	}
	return activities.Ending{Kind: activities.TypeFatal, Node: n, Cause: activities.Cut(err.Error())}
}

// final reports whether trying a planning step again cannot help.
func final(err error) bool {
	switch kind(err) {
	case activities.TypeInvalidSpec, activities.TypeRefused, activities.TypeFatal, activities.TypeDamaged:
		return true
	}
	return false
}
