package workflows

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/job"
)

// Restarts is what a job remembers of its failures.
type Restarts struct {
	// Total counts every restart, InRow the failures since the last one that is forgotten.
	Total int `json:"total"`
	InRow int `json:"in_row"`
	// Recent are the times of the failures that a failure rate looks at, oldest first.
	Recent []time.Time `json:"recent,omitempty"`
	// Last is the cause of the last failure, for people.
	Last   string    `json:"last,omitempty"`
	LastAt time.Time `json:"last_at,omitzero"`
}

// Failure is the end of an attempt that nobody asked for.
type Failure struct {
	Attempt job.Attempt
	End     activities.Ending
	At      time.Time
	// Ran is how long the attempt had been running.
	Ran time.Duration
}

// Verdict is whether to restart, after which delay, or why not.
type Verdict struct {
	Restart bool
	Delay   time.Duration
	Why     string
}

// next applies a failure to what is remembered and decides. Stops from outside and nodes that leave on
// request are no failures: they restart at once and use up nothing. seed spreads the back-off of jobs that
// failed together.
func (r Restarts) next(s activities.Restart, f Failure, seed string) (Restarts, Verdict) {
	r.Last, r.LastAt = f.describe(), f.At
	if f.End.Kind == activities.TypeDamaged {
		return r, Verdict{Why: "a checkpoint is damaged; falling back behind it silently could double or lose output"}
	}
	r.Total++
	switch f.End.Kind {
	case activities.TypeNodeLeaving:
		return r, Verdict{Restart: true}
	case activities.Stopped: // by a person, or by another planner: no race with either
		return r, Verdict{Restart: true, Delay: time.Second}
	}
	switch s.Kind {
	case "none":
		r.Total--
		return r, Verdict{Why: `the restart strategy is "none"`}
	case "fixed":
		return r.fixed(s)
	case "rate":
		return r.rate(s, f.At)
	default:
		return r.backoff(s, f, seed)
	}
}

func (r Restarts) fixed(s activities.Restart) (Restarts, Verdict) {
	r.InRow++
	if r.InRow > s.Attempts {
		r.Total--
		return r, Verdict{Why: fmt.Sprintf("the restart strategy allows %d restarts", s.Attempts)}
	}
	return r, Verdict{Restart: true, Delay: s.Delay}
}

func (r Restarts) rate(s activities.Restart, at time.Time) (Restarts, Verdict) {
	var recent []time.Time
	for _, t := range r.Recent {
		if at.Sub(t) < s.Per {
			recent = append(recent, t)
		}
	}
	r.Recent = append(recent, at)
	r.InRow = len(r.Recent)
	if len(r.Recent) > s.Failures {
		r.Total--
		return r, Verdict{Why: fmt.Sprintf("the restart strategy allows %d failures in %v", s.Failures, s.Per)}
	}
	return r, Verdict{Restart: true, Delay: s.Delay}
}

// backoff doubles the delay with every failure in a row, with a tenth of jitter. The first loss of a node is
// answered at once: it says nothing against the job.
func (r Restarts) backoff(s activities.Restart, f Failure, seed string) (Restarts, Verdict) {
	if s.ResetAfter > 0 && f.Ran >= s.ResetAfter {
		r.InRow = 0
	}
	r.InRow++
	if r.InRow == 1 && (f.End.Kind == activities.TypePeerLost || f.End.Kind == activities.TypeStale) {
		return r, Verdict{Restart: true}
	}
	initial, most := s.Initial, s.Max
	if initial <= 0 {
		initial = time.Second
	}
	if most <= 0 {
		most = time.Minute
	}
	d := min(initial, most)
	for i := 1; i < r.InRow && d < most; i++ {
		d = min(d*2, most)
	}
	return r, Verdict{Restart: true, Delay: d + jitter(d/10, seed, r.InRow)}
}

// jitter is a number in [0, most) that differs between jobs and failures and is the same at every replay.
func jitter(most time.Duration, seed string, n int) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(fmt.Appendf(nil, "%s %d", seed, n))
	return time.Duration(h.Sum64() % uint64(most))
}

func (f Failure) describe() string {
	if f.End.Cause == "" {
		return fmt.Sprintf("attempt %d: %s", f.Attempt, f.End.Kind)
	}
	return fmt.Sprintf("attempt %d: %s", f.Attempt, f.End.Cause)
}

// rank orders the reports about one attempt's end by how much they explain: a peer that is lost is often
// only the consequence of what happened on it.
func rank(kind string) int {
	switch kind {
	case activities.TypeDamaged:
		return 5
	case activities.TypeSubtask, activities.TypeFatal:
		return 4
	case activities.TypeNodeLeaving:
		return 3
	case activities.TypePeerLost:
		return 2
	case activities.TypeStale:
		return 1
	}
	return 0
}
