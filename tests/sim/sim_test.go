package sim

import (
	"flag"
	"fmt"
	"sort"
	"strings"
	"testing"
)

var (
	seeds     = flag.Int("seeds", 100, "how many seeds to run")
	first     = flag.Uint64("first", 1, "the first seed")
	seed      = flag.Uint64("seed", 0, "run this seed alone; with -v its trace is shown")
	breakRule = flag.String("break", "", "names of rules to break, separated by commas")
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
	if *seed != 0 {
		r := Run(Config{Seed: *seed, Broken: brokenRules(), Trace: true})
		if testing.Verbose() {
			fmt.Println(strings.Join(r.Trace, "\n"))
		}
		t.Logf("seed %d: %s, %d failures, %d checkpoints, %d attempts, %d steps in %d ticks", r.Seed, r.Outcome, r.Failures, r.Checkpoints, r.Attempts, r.Steps, r.Ticks)
		if r.Violation != nil {
			t.Fatal(r.Violation)
		}
		return
	}
	sums := map[string]int{}
	for s := *first; s < *first+uint64(*seeds); s++ {
		r := Run(Config{Seed: s, Broken: brokenRules()})
		if r.Violation != nil {
			t.Errorf("seed %d: %v", s, r.Violation)
		}
		for k, n := range r.Counts {
			sums[k] += n
		}
		sums["outcome "+r.Outcome]++
		sums["steps"] += r.Steps
		sums["ticks"] += r.Ticks
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
