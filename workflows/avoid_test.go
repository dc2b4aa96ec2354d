package workflows

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// TestForgives checks that a node which was lost, came back and took part in a checkpoint is not avoided any more: a
// placement that avoids it would wait for others first.
func TestForgives(t *testing.T) {
	var s State
	s.deployed(Running{Attempt: 1, Nodes: []job.NodeSlot{{Node: "a"}, {Node: "b"}}})
	s.stopped(activities.Ending{Kind: activities.TypePeerLost, Node: "a"}, epoch)
	s.deployed(Running{Attempt: 2, Nodes: []job.NodeSlot{{Node: "b"}}})
	s.after(CheckpointRecord{ID: 1, Result: Committed})
	s.stopped(activities.Ending{Kind: activities.TypePeerLost, Node: "b"}, epoch)
	if want := []job.NodeID{"b", "a"}; !slices.Equal(s.Avoid, want) {
		t.Errorf("got %v to avoid, want %v", s.Avoid, want)
	}
	s.deployed(Running{Attempt: 3, Nodes: []job.NodeSlot{{Node: "a"}, {Node: "c"}}})
	s.after(CheckpointRecord{ID: 2, Result: Aborted})
	if want := []job.NodeID{"b", "a"}; !slices.Equal(s.Avoid, want) {
		t.Errorf("got %v to avoid after an aborted checkpoint, want %v", s.Avoid, want)
	}
	s.after(CheckpointRecord{ID: 3, Result: Durable})
	if want := []job.NodeID{"b"}; !slices.Equal(s.Avoid, want) {
		t.Errorf("got %v to avoid, want %v", s.Avoid, want)
	}
}
