package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reader follows the job's output topics, read-committed, and keeps what it saw.
type Reader struct {
	cl   *kgo.Client
	done chan struct{}
	mu   sync.Mutex
	seen seen
	// changed is signalled after every poll with news.
	changed chan struct{}
}

// seen is everything that a read-committed reader has been shown.
type seen struct {
	passed  map[int]int    // times by id
	last    map[string]int // newest id by topic of origin and account
	order   []string       // violations of per-key order
	totals  map[string]total
	windows map[windowKey]window
	twice   int // windows that came more than once
	err     error
}

type total struct {
	Transfers, Logins, Cents int64
}

type windowKey struct {
	account string
	start   int64 // unix ms
}

type window struct{ Cents, N int64 }

// NewReader starts to follow the topics from their beginning.
func NewReader(brokers []string) (*Reader, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(Passed, Totals, Alerts), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(250*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	r := &Reader{cl: cl, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	r.seen = seen{passed: map[int]int{}, last: map[string]int{}, totals: map[string]total{}, windows: map[windowKey]window{}}
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
		r.mu.Lock()
		f.EachRecord(func(rec *kgo.Record) {
			if err := r.seen.take(rec); err != nil && r.seen.err == nil {
				r.seen.err = fmt.Errorf("topic %s partition %d offset %d: %w: %s", rec.Topic, rec.Partition, rec.Offset, err, rec.Value)
			}
		})
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// outRow has the columns of all three topics.
type outRow struct {
	ID          int         `json:"id"`
	Account     string      `json:"account"`
	Kind        string      `json:"kind"`
	Transfers   int64       `json:"transfers"`
	Logins      int64       `json:"logins"`
	Total       json.Number `json:"total"`
	N           int64       `json:"n"`
	WindowStart string      `json:"window_start"`
}

func (s *seen) take(rec *kgo.Record) error {
	var row outRow
	d := json.NewDecoder(strings.NewReader(string(rec.Value)))
	d.UseNumber()
	if err := d.Decode(&row); err != nil {
		return err
	}
	if row.Account == flushAccount {
		return nil
	}
	switch rec.Topic {
	case Passed:
		s.pass(row)
	case Totals:
		c, err := cents(row.Total)
		if err != nil {
			return err
		}
		s.totals[row.Account] = total{row.Transfers, row.Logins, c}
	case Alerts:
		return s.window(row)
	}
	return nil
}

func (s *seen) pass(row outRow) {
	s.passed[row.ID]++
	key := row.Kind + " " + row.Account
	if last, ok := s.last[key]; ok && row.ID <= last && s.passed[row.ID] == 1 {
		s.order = append(s.order, fmt.Sprintf("%s: id %d after %d", key, row.ID, last))
	}
	s.last[key] = max(s.last[key], row.ID)
}

func (s *seen) window(row outRow) error {
	at, err := time.Parse(time.RFC3339, row.WindowStart)
	if err != nil {
		return err
	}
	c, err := cents(row.Total)
	if err != nil {
		return err
	}
	k := windowKey{row.Account, at.UnixMilli()}
	if _, ok := s.windows[k]; ok {
		s.twice++
	}
	s.windows[k] = window{c, row.N}
	return nil
}

// cents reads a decimal with two digits exactly.
func cents(n json.Number) (int64, error) {
	whole, frac, _ := strings.Cut(string(n), ".")
	frac = (frac + "00")[:2]
	v, err := strconv.ParseInt(whole+frac, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("amount %q: %w", n, err)
	}
	return v, nil
}

// Passed is the number of different ids seen so far.
func (r *Reader) Passed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen.passed)
}

// Await returns when the output is complete for w: every id, every total, every window. It returns ctx's error
// if that does not happen; Verdict then says what is missing.
func (r *Reader) Await(ctx context.Context, want *Expected) error {
	for {
		r.mu.Lock()
		complete := r.seen.complete(want)
		r.mu.Unlock()
		if complete {
			return nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *seen) complete(want *Expected) bool {
	if len(s.passed) < want.records || len(s.windows) < len(want.windows) || len(s.totals) < len(want.totals) {
		return false
	}
	for a, t := range want.totals {
		if s.totals[a] != t {
			return false
		}
	}
	return true
}
