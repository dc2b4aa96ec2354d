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

// ask sends a request until there is a reply, at most clientTries times. The network may lose the request,
// deliver it late, however long after its sender has given up or died, deliver it twice, or lose the reply.
// apply is what the service does with it, atomically; it may be called any number of times.
func ask[T any](p *proc, s *service, label string, apply func() T) (T, error) {
	for range clientTries {
		if r, ok := send(p, s, label, apply); ok {
			return r, nil
		}
	}
	var none T
	return none, errNoAnswer
}

// send is one transmission.
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
		w.tracef("%s: %s: request delayed", p.name, label)
		w.faults.late = append(w.faults.late, lateRequest{label + " of " + p.name, func() { apply() }})
		p.step()
		return reply, false
	case replyLost:
		apply()
		w.tracef("%s: %s: reply lost", p.name, label)
		p.step()
		return reply, false
	case twice:
		w.tracef("%s: %s: request will arrive twice", p.name, label)
		w.faults.late = append(w.faults.late, lateRequest{label + " of " + p.name, func() { apply() }})
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
	twice
)

func (w *world) mishap() mishap {
	f := &w.faults
	if f.flaky == 0 || !f.on || !w.chance(f.flaky) {
		return none
	}
	return lost + mishap(w.rng.IntN(int(twice)))
}

type lateRequest struct {
	name  string
	apply func()
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
