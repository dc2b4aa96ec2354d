package sim

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seeds     = flag.Int("seeds", 0, "how many seeds to run; 0: 100, with -short 25")
	first     = flag.Uint64("first", 1, "the first seed")
	seed      = flag.Uint64("seed", 0, "run this seed alone; with -v its trace is shown")
	breakRule = flag.String("break", "", "names of rules to break, separated by commas")
	remembers = flag.Bool("remembers", false, "the StreamJob never loses its memory")
)

func brokenRules() map[string]bool {
	m := map[string]bool{}
	for n := range strings.SplitSeq(*breakRule, ",") {
		if n != "" {
			m[n] = true
		}
	}
	return m
}

func TestSeeds(t *testing.T) {
	cfg := Config{Broken: brokenRules(), Remembers: *remembers}
	if *seed != 0 {
		cfg.Seed, cfg.Trace = *seed, true
		r := Run(cfg)
		if testing.Verbose() {
			fmt.Println(strings.Join(r.Trace, "\n"))
		}
		t.Logf("seed %d: %s, %d failures, %d checkpoints, %d attempts, %d steps in %d ticks", r.Seed, r.Outcome, r.Failures, r.Checkpoints, r.Attempts, r.Steps, r.Ticks)
		if r.Violation != nil {
			t.Fatal(r.Violation)
		}
		return
	}
	n := *seeds
	switch {
	case n > 0:
	case testing.Short():
		n = 25
	default:
		n = 100
	}
	sums := map[string]int{}
	for _, r := range runAll(*first, n, cfg) {
		if r.Violation != nil {
			t.Errorf("seed %d: %v; replay it with -seed %d -v", r.Seed, r.Violation, r.Seed)
		}
		if r.Outcome != "stopped" && r.Violation == nil && (r.Failures < minFailures || r.Checkpoints < minCheckpoints) {
			t.Errorf("seed %d: %d failures and %d checkpoints, want at least %d and %d", r.Seed, r.Failures, r.Checkpoints, minFailures, minCheckpoints)
		}
		for k, n := range r.Counts {
			sums[k] += n
		}
		sums["outcome "+r.Outcome]++
		sums["steps"] += r.Steps
		sums["ticks"] += r.Ticks
		sums["failures"] += r.Failures
		sums["attempts"] += r.Attempts
	}
	var keys []string
	for k := range sums {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		t.Logf("%8d %s", sums[k], k)
	}
}

// Ensure that a seed is all there is to a run.
func TestSameSeedSameRun(t *testing.T) {
	for s := uint64(1); s <= 5; s++ {
		a, b := Run(Config{Seed: s, Trace: true}), Run(Config{Seed: s, Trace: true})
		if !slices.Equal(a.Trace, b.Trace) {
			t.Errorf("seed %d: two runs differ", s)
		}
	}
}

// Ensure that every point of the table is one that processes come by.
func TestEveryPointIsReached(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 60 seeds")
	}
	reached := map[string]int{}
	for _, r := range runAll(1, 60, Config{}) {
		for l, n := range r.Points {
			reached[l] += n
		}
	}
	for _, l := range trapLabels {
		if reached[l] == 0 && l != "FallBack reports" { // once in a hundred runs
			t.Errorf("no process comes by %q", l)
		}
	}
}

// runAll runs n seeds from first on, on every core, and returns their results in order.
func runAll(first uint64, n int, cfg Config) []Result {
	out := make([]Result, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				c := cfg
				c.Seed = first + uint64(i)
				out[i] = Run(c)
			}
		})
	}
	wg.Wait()
	return out
}
