package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// snapshot is the activity: this node's share of a checkpoint. A retried call has only what is left of the
// deadline.
func (w *world) snapshot(p *proc, x *execution, h *process, b checkpoint.Barrier) (checkpoint.Ack, error) {
	p.step()
	if b.Remaining -= time.Duration(w.now-x.scheduled) * tick; b.Remaining <= 0 {
		return checkpoint.Ack{}, permanent{errors.New("the deadline has passed")}
	}
	d := h.deployment(b.Ref)
	if d == nil {
		return checkpoint.Ack{}, permanent{errEnded}
	}
	if err := h.see(b.Ref); err != nil {
		return checkpoint.Ack{}, permanent{err}
	}
	p.await(func() bool { return d.started || d.ended || x.forgotten })
	if d.ended || !d.started {
		return checkpoint.Ack{}, permanent{errEnded}
	}
	refused := d.heard(b)
	pg := d.pages[b.ID]
	if refused != "" || pg == nil {
		return checkpoint.Ack{}, permanent{fmt.Errorf("checkpoint %d is refused: %s", b.ID, refused)}
	}
	p.await(func() bool { return pg.settled || d.ended || x.forgotten })
	if !pg.settled {
		return checkpoint.Ack{}, permanent{errEnded}
	}
	if pg.err != nil {
		return checkpoint.Ack{}, permanent{pg.err}
	}
	return pg.ack, nil
}

// heard tells the book of a barrier and returns why it is refused, if it is.
func (d *deployment) heard(b checkpoint.Barrier) (refusal string) {
	if d.w.broken(LearnEarly) {
		for _, c := range d.tasks {
			c.sink.learn(b.Committed)
		}
	}
	return d.stepBook(checkpoint.BookEvent{Kind: checkpoint.Heard, Barrier: b})
}

// stepBook feeds the book and carries out its effects.
func (d *deployment) stepBook(e checkpoint.BookEvent) (refusal string) {
	if d.ended {
		return errEnded.Error()
	}
	for _, f := range append([]checkpoint.BookEffect(nil), d.book.Step(e)...) {
		pg := d.pages[f.ID]
		switch f.Kind {
		case checkpoint.Inject:
			d.inject(f.Barrier)
		case checkpoint.StorePart:
			d.spawn("part", func(p *proc) { d.storePart(p, pg, f.Part) })
		case checkpoint.Ready:
			pg.settled = true
		case checkpoint.Decline:
			if pg != nil && !pg.settled {
				pg.settled, pg.err = true, fmt.Errorf("checkpoint %d declined: %s", f.ID, f.Reason)
				d.w.tracef("%s: declines %d: %s", d.host.id, f.ID, f.Reason)
			}
		case checkpoint.Release:
			for _, c := range d.tasks {
				c.giveUp = append(c.giveUp, f.ID)
			}
		case checkpoint.Drop:
			pg.dropped = true
		case checkpoint.Tell:
			d.tellDeclined(f.Barrier, f.Reason)
		case checkpoint.Refuse:
			refusal = f.Reason
		}
	}
	return refusal
}

// inject starts a checkpoint on this node and tells the peers.
func (d *deployment) inject(b checkpoint.Barrier) {
	w := d.w
	if !w.broken(KeepBase) {
		d.reuse.Advance(b.Durable)
	}
	pg := &page{barrier: b, deadline: w.now + ticks(b.Remaining)}
	d.pages[b.ID] = pg
	for _, s := range d.sources {
		s.requests = append(s.requests, b)
	}
	d.spawn(fmt.Sprintf("announce%d", b.ID), func(p *proc) {
		p.at("inject")
		p.step()
		for _, o := range d.peers() {
			if o != nil && o.started && w.reach(d.host, o.host) {
				left := b
				left.Remaining = max(time.Duration(pg.deadline-w.now)*tick, tick)
				o.heard(left)
			}
			p.step()
		}
	})
	d.spawn(fmt.Sprintf("deadline%d", b.ID), func(p *proc) {
		p.await(func() bool { return pg.dropped || w.now > pg.deadline && !w.broken(NoDeadline) })
		if !pg.dropped {
			d.stepBook(checkpoint.BookEvent{Kind: checkpoint.DeadlineOver, ID: b.ID})
		}
	})
}

// tellDeclined tells the peers that this node has declined a checkpoint.
func (d *deployment) tellDeclined(b checkpoint.Barrier, why string) {
	d.spawn(fmt.Sprintf("declined%d", b.ID), func(p *proc) {
		p.step()
		for _, o := range d.peers() {
			if o != nil && o.started && d.w.reach(d.host, o.host) {
				o.stepBook(checkpoint.BookEvent{Kind: checkpoint.PeerDeclined, Barrier: b, Reason: why})
			}
			p.step()
		}
	})
}

// storePart writes the node's part object.
func (d *deployment) storePart(p *proc, pg *page, part checkpoint.Part) {
	ack, err := snapshot.WritePart(bg, p.store(), part)
	if err != nil {
		d.stepBook(checkpoint.BookEvent{Kind: checkpoint.Failed, ID: part.ID, Reason: err.Error()})
		return
	}
	p.at("acked")
	pg.ack = ack
	d.stepBook(checkpoint.BookEvent{Kind: checkpoint.PartStored, ID: part.ID})
}
