package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// Some rules protect no record: without them the job loses time, or its readers do. What those rules promise is
// checked here, each promise with a bound that holds whenever nothing else is in the way.

var (
	// stopWithin is how long a node that Temporal reaches may run on when its Attempt has come to its end.
	stopWithin = ticks(7500 * time.Millisecond)
	// leaveWithin is how long a node may run tasks of a closed Attempt while Temporal could tell it so: a heartbeat
	// until nobody watches, aloneAfter and askEvery, and as long again as a heartbeat for its steps.
	leaveWithin = heartbeat + aloneAfter + askEvery + heartbeat
	// abortWithin is how long what a node has not prepared may stay open when the attempt has ended there.
	abortWithin = ticks(10 * time.Second)
)

// minTrouble is for how many ticks at least a failure can end attempts: until its victim is replaced.
const minTrouble = 60

// obligation is something that must be done within a time.
type obligation struct {
	due        int
	kind, text string // of the violation
	// met: it is done. waived: something has come in the way, and nothing is owed any more.
	met, waived func() bool
}

// oblige adds an obligation. In runs whose processes are slow on purpose everything may take so much longer.
func (w *world) oblige(within int, o obligation) {
	o.due = w.now + within*(1+w.slowness)
	w.audit.obligations = append(w.audit.obligations, o)
}

// checkTimeliness is called in every tick.
func (w *world) checkTimeliness() {
	open := w.audit.obligations[:0]
	for _, o := range w.audit.obligations {
		switch {
		case o.met(), o.waived():
		case w.now > o.due:
			w.fail(o.kind, "%s", o.text)
		default:
			open = append(open, o)
		}
	}
	clear(w.audit.obligations[len(open):])
	w.audit.obligations = open
	for _, h := range w.machines {
		h.checkLingering()
	}
	for _, h := range w.zombies {
		h.checkLingering()
	}
}

// obligeStops: the end of an Attempt gets to every node that Temporal reaches.
func (r *attemptRun) obligeStops() {
	for _, s := range r.nodes {
		h := r.w.node(s.Node)
		if h == nil {
			continue
		}
		r.w.oblige(stopWithin, obligation{
			kind: "LINGERS", text: fmt.Sprintf("%s still runs attempt %d, which came to its end at %d", h.id, r.n, r.w.now),
			met: func() bool {
				d := h.deployment(ref(r.n))
				return d == nil || d.ended
			},
			waived: func() bool { return !h.reachesTemporal() || r.terminated },
		})
	}
}

// obligeAborts: what an attempt that has ended here had not prepared does not wait for the recovery.
func (d *deployment) obligeAborts() {
	for _, c := range d.tasks {
		tx := c.sink.current
		if tx == nil {
			continue
		}
		t := d.w.kafka.find(tx.id.String(), tx.pid, tx.epoch)
		if t == nil {
			continue
		}
		d.w.oblige(abortWithin, obligation{
			kind: "LEFT OPEN", text: fmt.Sprintf("%s is open, readers wait, though attempt %d ended on %s at %d", t, d.ref.Attempt, d.host.id, d.w.now),
			met:    func() bool { return t.state != ongoing },
			waived: func() bool { return !d.host.live() || d.w.kafka.down || d.unclear },
		})
	}
}

// checkLeftovers: when the sinks have been brought to m under a new attempt, nothing else of lower attempts is open
// that was open before.
func (w *world) checkLeftovers(m checkpoint.Manifest, a job.Attempt, before int) {
	for _, t := range w.kafka.all {
		id, err := transaction.Parse(t.id)
		if err != nil || t.state != ongoing || id.Attempt >= a || t.began >= before {
			continue
		}
		listed := slices.ContainsFunc(m.Transactions, func(l checkpoint.Transaction) bool { return w.kafka.find(l.ID, l.ProducerID, l.ProducerEpoch) == t })
		if !listed {
			w.fail("LEFT OPEN", "%s is open, readers wait, though RecoverSinks ran for attempt %d", t, a)
		}
	}
}

// checkLingering: no node runs tasks of an Attempt that is closed, once it can find out.
func (h *process) checkLingering() {
	w := h.w
	for _, d := range h.attempts {
		switch {
		case d.ended:
		case !d.started || w.temporal.attemptOpen(d.ref.Attempt) || !h.reachesTemporal():
			d.wantedAt = w.now
		case w.now > d.wantedAt+leaveWithin*(1+w.slowness):
			w.fail("LINGERS", "%s has known since %d, if it asked, that attempt %d is closed, and still runs it", h.id, d.wantedAt, d.ref.Attempt)
		}
	}
}

// trouble notes that for n ticks from now something other than Temporal's absence can end an attempt.
func (w *world) trouble(n int) { w.audit.troubledUntil = max(w.audit.troubledUntil, w.now+n) }

// checkNeedless: an attempt that has come to run on all of its nodes does not end because Temporal was away.
func (r *attemptRun) checkNeedless() {
	w := r.w
	if w.audit.troubledUntil >= r.began || w.audit.highest > r.n {
		return
	}
	for _, s := range r.nodes {
		if h := w.node(s.Node); h == nil || h.deployment(ref(r.n)) == nil || !h.deployment(ref(r.n)).started {
			return
		}
	}
	w.fail("NEEDLESS RESTART", "attempt %d, begun at %d, has ended, and nothing but Temporal was away", r.n, r.began)
}

// checkMargin: transactions that turn out lost had the margin left when their checkpoint was found fit.
func (w *world) checkMargin(m checkpoint.Manifest) {
	judged, known := w.audit.judged[m.ID]
	for _, t := range m.Transactions {
		x := w.kafka.find(t.ID, t.ProducerID, t.ProducerEpoch)
		if !known || x == nil || !x.expired {
			continue
		}
		if left := x.began + w.kafka.timeout - judged; left < ticks(commitMargin)-clockError {
			w.fail("NEEDLESS LOSS", "checkpoint %d became durable though %s had %d ticks left, and now it is lost", m.ID, x, left)
		}
	}
}
