package worker

import (
	"context"
	"errors"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/node"
)

// nodeActivities speaks the control plane's words for a node.
type nodeActivities struct{ *node.Node }

var _ activities.Node = nodeActivities{}

// Snapshot implements activities.Node.
func (n nodeActivities) Snapshot(ctx context.Context, b checkpoint.Barrier) (checkpoint.Ack, error) {
	ack, err := n.Node.Snapshot(ctx, b)
	var d *node.DeclinedError
	if errors.As(err, &d) {
		err = &activities.DeclinedError{ID: d.ID, Why: d.Why}
	}
	return ack, err
}

// Live implements activities.Node.
func (n nodeActivities) Live(ref job.Ref) activities.Live {
	f, ok := n.FiguresOf(ref)
	if !ok {
		return activities.Live{LagRecords: -1}
	}
	var l activities.Live
	for _, s := range f.Subtasks {
		if s.Source {
			l.Records += s.Records
			if s.Lag < 0 || l.LagRecords < 0 {
				l.LagRecords = -1
			} else {
				l.LagRecords += s.Lag
			}
		}
		l.Emitted += s.Emitted
		l.Late += s.Late
		l.Skipped += s.Skipped
	}
	return l
}
