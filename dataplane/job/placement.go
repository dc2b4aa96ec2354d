package job

import (
	"fmt"
	"sort"
)

// NodeSlots is what the cluster knows of a node that can take work.
type NodeSlots struct {
	ID NodeID `json:"id"`
	// Addr is the host:port of the node's exchange listener.
	Addr string `json:"addr"`
	// Slots is the number of slots that are free for this job.
	Slots int `json:"slots"`
}

// Placement maps slots to nodes: slot i hosts subtask i of every vertex whose parallelism exceeds i.
type Placement struct {
	Slots []NodeSlot `json:"slots"`
}

// NodeSlot is the node that hosts one slot.
type NodeSlot struct {
	Node NodeID `json:"node"`
	Addr string `json:"addr"`
}

// TooFewSlotsError says that the cluster cannot host a job now.
type TooFewSlotsError struct{ Need, Have, Nodes int }

// Error implements error.
func (e *TooFewSlotsError) Error() string {
	return fmt.Sprintf("too few slots: the job needs %d, %d nodes have %d free; start more workers or lower parallelism", e.Need, e.Nodes, e.Have)
}

// Place spreads need slots over the nodes, most free slots first and then by id, one slot a round, so that
// load is even and the result a pure function of its input. It returns a *TooFewSlotsError if they do not fit.
func Place(need int, nodes []NodeSlots) (Placement, error) {
	ns := append([]NodeSlots(nil), nodes...)
	sort.Slice(ns, func(i, j int) bool {
		if ns[i].Slots != ns[j].Slots {
			return ns[i].Slots > ns[j].Slots
		}
		return ns[i].ID < ns[j].ID
	})
	have := 0
	for _, n := range ns {
		have += max(n.Slots, 0)
	}
	if have < need {
		return Placement{}, &TooFewSlotsError{Need: need, Have: have, Nodes: len(ns)}
	}
	var p Placement
	for len(p.Slots) < need {
		for i := range ns {
			if ns[i].Slots > 0 && len(p.Slots) < need {
				ns[i].Slots--
				p.Slots = append(p.Slots, NodeSlot{Node: ns[i].ID, Addr: ns[i].Addr})
			}
		}
	}
	return p, nil
}

// Nodes lists the distinct nodes of the placement in order of their first slot.
func (p Placement) Nodes() []NodeSlot {
	var out []NodeSlot
	seen := map[NodeID]bool{}
	for _, s := range p.Slots {
		if !seen[s.Node] {
			seen[s.Node] = true
			out = append(out, s)
		}
	}
	return out
}

// SlotsOf lists the slot indices that node id hosts, ascending.
func (p Placement) SlotsOf(id NodeID) []int {
	var out []int
	for i, s := range p.Slots {
		if s.Node == id {
			out = append(out, i)
		}
	}
	return out
}
