package snapshottest

import (
	"testing"

	"github.com/weirstream/weir/dataplane/snapshot"
)

func TestMemory(t *testing.T) {
	m := NewMemory()
	Run(t, Options{LargeFile: 1 << 20, Many: 30}, func(*testing.T) snapshot.Store { return m })
}

// The wrapper without faults is a store like any other.
func TestFaultyWithoutFaults(t *testing.T) {
	f := &Faulty{Store: NewMemory(), Decide: func(Op, string) Fault { return Fault{} }}
	Run(t, Options{LargeFile: 1 << 20, Many: 30}, func(*testing.T) snapshot.Store { return f })
}
