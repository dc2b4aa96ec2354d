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
func search(broken map[string]bool, limit int) *Result {
	var next, best atomic.Uint64
	best.Store(uint64(limit) + 1)
	var mu sync.Mutex
	var found *Result
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := next.Add(1); s < best.Load(); s = next.Add(1) {
				r := Run(Config{Seed: s, Broken: broken})
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

func broken(r Rule) map[string]bool {
	m := map[string]bool{r.Name: true}
	if r.Needs != "" {
		m[r.Needs] = true
	}
	return m
}

// TestHunt prints the table of the package documentation; run it with -hunt.
func TestHunt(t *testing.T) {
	if !*hunt {
		t.Skip("a hunt takes long: run it with -hunt")
	}
	only := strings.FieldsFunc(*breakRule, func(r rune) bool { return r == ',' })
	for _, r := range Rules {
		if len(only) > 0 && !slices.Contains(only, r.Name) {
			continue
		}
		began := time.Now()
		switch f := search(broken(r), *huntSeeds); {
		case f != nil:
			fmt.Printf("%-20s %6d  %s (%v)\n", r.Name, f.Seed, f.Violation.Kind, time.Since(began).Round(time.Second))
		case r.Unseen != "":
			fmt.Printf("%-20s      –  %s\n", r.Name, r.Unseen)
		default:
			fmt.Printf("%-20s   none in %d (%v)\n", r.Name, *huntSeeds, time.Since(began).Round(time.Second))
		}
	}
}
