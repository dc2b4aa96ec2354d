package sim

import (
	"errors"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// element is what travels in a channel: a record's key, a barrier or the end.
type element struct {
	key     int
	barrier *checkpoint.Barrier
	end     bool
}

// channelRoom is the number of elements that a channel holds.
const channelRoom = 5

// source is a source subtask.
type source struct {
	d        *deployment
	id       job.SubtaskID
	index    int
	at       map[int]int // by partition
	order    []int
	requests []checkpoint.Barrier
	newest   job.CheckpointID
	nextAt   int
	ended    bool
}

func newSource(d *deployment, id job.SubtaskID, at [partitions]int) *source {
	s := &source{d: d, id: id, index: id.Index, at: map[int]int{}, newest: d.dep.Restore}
	for q := id.Index; q < partitions; q += d.graph.Vertices[0].Parallelism {
		s.at[q] = at[q]
		s.order = append(s.order, q)
	}
	return s
}

// ready returns a partition with something to read, or -1.
func (s *source) ready() int {
	w := s.d.w
	if len(s.order) == 0 {
		return -1
	}
	from := w.rng.IntN(len(s.order))
	for i := range s.order {
		if q := s.order[(from+i)%len(s.order)]; s.at[q] < w.input.high(q) {
			return q
		}
	}
	return -1
}

func (s *source) atEnd() bool {
	for _, q := range s.order {
		if s.at[q] < len(s.d.w.input.keys[q]) {
			return false
		}
	}
	return true
}

func (s *source) run(p *proc) {
	w, d := s.d.w, s.d
	p.await(func() bool { return w.input.resolved })
	for {
		next := -1
		p.await(func() bool {
			if len(s.requests) > 0 || !s.ended && s.atEnd() {
				return true
			}
			if w.now < s.nextAt {
				return false
			}
			next = s.ready()
			return next >= 0
		})
		switch {
		case !s.ended && s.atEnd():
			s.ended = true
			s.broadcast(p, element{end: true})
		case len(s.requests) > 0:
			b := s.requests[0]
			s.requests = s.requests[1:]
			if b.ID <= s.newest {
				continue
			}
			s.newest = b.ID
			d.stepBook(checkpoint.BookEvent{Kind: checkpoint.Snapshotted, Share: checkpoint.Share{
				ID: b.ID, Subtask: s.id, Running: !s.ended, States: []checkpoint.OperatorState{sourceState(s.index, s.at)},
			}})
			s.broadcast(p, element{barrier: &b})
		default:
			key := w.input.keys[next][s.at[next]]
			s.at[next]++
			s.nextAt = w.now + w.between(4, 16)
			g := job.KeyGroupOf(uint64(key), numKeys)
			s.send(p, job.OwnerOf(g, d.graph.Vertices[1].Parallelism, numKeys), element{key: key})
			p.at("record sent")
			p.step()
		}
	}
}

func (s *source) broadcast(p *proc, e element) {
	for i := range s.d.graph.Vertices[1].Parallelism {
		s.send(p, i, e)
		p.at("barrier sent")
	}
}

// send puts an element into the channel to a counter, waiting for room. A peer that is gone or belongs to
// another attempt ends the attempt here.
func (s *source) send(p *proc, to int, e element) {
	d, w := s.d, s.d.w
	h := w.node(d.dep.Placement.Slots[to].Node)
	target := func() *counter {
		if h == nil || !h.up {
			return nil
		}
		o := h.deployment(d.ref)
		if w.broken(NoFence) && len(h.attempts) > 0 {
			o = h.attempts[len(h.attempts)-1] // whoever listens there now
		}
		if o == nil || o.ended {
			return nil
		}
		for _, c := range o.tasks {
			if c.index == to && s.index < len(c.in) {
				return c
			}
		}
		return nil
	}
	p.await(func() bool {
		c := target()
		return c == nil || w.reach(d.host, h) && len(c.in[s.index]) < channelRoom
	})
	c := target()
	if c == nil {
		d.end(errors.New("a connection broke"))
		panic(killed{})
	}
	c.in[s.index] = append(c.in[s.index], e)
	p.step()
}
