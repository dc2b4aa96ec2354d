package sim

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	hunt      = flag.Bool("hunt", false, "break every rule (or those of -break), and print how many seeds it takes to notice")
	huntSeeds = flag.Int("hunt-seeds", 10_000, "how many seeds a hunt may take")
)

// search runs seeds, on every core, until one finds a violation. It returns the lowest such seed and what it found,
// or nil.
func search(cfg Config, limit int) *Result {
	var next, best atomic.Uint64
	best.Store(uint64(limit) + 1)
	var mu sync.Mutex
	var found *Result
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := next.Add(1); s < best.Load(); s = next.Add(1) {
				seeded := cfg
				seeded.Seed = s
				r := Run(seeded)
				if r.Violation == nil {
					continue
				}
				mu.Lock()
				if r.Seed < best.Load() {
					best.Store(r.Seed)
					found = &r
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return found
}

// broken is a run with the rule broken.
func broken(r Rule) Config {
	c := Config{Broken: map[string]bool{r.Name: true}, Remembers: r.Remembers}
	if r.Needs != "" {
		c.Broken[r.Needs] = true
	}
	return c
}

// Ensure that the simulation can fail: rules that are cheap to catch are caught.
func TestBrokenRulesAreNoticed(t *testing.T) {
	noticed := []string{ // within 15 seeds
		AbortAnyAttempt, AbortTransactions, AckBeforeFlush, FinalRedeploy, ForgetStops, IgnoreMarker, KeepBase, ListOwnOnly,
		MarkerFirst, NoAlignment, NoAsk, NoBackstop, NoBuffer, NoDecision, NoOwnAbort, NoRecover, NoStopTasks, NoTombstone,
		RecreateFiles, ResolveAgain, ReuseAny, SlotEarly, UnconditionalPut,
	}
	if !testing.Short() { // within 120
		noticed = append(noticed, CompareByID, LateRecover, NoAbortRecord, NoClaim, NoFence, NoLateAbort, NoMargin, NoObey, SweepInFlight, WatcherOwns)
	}
	for _, r := range Rules {
		if !slices.Contains(noticed, r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			const limit = 300
			if search(broken(r), limit) == nil {
				t.Errorf("%d seeds with the rule broken show no violation", limit)
			}
		})
	}
}

// Ensure that every switch is in the table once, with its rule.
func TestRulesAreListed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules {
		if r.Name == "" || r.Text == "" || seen[r.Name] {
			t.Errorf("rule %+v is without a name or text, or listed twice", r)
		}
		seen[r.Name] = true
	}
	for _, r := range Rules {
		if r.Needs != "" && !seen[r.Needs] {
			t.Errorf("rule %s needs %s, which is no rule", r.Name, r.Needs)
		}
	}
	for name := range brokenRules() {
		if !seen[name] {
			t.Errorf("-break %s: no such rule", name)
		}
	}
}

// TestHunt prints the table of the package documentation; run it with -hunt.
func TestHunt(t *testing.T) {
	if !*hunt {
		t.Skip("a hunt takes long: run it with -hunt")
	}
	label := func(r Rule) string {
		if r.Needs == "" {
			return r.Name
		}
		return r.Name + " + " + r.Needs
	}
	only := strings.FieldsFunc(*breakRule, func(r rune) bool { return r == ',' })
	for _, r := range Rules {
		if len(only) > 0 && !slices.Contains(only, r.Name) {
			continue
		}
		if r.Unseen != "" && len(only) == 0 {
			fmt.Printf("%-34s    –  %s\n", label(r), r.Unseen)
			continue
		}
		began := time.Now()
		switch f := search(broken(r), *huntSeeds); {
		case f != nil:
			fmt.Printf("%-34s %4d  %s (%v)\n", label(r), f.Seed, f.Violation.Kind, time.Since(began).Round(time.Second))
		default:
			fmt.Printf("%-34s none in %d (%v)\n", label(r), *huntSeeds, time.Since(began).Round(time.Second))
		}
	}
}
