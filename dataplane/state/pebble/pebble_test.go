package pebble_test

import (
	"testing"

	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/pebble"
	"github.com/weirstream/weir/dataplane/state/statetest"
)

func harness(cacheBytes int64) statetest.Harness {
	return statetest.Harness{CacheBytes: cacheBytes, Open: func(t testing.TB, cfg state.Config) state.Backend {
		b, err := pebble.Open(cfg)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return b
	}}
}

func TestConformance(t *testing.T) {
	t.Run("state fits", func(t *testing.T) { statetest.Run(t, harness(64<<20)) })
	t.Run("state does not fit", func(t *testing.T) { statetest.Run(t, harness(2<<10)) })
}
