package pebble

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gatedFS lets nobody but who holds the gate create a table in a database's directory: compactions do, ingested tables
// are linked there.
type gatedFS struct {
	vfs.FS
	gate sync.Mutex
}

func (g *gatedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && filepath.Base(filepath.Dir(name)) == "db" {
		g.gate.Lock()
		defer g.gate.Unlock()
	}
	return g.FS.Create(name, c)
}

// Checkpoints wait for compactions rather than pile up layers without end, as long as their context lets them.
func TestLayersAreBounded(t *testing.T) {
	disk := &gatedFS{FS: vfs.Default}
	x := openFixture(t, disk)
	layers := func() int { return int(x.b.db.Metrics().Levels[0].Sublevels) }
	x.set(0, 100, 1)
	if _, err := x.persist(x.endBatch); err != nil { // describes the states, through a memtable
		t.Fatal(err)
	}
	disk.gate.Lock()
	n := uint64(2)
	for ; layers() < stopAt; n++ {
		if n > 2*stopAt {
			t.Fatalf("%d checkpoints of the same keys make %d layers: the test tests nothing", n, layers())
		}
		x.set(0, 100, n)
		if _, err := x.persist(x.endBatch); err != nil {
			t.Fatal(err)
		}
	}
	x.set(50, 150, 100)
	f, err := x.b.Freeze(x.next)
	if err != nil {
		t.Fatal(err)
	}
	x.next++
	for x.b.Pending() { // however slow the machine is: nothing is left to wait for but compactions
		x.endBatch()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the deadline")
	cancel(cause)
	if _, err := f.Persist(ctx, x.store); !errors.Is(err, cause) || !strings.Contains(err.Error(), "wait for compactions") {
		t.Errorf("with %d layers: got %v, want that it waits for compactions until %v", layers(), err, cause)
	}
	disk.gate.Unlock()
	s, err := x.persist(x.endBatch)
	if err != nil {
		t.Fatal(err)
	}
	if left := layers(); left >= stopAt {
		t.Errorf("%d layers after compactions, want fewer than %d", left, stopAt)
	}
	x.holds(0, s, map[uint64]int{100: 100, n - 1: 50})
}

// What a disk once refused is forgotten as soon as it takes a checkpoint's tables, whether or not anything was flushed.
func TestHealthReturns(t *testing.T) {
	x := openFixture(t, vfs.Default)
	x.set(0, 10, 1)
	if _, err := x.persist(x.endBatch); err != nil {
		t.Fatal(err)
	}
	x.b.health.set(errors.New("no space"))
	x.set(0, 10, 2)
	if _, err := x.persist(x.endBatch); err != nil {
		t.Fatal(err)
	}
	if err := x.b.health.get(); err != nil {
		t.Errorf("the disk is taken for failing still: %v", err)
	}
	if got, want := x.count(), map[uint64]int{2: 10}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
