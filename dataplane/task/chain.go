package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/operator"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/watermark"
)

// chain is the wired instance of a vertex: stages, sinks and outputs, called depth first on the subtask's
// goroutine.
type chain struct {
	ctx     context.Context
	stages  []*stage
	sinks   []*sink
	outputs []Output
}

type stage struct {
	spec    *Stage
	op      operator.Operator
	env     operator.Env
	backend state.Backend // nil without keyed state
	out     fan
	// merge takes the minimum of the watermarks of several feeders inside the chain; nil for one feeder.
	merge   *watermark.Merger
	feeders int
}

type sink struct {
	uid      string
	onError  operator.OnError
	writer   connector.Writer
	counters operator.Counters
}

// hop is one target with the place of its feeder among those of the target.
type hop struct {
	Target
	feeder int
}

// fan hands a batch to every target.
type fan struct {
	c    *chain
	hops []hop
}

// Emit implements operator.Output.
func (f *fan) Emit(b *batch.Batch) error {
	for _, h := range f.hops {
		if err := f.c.deliver(h, b); err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) deliver(h hop, b *batch.Batch) error {
	switch h.Kind {
	case ToStage:
		return c.stages[h.Index].process(h, b)
	case ToSink:
		return c.sinks[h.Index].write(c.ctx, b)
	}
	return at("", c.outputs[h.Index].Send(c.ctx, b))
}

// placed is an error that knows where in the chain it happened. Operators call each other, so that it passes
// through all those before: they must not claim it.
type placed struct {
	where string
	err   error
}

// Error implements error.
func (p *placed) Error() string {
	if p.where == "" {
		return p.err.Error()
	}
	return p.where + ": " + p.err.Error()
}

// Unwrap returns the cause.
func (p *placed) Unwrap() error { return p.err }

// at says where err happened, unless that is known already.
func at(where string, err error) error {
	if err == nil {
		return nil
	}
	if p := (*placed)(nil); errors.As(err, &p) {
		return p
	}
	return &placed{where, err}
}

// write hands the rows to the writer; a row that cannot be encoded is left out if the policy allows it.
func (s *sink) write(ctx context.Context, b *batch.Batch) error {
	for b.Len() > 0 {
		err := s.writer.Write(ctx, b)
		if err == nil {
			s.counters.Rows.Add(int64(b.Len()))
			return nil
		}
		re, ok := rowError(err)
		if !ok || s.onError != operator.Skip {
			return at("sink "+s.uid, err)
		}
		s.counters.Skipped.Add(1)
		rest := *b
		rest.Sel = without(b, []int32{int32(re.Row)})
		b = &rest
	}
	return nil
}

func (s *stage) process(h hop, b *batch.Batch) error {
	if s.merge != nil {
		b = s.merged(h.feeder, b)
	}
	s.env.Counters.Rows.Add(int64(b.Len()))
	if err := s.op.Process(h.Input, b); err != nil {
		return at(s.spec.UID, err)
	}
	return s.endBatch()
}

func (s *stage) endBatch() error {
	if s.backend == nil {
		return nil
	}
	return at(s.spec.UID, s.backend.EndBatch())
}

// merged returns b with the watermark that holds over all feeders of the stage.
func (s *stage) merged(feeder int, b *batch.Batch) *batch.Batch {
	wm, idle := mergeHeader(s.merge, feeder, b)
	if wm == b.Watermark && idle == b.Idle {
		return b
	}
	c := *b
	c.Watermark, c.Idle = wm, idle
	return &c
}

func mergeHeader(m *watermark.Merger, input int, b *batch.Batch) (wm int64, idle bool) {
	m.Advance(input, b.Watermark)
	if b.Idle {
		m.SetIdle(input)
	}
	return m.Watermark(), m.Idle()
}

// newChain wires the vertex; operators are not opened yet.
func newChain(ctx context.Context, v *Vertex, outputs []Output) (*chain, error) {
	c := &chain{ctx: ctx, outputs: outputs}
	for i := range v.Stages {
		op, err := v.Stages[i].New()
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", v.Stages[i].UID, err)
		}
		c.stages = append(c.stages, &stage{spec: &v.Stages[i], op: op})
	}
	for i := range v.Sinks {
		c.sinks = append(c.sinks, &sink{uid: v.Sinks[i].UID, onError: v.Sinks[i].OnError})
	}
	for i, s := range c.stages {
		s.out = c.fan(v.Stages[i].Out)
	}
	return c, nil
}

// fan makes the fan of a list of targets and counts the feeders of stages.
func (c *chain) fan(targets []Target) fan {
	f := fan{c: c}
	for _, t := range targets {
		h := hop{Target: t}
		if t.Kind == ToStage {
			s := c.stages[t.Index]
			h.feeder = s.feeders
			s.feeders++
		}
		f.hops = append(f.hops, h)
	}
	return f
}

// seal is called when every fan has been made.
func (c *chain) seal() {
	for _, s := range c.stages {
		if s.feeders > 1 {
			s.merge = watermark.NewMerger(s.feeders)
		}
	}
}

// end lets every operator emit what is left, in topological order, and ends the outputs.
func (c *chain) end() error {
	for _, s := range c.stages {
		if err := s.op.End(); err != nil {
			return at(s.spec.UID+": end of input", err)
		}
		if err := s.endBatch(); err != nil {
			return err
		}
	}
	for _, o := range c.outputs {
		if err := o.End(c.ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) flush() error {
	for _, o := range c.outputs {
		if err := o.Flush(c.ctx); err != nil {
			return err
		}
	}
	return nil
}

// pending reports whether a frozen epoch still has entries to copy aside.
func (c *chain) pending() bool {
	for _, s := range c.stages {
		if p, ok := s.backend.(state.Pending); ok && p.Pending() {
			return true
		}
	}
	return false
}

// payDown lets the backends copy a quantum of a frozen epoch.
func (c *chain) payDown() error {
	for _, s := range c.stages {
		if err := s.endBatch(); err != nil {
			return err
		}
	}
	return nil
}
