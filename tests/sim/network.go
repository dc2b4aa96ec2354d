package sim

import "errors"

// errNoAnswer is what a client makes of a request that got no reply in time. It says nothing about what
// became of the request.
var errNoAnswer = errors.New("no answer")

// service is a system outside: S3 or Kafka.
type service struct {
	name string
	down bool
}

const (
	// clientTries is how often a client sends a request before it reports that there is no answer.
	clientTries = 3
	// patience is how long a client waits for a service that is away.
	patience = 20
)

// ask sends a request until there is a reply, at most clientTries times: with a retrying client, a request may
// arrive more than once, and again after the reply. apply is what the service does with it, atomically.
func ask[T any](p *proc, s *service, label string, apply func() T) (T, error) {
	for range clientTries {
		if r, ok := send(p, s, label, apply); ok {
			if p.w.mishap() == late {
				p.w.delay(p, label, func() { apply() })
			}
			return r, nil
		}
	}
	p.w.trouble(0)
	var none T
	return none, errNoAnswer
}

// send transmits a request once. The network may lose it, deliver it late, however long after its sender has
// given up or died, or lose the reply.
func send[T any](p *proc, s *service, label string, apply func() T) (reply T, ok bool) {
	w := p.w
	p.at(label)
	p.step()
	if s.down {
		until := w.now + patience
		p.await(func() bool { return !s.down || w.now > until })
		p.step()
		return reply, false
	}
	switch w.mishap() {
	case lost:
		w.tracef("%s: %s: request lost", p.name, label)
		p.step()
		return reply, false
	case late:
		w.delay(p, label, func() { apply() })
		p.step()
		return reply, false
	case replyLost:
		apply()
		w.tracef("%s: %s: reply lost", p.name, label)
		p.step()
		return reply, false
	}
	reply = apply()
	p.at(label + ", done")
	p.step()
	return reply, true
}

// mishap is what the network does to one request.
type mishap int

const (
	none mishap = iota
	lost
	late
	replyLost
)

func (w *world) mishap() mishap {
	f := &w.faults
	if f.flaky == 0 || !f.on || !w.chance(f.flaky) {
		return none
	}
	return lost + mishap(w.rng.IntN(int(replyLost)))
}

type lateRequest struct {
	name  string
	apply func()
}

func (w *world) delay(p *proc, label string, apply func()) {
	w.tracef("%s: %s: a request is delayed", p.name, label)
	w.faults.late = append(w.faults.late, lateRequest{label + " of " + p.name, apply})
}

// deliverLate lets a delayed request arrive now and then.
func (w *world) deliverLate() {
	f := &w.faults
	if len(f.late) == 0 || !w.chance(5) {
		return
	}
	i := w.rng.IntN(len(f.late))
	r := f.late[i]
	f.late = append(f.late[:i], f.late[i+1:]...)
	w.tracef("late: %s arrives", r.name)
	w.count("late requests")
	r.apply()
}
