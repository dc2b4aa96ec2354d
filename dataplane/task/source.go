package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/watermark"
)

// ChunkRows is how many records of a fetch are decoded at a time: barriers come in between.
const ChunkRows = 2048

// sourceHead is the head of a source vertex: it turns what the reader fetched into batches with event time
// and watermarks, and takes barriers in.
type sourceHead struct {
	s       *Subtask
	spec    *Source
	wake    chan struct{}
	reader  connector.Reader
	decoder format.Decoder
	time    TimeFunc
	fans    []fan // by branch
	errors  fan
	splits  []sourceSplit
	byID    map[string]int
	gen     *watermark.Generator
	start   time.Time // origin of the monotonic clock given to gen
	mark    int64     // watermark last emitted
	idle    bool
	ended   bool
	lastN   job.CheckpointID
	// positions are those of checkpoints that are not known to be durable.
	positions map[job.CheckpointID][]connector.Split
	lag       atomic.Int64
	bad       []format.Bad
	drop      []int32
}

type sourceSplit struct {
	connector.Split
	partition int // in gen
	lag       int64
}

func newSourceHead(s *Subtask) *sourceHead {
	src := s.cfg.Vertex.Source
	return &sourceHead{
		s: s, spec: src, wake: make(chan struct{}, 1), byID: map[string]int{},
		mark: watermark.None, lastN: s.cfg.Restored, start: time.Now(),
		positions: map[job.CheckpointID][]connector.Split{},
		gen: watermark.NewGenerator(watermark.Options{
			OutOfOrder: src.MaxOutOfOrder.Microseconds(), IdleAfter: src.IdleAfter.Microseconds(),
		}),
	}
}

func (h *sourceHead) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *sourceHead) wire() {
	for _, targets := range h.spec.Branches {
		h.fans = append(h.fans, h.s.chain.fan(targets))
	}
	h.errors = h.s.chain.fan(h.spec.Errors)
}

func (h *sourceHead) openReader(ctx context.Context) (err error) {
	if h.decoder, err = h.spec.NewDecoder(); err != nil {
		return fmt.Errorf("source %s: %w", h.spec.UID, err)
	}
	if h.spec.TimeBranch >= 0 {
		if h.time, err = h.spec.NewTime(); err != nil {
			return fmt.Errorf("source %s: event time: %w", h.spec.UID, err)
		}
	}
	saved, err := savedSplits(h.s.cfg.States, h.spec.UID)
	if err != nil {
		return err
	}
	index, p := h.s.cfg.ID.Index, h.s.cfg.Parallelism
	var mine []connector.Split
	for _, sp := range saved {
		if h.spec.Connector.Owner(sp.ID, p) != index {
			continue
		}
		mine = append(mine, sp.Split)
		h.add(sp.Split, sp.Newest)
	}
	h.reader, err = h.spec.Connector.Open(ctx, index, p, mine)
	if err != nil {
		return fmt.Errorf("source %s: %w", h.spec.UID, err)
	}
	return nil
}

func (h *sourceHead) add(sp connector.Split, newest int64) int {
	i := len(h.splits)
	h.byID[sp.ID] = i
	h.splits = append(h.splits, sourceSplit{Split: sp, partition: h.gen.Add(newest), lag: -1})
	if sp.Done() {
		h.gen.End(h.splits[i].partition)
	}
	return i
}

func (h *sourceHead) close() {
	if h.reader != nil {
		if err := h.reader.Close(); err != nil {
			h.s.cfg.Log.Warn("close source", "subtask", h.s.cfg.ID.String(), "err", err)
		}
	}
}

// now is the monotonic clock of the watermark generator, in µs.
func (h *sourceHead) now() int64 { return time.Since(h.start).Microseconds() }

func (h *sourceHead) run(ctx context.Context) error {
	if err := h.emitMark(); err != nil {
		return err
	}
	fetches := h.reader.Fetches()
	for {
		if h.ended {
			fetches = nil
		}
		var err error
		select {
		case f, ok := <-fetches:
			if !ok {
				err = h.closed()
			} else {
				err = h.fetched(f)
			}
		case <-h.wake:
			err = h.letters()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err == nil && len(fetches) == 0 {
			err = h.rest()
		}
		if err != nil {
			return err
		}
	}
}

// rest is called when nothing is waiting: open batches leave, frozen state is paid down, the watermark goes on.
func (h *sourceHead) rest() error {
	if err := h.s.chain.flush(); err != nil {
		return err
	}
	for h.s.chain.pending() && len(h.wake) == 0 && len(h.reader.Fetches()) == 0 {
		if err := h.s.chain.payDown(); err != nil {
			return err
		}
	}
	return h.emitMark()
}

func (h *sourceHead) letters() error {
	if err := h.s.failure(); err != nil {
		return err
	}
	for _, l := range h.s.mail.take() {
		switch l.kind {
		case inject:
			if l.barrier.ID <= h.lastN {
				continue
			}
			h.lastN = l.barrier.ID
			if err := h.barrier(l.barrier); err != nil {
				return err
			}
		case committed:
			h.tellCommitted(l.id)
		}
	}
	return nil
}

// barrier saves the positions and sends the barrier on its way.
func (h *sourceHead) barrier(b checkpoint.Barrier) error {
	snap := &Snapshot{Source: true, Ended: h.ended, Records: h.s.records.Rows.Load(), Lag: h.lag.Load()}
	st := sourceState{Splits: make([]savedSplit, len(h.splits))}
	at := make([]connector.Split, len(h.splits))
	for i, sp := range h.splits {
		st.Splits[i] = savedSplit{Split: sp.Split, Newest: h.gen.Newest(sp.partition)}
		at[i] = sp.Split
	}
	h.positions[b.ID] = at
	snap.states = append(snap.states, captured{operator: h.spec.UID, inline: st})
	return h.s.freeze(b, snap)
}

func (h *sourceHead) tellCommitted(n job.CheckpointID) {
	if at, ok := h.positions[n]; ok {
		h.reader.Committed(at)
	}
	for id := range h.positions {
		if id <= n {
			delete(h.positions, id)
		}
	}
}

// closed is called when the reader has delivered everything that its splits will ever have.
func (h *sourceHead) closed() error {
	for _, sp := range h.splits {
		if !sp.Done() {
			return job.AsFatal(fmt.Errorf("source %s: reader closed at position %d of split %s", h.spec.UID, sp.Position, sp.ID))
		}
	}
	h.ended = true
	h.lag.Store(0)
	h.gen.EndInput()
	if err := h.s.chain.end(); err != nil {
		return err
	}
	h.s.cfg.Listener.SourceEnded(h.s.cfg.ID)
	return nil
}

func (h *sourceHead) fetched(f connector.Fetch) error {
	if f.Err != nil {
		return fmt.Errorf("source %s: %w", h.spec.UID, f.Err)
	}
	i, ok := h.byID[f.Split.ID]
	if !ok {
		i = h.add(f.Split, watermark.None)
		h.s.cfg.Log.Info("split found", "source", h.spec.UID, "split", f.Split.ID, "position", f.Split.Position)
	}
	sp := &h.splits[i]
	if f.Gap > 0 {
		h.s.bad.Skipped.Add(f.Gap)
		h.s.cfg.Log.Warn("records lost before they were read", "source", h.spec.UID, "split", f.Split.ID, "records", f.Gap)
	}
	if f.Records != nil {
		if err := h.records(sp, f.Records); err != nil {
			return err
		}
	}
	sp.Split, sp.lag = f.Split, f.Lag
	h.lag.Store(h.totalLag())
	switch {
	case sp.Done():
		h.gen.End(sp.partition)
	case f.Lag == 0:
		h.gen.Empty(sp.partition, h.now())
	}
	return nil
}

func (h *sourceHead) totalLag() int64 {
	var sum int64
	for _, sp := range h.splits {
		if sp.lag < 0 {
			return -1
		}
		sum += sp.lag
	}
	return sum
}

// records decodes and delivers a run of records, looking into the mailbox between chunks.
func (h *sourceHead) records(sp *sourceSplit, rs *format.Records) error {
	n := rs.Len()
	for from := 0; from < n; from += ChunkRows {
		to := min(from+ChunkRows, n)
		if err := h.chunk(sp, rs, from, to); err != nil {
			return err
		}
		sp.Position = rs.Offsets[to-1] + 1
		h.s.records.Rows.Add(int64(to - from))
		h.s.bytes.Add(bytesOf(rs.Values[from:to]))
		if len(h.wake) > 0 {
			<-h.wake
			if err := h.letters(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *sourceHead) chunk(sp *sourceSplit, rs *format.Records, from, to int) error {
	batches, bad, err := h.decoder.Decode(rs, from, to, h.bad[:0])
	h.bad = bad
	if err != nil {
		return fmt.Errorf("source %s: %s: %w", h.spec.UID, rs.Split, err)
	}
	if err := h.metadata(batches, rs, from, to); err != nil {
		return err
	}
	if h.time != nil {
		if err := h.eventTime(sp, rs, from, batches); err != nil {
			return err
		}
	}
	if len(h.bad) > 0 {
		if err := h.refuse(rs, from, batches); err != nil {
			return err
		}
	}
	wm, idle := h.gen.Watermark()
	h.mark, h.idle = wm, idle
	for i, b := range batches {
		b.Watermark, b.Idle = wm, idle
		if b.Len() == 0 && h.time == nil {
			continue
		}
		if err := h.fans[i].Emit(b); err != nil {
			return err
		}
	}
	return nil
}

// emitMark sends the watermark onwards if it changed without records.
func (h *sourceHead) emitMark() error {
	if h.time == nil || h.ended {
		return nil
	}
	wm, idle := h.gen.Watermark()
	if wm == watermark.Max || wm == h.mark && idle == h.idle {
		return nil // the end is told by End
	}
	h.mark, h.idle = wm, idle
	for i := range h.fans {
		if err := h.fans[i].Emit(batch.WatermarkOnly(emptySchema, wm, idle)); err != nil {
			return err
		}
	}
	return h.s.chain.flush()
}

var errNoTime = errors.New("no event time (at is null)")

// bytesOf is the length of all values.
func bytesOf(values []format.Span) (n int64) {
	for _, v := range values {
		n += int64(max(v.Len, 0))
	}
	return n
}
