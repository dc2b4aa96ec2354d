package cluster

import (
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// leaks waits for all goroutines of the data plane to end.
func leaks(t *testing.T) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		left := dataplane()
		if left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("goroutines are left:\n%s", left)
			return
		}
	}
}

// dataplane is the stacks of the goroutines that run code of the data plane.
func dataplane() string {
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	var left []string
	for g := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(g, "/weir/dataplane/") || strings.Contains(g, "pebble") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}
