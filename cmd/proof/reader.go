package proof

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reader follows the job's output topics, read-committed, and keeps what it saw. It is safe for concurrent use,
// but for one waiter (Await, AwaitArrival, AwaitQuiet) at a time.
type Reader struct {
	cl   *kgo.Client
	done chan struct{}
	mu   sync.Mutex
	seen seen
	// changed is signalled after every poll with news.
	changed chan struct{}
}

// Progress is how far a reader is.
type Progress struct {
	Passed  int // different ids
	Doubled int // ids that came more than once
}

// NewReader starts to follow the topics from their beginning.
func NewReader(brokers []string) (*Reader, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(Passed, Totals, Alerts), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(250*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	r := &Reader{cl: cl, done: make(chan struct{}), changed: make(chan struct{}, 1), seen: newSeen()}
	go r.run()
	return r, nil
}

// Close stops the reader.
func (r *Reader) Close() {
	r.cl.Close()
	<-r.done
}

func (r *Reader) run() {
	defer close(r.done)
	for {
		f := r.cl.PollFetches(context.Background())
		if f.IsClientClosed() {
			return
		}
		if f.NumRecords() == 0 {
			continue
		}
		r.mu.Lock()
		f.EachRecord(r.seen.add)
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// Passed is the number of different ids seen so far.
func (r *Reader) Passed() int { return r.Progress().Passed }

// Progress is how far the reader is.
func (r *Reader) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{Passed: len(r.seen.passed), Doubled: r.seen.doubled}
}

// Await returns when the output is complete: every id, every total, every window. It returns ctx's error
// if that does not happen; Verdict then says what is missing.
func (r *Reader) Await(ctx context.Context, want *Expected) error {
	return r.await(ctx, func(s *seen) bool { return s.complete(want) })
}

// AwaitArrival is Await for a job that promises less: it returns when every id and window came at least once,
// whatever the totals are.
func (r *Reader) AwaitArrival(ctx context.Context, want *Expected) error {
	return r.await(ctx, func(s *seen) bool { return s.arrived(want) })
}

func (r *Reader) await(ctx context.Context, cond func(*seen) bool) error {
	for {
		r.mu.Lock()
		ok := cond(&r.seen)
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitQuiet returns when nothing has come for the given time, so that what is doubled late is seen too.
func (r *Reader) AwaitQuiet(ctx context.Context, quiet time.Duration) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-r.changed:
			timer.Reset(quiet)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
