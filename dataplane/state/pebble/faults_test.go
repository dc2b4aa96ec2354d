package pebble

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// failingFS refuses one step of a checkpoint: the nth creation of a table or of anything in the checkpoint's
// directory, from 0, while armed.
type failingFS struct {
	vfs.FS
	armed atomic.Bool
	left  atomic.Int64
	seen  atomic.Int64
}

func (f *failingFS) step(op, name string) error {
	if !f.armed.Load() || !strings.HasSuffix(name, ".sst") && !strings.Contains(name, string(filepath.Separator)+"chk-") {
		return nil
	}
	f.seen.Add(1)
	if f.left.Add(-1) == -1 {
		return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	return nil
}

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.step("create", name); err != nil {
		return nil, err
	}
	return f.FS.Create(name, c)
}

func (f *failingFS) Link(from, to string) error {
	if err := f.step("link", to); err != nil {
		return err
	}
	return f.FS.Link(from, to)
}

func (f *failingFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := f.step("mkdir", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir, perm)
}

func (f *failingFS) OpenDir(name string) (vfs.File, error) {
	if err := f.step("open", name); err != nil {
		return nil, err
	}
	return f.FS.OpenDir(name)
}

// Whichever step the disk refuses: the checkpoint is whole (the step was a compaction's) or declined and leaves nothing
// behind, the state is unharmed, and the next checkpoint has everything.
func TestEveryRefusedStep(t *testing.T) {
	declined := 0
	for n, more := int64(0), true; more; n++ {
		disk := &failingFS{FS: vfs.Default}
		x := openFixture(t, disk)
		x.set(0, 3000, 1)
		if _, err := x.persist(x.endBatch); err != nil {
			t.Fatalf("persist: %v", err)
		}
		x.set(1000, 4000, 2)
		disk.left.Store(n)
		disk.armed.Store(true)
		s, err := x.persist(x.endBatch)
		disk.armed.Store(false)
		more = disk.left.Load() < 0
		switch {
		case err == nil:
			x.holds(n, s, map[uint64]int{1: 1000, 2: 3000})
		case !more || !errors.Is(err, syscall.ENOSPC):
			t.Errorf("step %d: got %v, want %v", n, err, syscall.ENOSPC)
		default:
			declined++
			x.mended()
		}
		if left, err := filepath.Glob(filepath.Join(x.b.cfg.Dir, "chk-*")); err != nil || len(left) != 1 {
			t.Errorf("step %d: directories %q, want only the newest checkpoint's", n, left)
		}
		if left, err := filepath.Glob(filepath.Join(x.b.cfg.Dir, "new-*")); err != nil || len(left) > 0 {
			t.Errorf("step %d: tables %q are left, want none", n, left)
		}
		x.set(3500, 4500, 3)
		want := map[uint64]int{1: 1000, 2: 2500, 3: 1000}
		if got := x.count(); !maps.Equal(got, want) {
			t.Errorf("step %d: state after it: got %v, want %v", n, got, want)
		}
		if s, err = x.persist(x.endBatch); err != nil {
			t.Fatalf("step %d: the next persist: %v", n, err)
		}
		x.holds(n, s, want)
	}
	if declined < 5 {
		t.Errorf("%d steps were refused and declined the checkpoint, want every step of it", declined)
	}
}

// holds checks what a checkpoint restores to.
func (x *fixture) holds(step int64, s checkpoint.OperatorState, want map[uint64]int) {
	x.t.Helper()
	y := &fixture{t: x.t}
	y.open(vfs.Default, x.store, s)
	if got := y.count(); !maps.Equal(got, want) {
		x.t.Errorf("step %d: the checkpoint holds %v, want %v", step, got, want)
	}
}

// mended waits until Pebble, which tries a failed flush again and again, has noticed that the disk is well.
func (x *fixture) mended() {
	x.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for x.b.health.get() != nil {
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("still failing: %v", x.b.health.get())
		}
	}
}

// A checkpoint taken right after a restore, under writes, holds what was restored and none of them: after files were
// adopted as they are, and after key groups were copied out of those of others.
func TestCheckpointRightAfterRestore(t *testing.T) {
	x := openFixture(t, vfs.Default)
	for i := range 50 { // many tables
		x.set(i*400, i*400+400, 1)
		if _, err := x.persist(x.endBatch); err != nil {
			t.Fatalf("persist: %v", err)
		}
	}
	saved, err := x.persist(x.endBatch)
	if err != nil {
		t.Fatalf("persist: %v", err)
	}
	for _, r := range []job.KeyGroupRange{{From: 0, To: 8}, {From: 2, To: 6}} {
		t.Run(r.String(), func(t *testing.T) {
			y := &fixture{t: t, store: x.store, next: x.next, keys: r}
			y.open(vfs.Default, x.store, saved)
			restored := y.count()
			if r.To-r.From == 8 && restored[1] != 20_000 || restored[1] == 0 || len(restored) != 1 {
				t.Fatalf("restored %v", restored)
			}
			v := uint64(2)
			s, err := y.persist(func() {
				y.set(int(v*500)%19_000, int(v*500)%19_000+1000, v)
				v++
			})
			if err != nil {
				t.Fatalf("persist: %v", err)
			}
			if v == 2 {
				t.Fatal("nothing was written meanwhile: the test tests nothing")
			}
			z := &fixture{t: t, keys: r}
			z.open(vfs.Default, x.store, s)
			if got := z.count(); !maps.Equal(got, restored) {
				t.Errorf("the checkpoint holds %v, want %v", got, restored)
			}
		})
	}
}
