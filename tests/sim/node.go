package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// The node side: job.Gate decides who may run, checkpoint.NodeBook what a checkpoint needs, as in package node.

// deployment is one attempt on one node.
//
//	deploying ─► connecting ─► started ─► ended ─► done
type deployment struct {
	w     *world
	host  *process
	ref   job.Ref
	dep   job.Deployment
	graph job.Graph
	// connecting: it is restored and waits for its peers.
	connecting, started, ended, done bool
	outcome                          error
	lower                            []*deployment
	procs                            []*proc
	watchers                         int
	aloneSince                       int
	// wantedAt is when its Attempt was last open, or the node could not ask; unclear: the broker did not answer
	// whether it has aborted a transaction. Both serve checks.
	wantedAt int
	unclear  bool

	manifest checkpoint.Manifest
	book     *checkpoint.NodeBook
	reuse    *checkpoint.ReuseSet
	pages    map[job.CheckpointID]*page
	// named are all files that this node ever named in the attempt, for a broken rule.
	named   map[string]checkpoint.File
	sources []*source
	tasks   []*counter
}

// page is the doing behind one open checkpoint.
type page struct {
	barrier  checkpoint.Barrier
	deadline int
	ack      checkpoint.Ack
	err      error
	settled  bool
	dropped  bool
}

var (
	errEnded = errors.New("the attempt has ended on this node")
	// aloneAfter is how long nobody may watch before the node asks Temporal.
	aloneAfter = ticks(10 * time.Second)
	// connectWithin is how long a node waits for its peers.
	connectWithin = ticks(45 * time.Second)
	// silence is how long a peer may be silent before its connection counts as broken.
	silence = ticks(2500 * time.Millisecond)
)

// spawn starts a coroutine that ends with the attempt.
func (d *deployment) spawn(name string, body func(*proc)) {
	d.procs = append(d.procs, d.w.spawn(fmt.Sprintf("%s#%d@%s", name, d.ref.Attempt, d.host.id), d.host, body))
}

// runTasks is the activity: it deploys once, or attaches; it watches, it does not own.
func (w *world) runTasks(p *proc, x *execution, h *process, a job.Attempt) error {
	dep, err := readDeployment(p, a)
	if err != nil {
		return err
	}
	p.step()
	d, err := h.admit(dep)
	if err != nil {
		return permanent{err}
	}
	d.watchers++
	p.await(func() bool { return d.done || (x.cancelled || x.forgotten) && h.reachesTemporal() })
	d.watchers--
	d.aloneSince = w.now
	switch {
	case d.done:
		return permanent{d.outcome}
	case x.cancelled && !x.forgotten || w.broken(WatcherOwns):
		d.end(errors.New("cancelled"))
	}
	return errTimeout
}

// admit passes the gate, as Node.admit does.
func (h *process) admit(dep job.Deployment) (*deployment, error) {
	if err := h.see(dep.Ref); err != nil {
		return nil, err
	}
	if h.w.broken(ForgetStops) || h.w.broken(Redeploy) {
		h.forget(dep.Ref)
	}
	first, err := h.gate.Admit(dep.Ref)
	if err != nil {
		return nil, err
	}
	if !first {
		h.w.count("RunTasks attached")
		return h.deployment(dep.Ref), nil
	}
	if h.stopped[dep.Attempt] {
		h.w.fail("STOPPED", "%s deploys attempt %d after it was told to stop it", h.id, dep.Attempt)
	}
	d := &deployment{
		w: h.w, host: h, ref: dep.Ref, dep: dep, graph: h.w.graphBy(dep.GraphDigest), pages: map[job.CheckpointID]*page{}, named: map[string]checkpoint.File{},
		aloneSince: h.w.now,
	}
	for _, o := range h.attempts {
		if o.ref.Attempt < dep.Attempt && !o.done {
			d.lower = append(d.lower, o)
		}
	}
	h.attempts = append(h.attempts, d)
	d.spawn("deploy", d.deploy)
	return d, nil
}

// see tells the gate of an attempt; lower ones end.
func (h *process) see(r job.Ref) error {
	if h.w.broken(NoFence) {
		return nil
	}
	newer, err := h.gate.See(r)
	if newer {
		for _, o := range h.attempts {
			if o.ref.Attempt < r.Attempt {
				o.end(&job.StaleError{Ref: o.ref, Highest: r.Attempt})
			}
		}
	}
	return err
}

// forget breaks one of two rules: the gate loses what it knows of stops, or of deployments that have ended.
func (h *process) forget(r job.Ref) {
	d := h.deployment(r)
	if d != nil && (!d.done || !h.w.broken(Redeploy)) {
		return
	}
	h.attempts = without(h.attempts, d)
	highest := h.gate.Highest(r.UID)
	h.gate = job.NewGate()
	_, _ = h.gate.See(ref(highest)) // a new gate refuses nothing
	for _, o := range h.attempts {
		if o.ref.Attempt == highest {
			_, _ = h.gate.Admit(o.ref)
		}
	}
	if !h.w.broken(ForgetStops) {
		for a := range h.stopped {
			h.gate.Stop(ref(a))
		}
	}
}

// stopTasks is the activity: it ends the attempt here, or makes sure that it never starts.
func (w *world) stopTasks(p *proc, h *process, a job.Attempt) {
	p.step()
	_ = h.see(ref(a)) // a superseded attempt has been ended
	h.gate.Stop(ref(a))
	h.stopped[a] = true
	if d := h.deployment(ref(a)); d != nil {
		d.end(&job.StoppedError{Ref: ref(a)})
		p.await(func() bool { return d.done })
	}
}

// end stops the attempt: its coroutines go, then its own open transactions are aborted, best effort.
func (d *deployment) end(why error) {
	if d.ended {
		return
	}
	d.ended, d.outcome = true, why
	d.w.tracef("%s: attempt %d ends: %v", d.host.id, d.ref.Attempt, why)
	for _, p := range d.procs {
		p.dead = true
	}
	d.obligeAborts()
	d.w.spawn(fmt.Sprintf("close#%d@%s", d.ref.Attempt, d.host.id), d.host, func(p *proc) {
		if !d.w.broken(NoOwnAbort) {
			for _, c := range d.tasks {
				d.unclear = c.sink.abortCurrent(p) != nil || d.unclear
			}
		}
		d.done = true
	})
}

func (d *deployment) deploy(p *proc) {
	w := d.w
	p.await(func() bool {
		for _, l := range d.lower {
			if !l.done {
				return false
			}
		}
		return true
	})
	p.at("deploy")
	p.step()
	if err := d.restore(p); err != nil {
		d.end(err)
		return
	}
	p.at("restored")
	d.connecting = true
	until := w.now + connectWithin
	p.await(func() bool { return d.ended || d.connected() || w.now > until })
	if !d.connected() {
		d.end(errors.New("the peers did not come"))
		return
	}
	p.step()
	d.started = true
	w.tracef("%s: attempt %d runs from checkpoint %d", d.host.id, d.ref.Attempt, d.dep.Restore)
	for _, s := range d.sources {
		d.spawn(fmt.Sprintf("source%d", s.index), s.run)
	}
	for _, c := range d.tasks {
		d.spawn(fmt.Sprintf("count%d", c.index), c.run)
		d.spawn(fmt.Sprintf("sink%d", c.index), c.sink.run)
	}
	d.spawn("peers", func(p *proc) {
		p.await(func() bool { return !d.peersAlive() })
		p.step()
		d.end(errors.New("a peer is lost"))
	})
	d.spawn("alone", d.askWhileAlone)
}

// restore reads the manifest and the state of this node's subtasks.
func (d *deployment) restore(p *proc) error {
	m, err := snapshot.ReadManifest(bg, p.store(), uid, d.dep.Restore)
	if err != nil {
		return err
	}
	if m.Kind != checkpoint.Durable {
		if d.w.temporal.attemptOpen(d.ref.Attempt) {
			d.w.fail("FILE", "attempt %d restores checkpoint %d, which is %s", d.ref.Attempt, d.dep.Restore, m.Kind)
		}
		return fmt.Errorf("checkpoint %d cannot be restored: %s", m.ID, m.Kind)
	}
	d.manifest, d.reuse = m, checkpoint.NewReuseSet(m)
	at := positionsOf(m)
	if d.w.broken(ResolveAgain) && m.ID == 0 {
		at = d.w.audit.resolved
	}
	for _, id := range checkpoint.SubtasksOf(d.graph, d.dep.Placement, d.host.id) {
		if id.Vertex == sourceVertex {
			d.sources = append(d.sources, newSource(d, id, at))
			continue
		}
		c := newCounter(d, id)
		if err := c.restore(p, m); err != nil {
			return err
		}
		d.tasks = append(d.tasks, c)
	}
	d.book = checkpoint.NewNodeBook(d.ref, d.host.id, checkpoint.SubtasksOf(d.graph, d.dep.Placement, d.host.id), d.dep.FirstCheckpoint)
	return nil
}

// peers are the other nodes' deployments of this attempt; nil for one that is not there.
func (d *deployment) peers() []*deployment {
	var out []*deployment
	for _, s := range d.dep.Placement.Nodes() {
		if s.Node == d.host.id {
			continue
		}
		h := d.w.node(s.Node)
		if h == nil || !h.up {
			out = append(out, nil)
			continue
		}
		out = append(out, h.deployment(d.ref))
	}
	return out
}

// connected: every peer has shaken hands. A handshake tells both of the attempt.
func (d *deployment) connected() bool {
	for _, o := range d.peers() {
		if o == nil || o.ended || !(o.connecting || o.started) || !o.host.live() || !d.w.reach(d.host, o.host) || o.host.see(d.ref) != nil {
			return false
		}
	}
	return true
}

func (d *deployment) peersAlive() bool {
	for _, o := range d.peers() {
		if o == nil || o.ended || o.host.frozen && d.w.now > o.host.hitAt+silence || d.w.cutUntil[d.host.machine][o.host.machine] > d.w.now+silence {
			return false
		}
	}
	return true
}

// askWhileAlone ends the attempt when nobody watches it and Temporal says that it is closed.
func (d *deployment) askWhileAlone(p *proc) {
	for {
		p.sleep(askEvery)
		p.await(func() bool {
			return d.watchers == 0 && d.w.now > d.aloneSince+aloneAfter && d.host.reachesTemporal() && !d.w.broken(NoAsk)
		})
		p.step()
		if !d.w.temporal.attemptOpen(d.ref.Attempt) {
			d.end(errors.New("the attempt is closed and nobody watches it"))
			return
		}
	}
}
