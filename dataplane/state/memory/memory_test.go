package memory_test

import (
	"testing"

	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/memory"
	"github.com/weirstream/weir/dataplane/state/statetest"
)

func TestConformance(t *testing.T) {
	statetest.Run(t, statetest.Harness{Open: func(t testing.TB, cfg state.Config) state.Backend {
		b, err := memory.Open(cfg)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return b
	}})
}
