package sim

import (
	"fmt"

	"github.com/weirstream/weir/dataplane/job"
)

const maxMachines = 3

// clockError is how far wall clocks are off at most, in ticks.
const clockError = 3

// process is one operating system process: a node of the data plane, or a control worker.
type process struct {
	w       *world
	id      job.NodeID
	machine int
	control bool
	up      bool
	frozen  bool
	// crashes counts the lives of a control worker, which keeps its name.
	crashes int
	// hitAt is when it last crashed, froze or went on.
	hitAt int
	// cut: it cannot reach Temporal.
	cut bool
	// failsUntil is until when it cannot snapshot state: its disk is full.
	failsUntil int
	// skew is how far its wall clock is off, in ticks.
	skew  int
	slots int

	gate     *job.Gate
	attempts []*deployment
	// stopped are the attempts that it was told to stop, for a check.
	stopped map[job.Attempt]bool
}

func (h *process) live() bool { return h.up && !h.frozen }

// reachesTemporal reports whether the process works and can talk to Temporal.
func (h *process) reachesTemporal() bool { return h.live() && !h.cut && !h.w.temporal.down }

// deployment is what the process has of an attempt; nil if nothing.
func (h *process) deployment(ref job.Ref) *deployment {
	for _, d := range h.attempts {
		if d.ref == ref {
			return d
		}
	}
	return nil
}

// newNode starts a node process on a machine, under a new node id.
func (w *world) newNode(machine int) *process {
	w.started++
	h := &process{
		w: w, id: job.NodeID(fmt.Sprintf("n%d-%d", machine, w.started)), machine: machine, up: true,
		skew: w.rng.IntN(2*clockError+1) - clockError, slots: 2 + w.rng.IntN(3), gate: job.NewGate(), stopped: map[job.Attempt]bool{},
	}
	if old := w.machines[machine]; old != nil && old.up {
		w.zombies = append(w.zombies, old)
	}
	w.machines[machine] = h
	w.tracef("node %s starts", h.id)
	return h
}

// node returns the process with that id, running or not.
func (w *world) node(id job.NodeID) *process {
	for _, list := range [][]*process{w.machines, w.zombies} {
		for _, h := range list {
			if h.id == id {
				return h
			}
		}
	}
	return nil
}

// reach reports whether two processes can talk to each other.
func (w *world) reach(a, b *process) bool {
	return a.machine == b.machine || w.cutUntil[a.machine][b.machine] <= w.now
}

// lost reports whether the cluster's membership has given the node up.
func (w *world) lost(id job.NodeID) bool {
	h := w.node(id)
	return h == nil || !h.live() && w.now > h.hitAt+suspicion
}

// suspicion is how long the membership takes to declare a silent node dead.
const suspicion = 24

// crash kills the process: everything in it ends wherever it stands.
func (w *world) crash(h *process) {
	w.tracef("CRASH of %s", h.id)
	h.up, h.frozen, h.hitAt = false, false, w.now
	h.crashes++
	for _, p := range w.procs {
		if p.host == h {
			p.dead = true
		}
	}
}

// restart brings a crashed process back: a node as a new one, under a new id.
func (w *world) restart(h *process) {
	switch {
	case h.control:
		h.up, h.frozen = true, false
		w.tracef("worker %s restarts", h.id)
	case w.machines[h.machine] == h:
		w.newNode(h.machine)
	}
}
