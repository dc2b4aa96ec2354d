package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

const (
	// fetchesWaiting is how many fetches may wait for the subtask: with PartitionBytes it bounds what is
	// prefetched.
	fetchesWaiting = 3
	backoffMin     = 50 * time.Millisecond
	backoffMax     = 2 * time.Second
	// outageEvery is how often an outage that goes on is logged.
	outageEvery = 30 * time.Second
)

// codeError is the error of a response's code; nil for 0.
func codeError(code int16) error { return kerr.ErrorForCode(code) }

// partition is one split being read. It belongs to the reader's goroutine, except for split and lag while it
// is busy: then they are the fetch's.
type partition struct {
	id    int32
	topic topicID
	split connector.Split
	// lag is what was last told, at told.
	lag  int64
	told time.Time
	// leader is who has it, as far as known.
	leader leader
	busy   bool
	// fails counts failures in a row; no fetch before retry.
	fails int
	retry time.Time
}

func (p *partition) done() bool { return p.split.Done() }

// end is the offset at which reading stops.
func (p *partition) end() int64 {
	if p.split.End == connector.NoEnd {
		return math.MaxInt64
	}
	return p.split.End
}

// backOff puts the next fetch off, longer with every failure in a row.
func (p *partition) backOff(now time.Time) {
	p.retry = now.Add(backOff(p.fails))
	p.fails++
}

// backOff is the pause after the n-th failure in a row, counted from 0: exponential with jitter.
func backOff(n int) time.Duration {
	d := min(backoffMin<<min(n, 10), backoffMax)
	return d/2 + rand.N(d/2)
}

// reader reads the partitions of one subtask. One goroutine (run) owns all of its state and starts the
// others: at most one fetch per broker, and at most one metadata request.
type reader struct {
	cfg      SourceConfig
	source   *Source
	cl       *kgo.Client
	codecs   *codecs
	index, p int

	ctx    context.Context
	cancel context.CancelFunc
	out    chan connector.Fetch
	// requests counts the goroutines of requests in flight, all the others too.
	requests, all sync.WaitGroup

	parts map[int32]*partition
	// busyBrokers have a fetch in flight; fetched brings their partitions back.
	busyBrokers map[int32]bool
	fetched     chan fetchResult
	refresh     refresher
	committed   chan []connector.Split
	outageTold  time.Time
}

// refresher is the state of the metadata requests.
type refresher struct {
	busy   bool
	due    time.Time // the next one
	fails  int
	result chan refreshed
	// wrong is since when the topic has been missing or another one; zero: it is not.
	wrong time.Time
}

// refreshed is the answer to a metadata request: the leaders, and splits of partitions that are new.
type refreshed struct {
	meta  metadata
	found []connector.Split
	err   error
}

func newReader(s *Source, cl *kgo.Client, index, p int) *reader {
	r := &reader{
		cfg: s.cfg, source: s, cl: cl, codecs: newCodecs(s.cfg.BatchBytes), index: index, p: p,
		out:         make(chan connector.Fetch, fetchesWaiting),
		parts:       make(map[int32]*partition),
		busyBrokers: make(map[int32]bool),
		fetched:     make(chan fetchResult),
		refresh:     refresher{result: make(chan refreshed)},
		committed:   make(chan []connector.Split, 1),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// add takes a split to be read.
func (r *reader) add(split connector.Split) error {
	id, err := strconv.ParseInt(split.ID, 10, 32)
	if err != nil || id < 0 || split.Position < 0 {
		return errors.New("not a partition's split")
	}
	p := &partition{id: int32(id), split: split, leader: leader{broker: noLeader}, lag: -1}
	var data splitData
	if len(split.Data) > 0 {
		if err := json.Unmarshal(split.Data, &data); err != nil {
			return err
		}
	}
	if p.topic, err = parseTopicID(data.TopicID); err != nil {
		return err
	}
	r.parts[p.id] = p
	return nil
}

func (r *reader) start() {
	r.all.Go(r.run)
	if r.cfg.Group != "" {
		r.all.Go(r.commitOffsets)
	}
}

// Fetches implements connector.Reader.
func (r *reader) Fetches() <-chan connector.Fetch { return r.out }

// Committed implements connector.Reader: the newest positions replace older ones that nobody has sent yet.
func (r *reader) Committed(splits []connector.Split) {
	if r.cfg.Group == "" || len(splits) == 0 {
		return
	}
	for {
		select {
		case r.committed <- splits:
			return
		default:
		}
		select {
		case <-r.committed:
		default:
		}
	}
}

// Close implements connector.Reader.
func (r *reader) Close() error {
	r.cancel()
	r.all.Wait()
	r.cl.Close()
	return nil
}

// commitOffsets tells the group's coordinator where the job is. Best effort: the next commit repairs a lost one.
func (r *reader) commitOffsets() {
	adm := kadm.NewClient(r.cl)
	for {
		select {
		case <-r.ctx.Done():
			return
		case splits := <-r.committed:
			offsets := make(kadm.Offsets)
			for _, s := range splits {
				if id, err := strconv.ParseInt(s.ID, 10, 32); err == nil {
					offsets.AddOffset(r.cfg.Topic, int32(id), s.Position, -1)
				}
			}
			ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
			err := adm.CommitAllOffsets(ctx, r.cfg.Group, offsets)
			cancel()
			if err != nil && r.ctx.Err() == nil {
				r.cfg.Log.Warn("commit of group offsets failed", "group", r.cfg.Group, "topic", r.cfg.Topic, "err", err)
			}
		}
	}
}

// run starts fetches and metadata requests and takes their results until every split has ended, something
// is fatally wrong or the reader is closed.
func (r *reader) run() {
	defer close(r.out)
	defer r.requests.Wait()
	defer r.cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !r.finished() {
		timer.Reset(time.Until(r.dispatch(time.Now())))
		var err error
		select {
		case <-r.ctx.Done():
			return
		case f := <-r.fetched:
			err = r.settle(f)
		case m := <-r.refresh.result:
			err = r.learn(m)
		case <-timer.C:
		}
		if err != nil {
			r.fail(err)
			return
		}
	}
}

// finished reports whether a bounded source has nothing left to read.
func (r *reader) finished() bool {
	if !r.cfg.Bounded {
		return false
	}
	for _, p := range r.parts {
		if p.busy || !p.done() {
			return false
		}
	}
	return true
}

// fail ends the reader with an error, after everything that was read before it.
func (r *reader) fail(err error) {
	var split connector.Split
	var at *partitionError
	if errors.As(err, &at) {
		split = at.split
	}
	r.send(connector.Fetch{Split: split, Lag: -1, Err: err})
}

// send delivers f; false when the reader is closed.
func (r *reader) send(f connector.Fetch) bool {
	select {
	case r.out <- f:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// dispatch starts whatever may start now and returns when to look again at the latest.
func (r *reader) dispatch(now time.Time) time.Time {
	wake := now.Add(time.Hour)
	ready := make(map[int32][]*partition)
	for _, p := range r.parts {
		if p.busy || p.done() {
			continue
		}
		if p.leader.broker == noLeader {
			r.askMetadata(now.Add(backOff(r.refresh.fails)))
			continue
		}
		if p.retry.After(now) {
			wake = earlier(wake, p.retry)
			continue
		}
		if !r.busyBrokers[p.leader.broker] {
			ready[p.leader.broker] = append(ready[p.leader.broker], p)
		}
	}
	for broker, parts := range ready {
		r.startFetch(broker, parts)
	}
	if r.refresh.busy {
		return wake
	}
	if !r.refresh.due.After(now) {
		r.startRefresh()
		return wake
	}
	return earlier(wake, r.refresh.due)
}

// startFetch sends a fetch for parts to broker. Go's random map order shuffles the partitions from fetch to
// fetch, so that each comes first now and then and a huge record in one of them is read.
func (r *reader) startFetch(broker int32, parts []*partition) {
	r.busyBrokers[broker] = true
	for _, p := range parts {
		p.busy = true
	}
	req := r.fetchRequest(parts)
	r.requests.Go(func() {
		res := r.fetch(broker, req, parts)
		select {
		case r.fetched <- res:
		case <-r.ctx.Done():
		}
	})
}

// settle takes the partitions of a fetch back. An error is fatal.
func (r *reader) settle(f fetchResult) error {
	delete(r.busyBrokers, f.broker)
	now := time.Now()
	for _, p := range f.parts {
		p.busy = false
	}
	for i, p := range f.parts {
		err := f.err
		if err == nil {
			err = f.errs[i]
		}
		if err == nil {
			p.fails = 0
			continue
		}
		if job.ClassOf(err) == job.Fatal {
			return err
		}
		p.backOff(now)
		r.outage(now, "fetch", err)
		r.askMetadata(now.Add(backOff(r.refresh.fails)))
	}
	return nil
}

// askMetadata wants fresh metadata at the given time, or earlier if already so planned.
func (r *reader) askMetadata(at time.Time) {
	if r.refresh.due.After(at) {
		r.refresh.due = at
	}
}

// outage logs a failure that is going to be tried again, but not every time.
func (r *reader) outage(now time.Time, what string, err error) {
	if now.Sub(r.outageTold) < outageEvery {
		return
	}
	r.outageTold = now
	r.cfg.Log.Warn("kafka source: trying again", "topic", r.cfg.Topic, "what", what, "err", err)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
