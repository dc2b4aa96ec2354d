package task

import (
	"context"
	"errors"
	"time"

	"github.com/weirstream/weir/dataplane/barrier"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/watermark"
)

// inputHead is the head of a vertex that reads channels from other subtasks.
type inputHead struct {
	s    *Subtask
	hops []hop // by edge
	// merge has an input per channel, per edge: channels of one edge go to one operator input, and an
	// operator that is fed by several edges merges those again.
	merge []*watermark.Merger
	// index is a channel's input in its edge's merger.
	index []int
	// mark and idle are what was last passed on, by edge.
	mark  []int64
	idle  []bool
	ended bool
}

func newInputHead(s *Subtask) *inputHead {
	h := &inputHead{s: s, index: make([]int, len(s.cfg.ChannelInput))}
	counts := make([]int, len(s.cfg.Vertex.Inputs))
	for ch, e := range s.cfg.ChannelInput {
		h.index[ch] = counts[e]
		counts[e]++
	}
	for _, n := range counts {
		h.merge = append(h.merge, watermark.NewMerger(n))
		h.mark = append(h.mark, watermark.None)
	}
	h.idle = make([]bool, len(counts))
	return h
}

func (h *inputHead) wire() {
	h.hops = h.s.chain.fan(h.s.cfg.Vertex.Inputs).hops
}

func (h *inputHead) run(ctx context.Context) error {
	gate := h.s.cfg.Gate
	for {
		ch, e, err := gate.Next(ctx)
		switch {
		case errors.Is(err, ErrWoken):
			err = h.letters()
		case err == nil:
			err = h.element(ch, e)
		}
		if err != nil {
			return err
		}
		if gate.Ready() {
			continue
		}
		if err := h.s.chain.flush(); err != nil {
			return err
		}
		for h.s.chain.pending() && !gate.Ready() {
			if err := h.s.chain.payDown(); err != nil {
				return err
			}
		}
	}
}

func (h *inputHead) letters() error {
	if err := h.s.failure(); err != nil {
		return err
	}
	for _, l := range h.s.mail.take() {
		var e barrier.Event
		switch l.kind {
		case expire:
			e = barrier.Expire(l.id)
		case giveUp:
			e = barrier.GiveUp(l.id)
		default:
			continue
		}
		if err := h.effects(h.s.aligner.Step(e)); err != nil {
			return err
		}
	}
	return nil
}

func (h *inputHead) element(ch int, e batch.Element) error {
	switch e.Kind {
	case batch.BarrierElement:
		return h.effects(h.s.aligner.Step(barrier.Arrive(ch, *e.Barrier)))
	case batch.EndElement:
		edge := h.s.cfg.ChannelInput[ch]
		if h.merge[edge].End(h.index[ch]) {
			if err := h.advance(edge); err != nil {
				return err
			}
		}
		return h.effects(h.s.aligner.Step(barrier.End(ch)))
	}
	return h.batch(ch, e.Batch)
}

func (h *inputHead) batch(ch int, b *batch.Batch) error {
	edge := h.s.cfg.ChannelInput[ch]
	h.s.records.Rows.Add(int64(b.Len()))
	wm, idle := mergeHeader(h.merge[edge], h.index[ch], b)
	if b.Len() == 0 && wm == h.mark[edge] && idle == h.idle[edge] {
		return nil // nothing new
	}
	h.mark[edge], h.idle[edge] = wm, idle
	if wm != b.Watermark || idle != b.Idle {
		c := *b
		c.Watermark, c.Idle = wm, idle
		b = &c
	}
	return h.s.chain.deliver(h.hops[edge], b)
}

// advance passes a watermark on that rose without a batch: Max too, since an operator that other edges feed as
// well must not wait for one that has ended.
func (h *inputHead) advance(edge int) error {
	wm, idle := h.merge[edge].Watermark(), h.merge[edge].Idle()
	if wm == h.mark[edge] && idle == h.idle[edge] {
		return nil
	}
	h.mark[edge], h.idle[edge] = wm, idle
	return h.s.chain.deliver(h.hops[edge], batch.WatermarkOnly(h.schema(), wm, idle))
}

// schema is what a lone watermark pretends to carry: no operator looks into an empty batch.
func (h *inputHead) schema() *batch.Schema { return emptySchema }

var emptySchema = &batch.Schema{HasTime: true}

func (h *inputHead) effects(effects []barrier.Effect) error {
	s := h.s
	for _, f := range effects {
		switch f.Kind {
		case barrier.Announce:
			s.alignStart = time.Now()
			h.startDeadline(f.Barrier)
			s.cfg.Listener.Heard(f.Barrier)
		case barrier.Block:
			s.cfg.Gate.Block(f.Channel)
		case barrier.Unblock:
			s.cfg.Gate.Unblock()
		case barrier.Decline:
			s.deadline.Stop()
			s.cfg.Listener.Declined(f.ID, s.cfg.ID, f.Reason.String())
		case barrier.Snapshot:
			s.deadline.Stop()
			snap := &Snapshot{Align: time.Since(s.alignStart), Lag: -1}
			b := f.Barrier
			b.Remaining -= snap.Align // whoever gets it next has only what is left
			if err := s.freeze(b, snap); err != nil {
				return err
			}
		case barrier.EndOfInput:
			if !h.ended {
				h.ended = true
				if err := s.chain.end(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// startDeadline counts what is left of the checkpoint's time on this process's monotonic clock.
func (h *inputHead) startDeadline(b checkpoint.Barrier) {
	s := h.s
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.deadline = time.AfterFunc(b.Remaining, func() { s.mail.put(letter{kind: expire, id: b.ID}) })
}
