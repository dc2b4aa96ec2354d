package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// part is what a fault kills.
type part int

const (
	oneWorker part = iota
	allWorkers
	broker
	temporalServer
	s3Server
)

func (p part) String() string {
	return [...]string{"worker", "all workers", "broker", "Temporal", "S3"}[p]
}

// fault is a SIGKILL, and the start on the same data a while later.
type fault struct {
	at     time.Duration // after the first record
	part   part
	worker int // of oneWorker
	down   time.Duration
}

func (f fault) String() string {
	what := f.part.String()
	if f.part == oneWorker {
		what = fmt.Sprintf("worker %d", f.worker)
	}
	return fmt.Sprintf("%6.2fs kill %s, back %.2fs later", f.at.Seconds(), what, f.down.Seconds())
}

// kills of single workers in a plan; every other part is killed once.
const kills = 5

// plan is what happens to a cluster while records are sent for the given time: a pure function of its
// arguments, in order of time. Nothing keeps faults apart: they hit recoveries too.
func plan(seed uint64, workers int, during time.Duration) []fault {
	r := rand.New(rand.NewPCG(seed, 0x77656972))
	var faults []fault
	add := func(p part, longest time.Duration) {
		// Some faults come early and none after the last record, so that all meet records.
		at := during/20 + time.Duration(r.Int64N(int64(during*17/20)))
		faults = append(faults, fault{at: at, part: p, worker: r.IntN(workers), down: time.Duration(r.Int64N(int64(longest)))})
	}
	for range kills {
		add(oneWorker, 3*time.Second)
	}
	add(allWorkers, 2*time.Second)
	add(broker, 3*time.Second)
	add(temporalServer, 5*time.Second)
	add(s3Server, 5*time.Second)
	slices.SortStableFunc(faults, func(a, b fault) int { return int(a.at - b.at) })
	return faults
}

func describe(faults []fault) string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	return b.String()
}

// TestPlan checks that a seed replays and that every plan has all that the claim names.
func TestPlan(t *testing.T) {
	const during = time.Minute
	if a, b := plan(7, 3, during), plan(7, 3, during); !slices.Equal(a, b) {
		t.Errorf("got two plans for one seed:\n%s\n%s", describe(a), describe(b))
	}
	if slices.Equal(plan(7, 3, during), plan(8, 3, during)) {
		t.Error("got the same plan for two seeds")
	}
	for seed := range uint64(1000) {
		count := map[part]int{}
		faults := plan(seed, 3, during)
		for i, f := range faults {
			count[f.part]++
			if f.at < 0 || f.at >= during || f.worker < 0 || f.worker > 2 || f.down < 0 || i > 0 && f.at < faults[i-1].at {
				t.Fatalf("seed %d: bad plan\n%s", seed, describe(faults))
			}
		}
		if count[oneWorker] != kills || count[allWorkers] != 1 || count[broker] != 1 || count[temporalServer] != 1 || count[s3Server] != 1 {
			t.Fatalf("seed %d: got %v", seed, count)
		}
	}
}
