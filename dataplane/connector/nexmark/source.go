package nexmark

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// Config says what is generated.
type Config struct {
	// Events is the number of events; 0 is without end.
	Events int64
	// Rate is the number of events per second of event time.
	Rate float64
	// Pace makes events come at that rate of the clock too; otherwise they come as fast as they are taken.
	Pace bool
	// Splits is the number of splits, 0 for one. It should be the parallelism of the source, and is fixed when
	// the source is resolved. Split i of n has the events i, i+n, i+2n, …, each split in order.
	Splits int
}

// maxSplits bounds Config.Splits.
const maxSplits = 1 << 15

// Source generates events. It implements connector.Source and is safe for concurrent use.
type Source struct{ cfg Config }

var _ connector.Source = (*Source)(nil)

// New returns a source. It refuses a negative number of events or splits and a rate that is not positive.
func New(cfg Config) (*Source, error) {
	if cfg.Splits == 0 {
		cfg.Splits = 1
	}
	switch {
	case cfg.Events < 0:
		return nil, fmt.Errorf("nexmark: %d events", cfg.Events)
	case !(cfg.Rate > 0) || math.IsInf(cfg.Rate, 0):
		return nil, fmt.Errorf("nexmark: rate %v is not a positive number of events a second", cfg.Rate)
	case cfg.Splits < 0 || cfg.Splits > maxSplits:
		return nil, fmt.Errorf("nexmark: %d splits, at most %d", cfg.Splits, maxSplits)
	}
	return &Source{cfg: cfg}, nil
}

// splitData is Split.Data: the number of splits that share the events.
type splitData struct {
	Of int64 `json:"of"`
}

// Resolve implements connector.Source. A split's position is the number of its events before it.
func (s *Source) Resolve(context.Context) ([]connector.Split, error) {
	n := int64(s.cfg.Splits)
	data, err := json.Marshal(splitData{Of: n})
	if err != nil {
		return nil, fmt.Errorf("nexmark: resolve: %w", err)
	}
	splits := make([]connector.Split, n)
	for i := range splits {
		end := int64(connector.NoEnd)
		if s.cfg.Events > 0 {
			end = (s.cfg.Events - int64(i) + n - 1) / n
		}
		splits[i] = connector.Split{ID: strconv.Itoa(i), End: end, Data: data}
	}
	return splits, nil
}

// Owner implements connector.Source.
func (s *Source) Owner(id string, p int) int {
	i, err := strconv.Atoi(id)
	if err != nil || i < 0 || p < 1 {
		return 0
	}
	return i % p
}

// Open implements connector.Source.
func (s *Source) Open(_ context.Context, _, _ int, splits []connector.Split) (connector.Reader, error) {
	r := &reader{
		gen: newGenerator(s.cfg.Rate), pace: s.cfg.Pace,
		fetches: make(chan connector.Fetch, waiting), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	for _, split := range splits {
		c, err := newCursor(split)
		if err != nil {
			return nil, job.AsFatal(err)
		}
		if !split.Done() {
			r.cursors = append(r.cursors, c)
		}
	}
	go r.run()
	return r, nil
}

// cursor is the place of the next event of a split.
type cursor struct {
	split     connector.Split
	index, of int64
}

func newCursor(split connector.Split) (*cursor, error) {
	var d splitData
	if err := json.Unmarshal(split.Data, &d); err != nil {
		return nil, fmt.Errorf("nexmark: split %q: data %q: %w", split.ID, split.Data, err)
	}
	i, err := strconv.ParseInt(split.ID, 10, 64)
	if err != nil || d.Of < 1 || i < 0 || i >= d.Of || split.Position < 0 {
		return nil, fmt.Errorf("nexmark: split %q at %d is none of %d", split.ID, split.Position, d.Of)
	}
	return &cursor{split: split, index: i, of: d.Of}, nil
}

// event is the number of the split's event at a position.
func (c *cursor) event(position int64) int64 { return c.index + position*c.of }

// Bounds of what a reader makes ahead: fetches that wait, events in one.
const (
	waiting   = 2
	fetchSize = 2048
)

// reader makes the events of its splits in turns.
type reader struct {
	gen     *generator
	pace    bool
	cursors []*cursor
	fetches chan connector.Fetch
	once    sync.Once
	closing chan struct{}
	closed  chan struct{}
}

// Fetches implements connector.Reader.
func (r *reader) Fetches() <-chan connector.Fetch { return r.fetches }

// Committed implements connector.Reader: nobody outside watches the positions.
func (r *reader) Committed([]connector.Split) {}

// Close implements connector.Reader.
func (r *reader) Close() error {
	r.once.Do(func() { close(r.closing) })
	<-r.closed
	return nil
}

func (r *reader) run() {
	defer close(r.closed)
	defer close(r.fetches)
	var due *schedule
	if r.pace {
		due = newSchedule(r.gen, r.cursors)
	}
	for len(r.cursors) > 0 {
		open := r.cursors[:0]
		for _, c := range r.cursors {
			n := int64(fetchSize)
			if c.split.End != connector.NoEnd {
				n = min(n, c.split.End-c.split.Position)
			}
			if due != nil {
				n = due.ready(c, n)
			}
			if n > 0 && !r.send(c, int(n)) {
				return
			}
			if !c.split.Done() {
				open = append(open, c)
			}
		}
		if r.cursors = open; due != nil && !due.wait(r.cursors, r.closing) {
			return
		}
	}
}

// send makes the next n events of c and hands them on. It returns false if the reader is being closed.
func (r *reader) send(c *cursor, n int) bool {
	rs := r.gen.records(c, n)
	c.split.Position += int64(n)
	f := connector.Fetch{Split: c.split, Records: rs, Lag: -1}
	if c.split.End != connector.NoEnd {
		f.Lag = c.split.End - c.split.Position
	}
	select {
	case r.fetches <- f:
		return true
	case <-r.closing:
		return false
	}
}

// eventSize is about the size of an event with some room, so that buffers rarely grow.
const eventSize = 384

func (g *generator) records(c *cursor, n int) *format.Records {
	rs := &format.Records{
		Buf: make([]byte, 0, n*eventSize), Values: make([]format.Span, n), Times: make([]int64, n), Offsets: make([]int64, n),
		Split: "nexmark/" + c.split.ID, Partition: int32(c.index),
	}
	for i := range n {
		position := c.split.Position + int64(i)
		id := c.event(position)
		from := len(rs.Buf)
		rs.Buf = g.append(rs.Buf, id)
		rs.Values[i] = format.Span{Off: int32(from), Len: int32(len(rs.Buf) - from)}
		rs.Times[i] = g.millis(id) * 1000
		rs.Offsets[i] = position
	}
	return rs
}

// schedule says when events are due by the clock: their distance in event time from the earliest event with
// which the reader began, after its start.
type schedule struct {
	gen   *generator
	start time.Time
	first float64 // µs of event time
}

func newSchedule(g *generator, cursors []*cursor) *schedule {
	s := &schedule{gen: g, start: time.Now()}
	for i, c := range cursors {
		if at := s.micros(c.event(c.split.Position)); i == 0 || at < s.first {
			s.first = at
		}
	}
	return s
}

func (s *schedule) micros(id int64) float64 { return float64(id) * s.gen.delayMicros }

// ready is the number of events of c, at most n, that are due.
func (s *schedule) ready(c *cursor, n int64) int64 {
	now := float64(time.Since(s.start).Microseconds()) + s.first
	due := int64(now/s.gen.delayMicros) - c.index // events up to this one, in steps of c.of
	if due < 0 {
		return 0
	}
	return max(min(n, due/c.of+1-c.split.Position), 0)
}

// wait waits until an event is due. It returns false if the reader is being closed.
func (s *schedule) wait(cursors []*cursor, closing <-chan struct{}) bool {
	next := math.MaxFloat64
	for _, c := range cursors {
		next = min(next, s.micros(c.event(c.split.Position))-s.first)
	}
	if len(cursors) == 0 {
		return true
	}
	// A microsecond more than the rounding of ready may take away.
	until := time.Until(s.start.Add(time.Duration(next*1000) + time.Microsecond))
	if until <= 0 {
		return true
	}
	timer := time.NewTimer(until)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-closing:
		return false
	}
}
