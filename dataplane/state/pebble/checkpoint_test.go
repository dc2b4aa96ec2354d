package pebble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/statetest"
)

// fullDisk is a file system on which no table can be created while full is set.
type fullDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if d.full.Load() && strings.HasSuffix(name, ".sst") {
		return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return d.FS.Create(name, c)
}

type fixture struct {
	t     *testing.T
	b     *Backend
	table state.Table
	store *statetest.Store
	next  job.CheckpointID
	keys  job.KeyGroupRange // of 8; all if zero
}

func openFixture(t *testing.T, fs vfs.FS, from ...checkpoint.OperatorState) *fixture {
	t.Helper()
	x := &fixture{t: t, store: statetest.NewStore(), next: 1}
	x.open(fs, x.store, from...)
	return x
}

func (x *fixture) open(fs vfs.FS, store *statetest.Store, from ...checkpoint.OperatorState) {
	x.t.Helper()
	var err error
	if x.keys.To == 0 {
		x.keys.To = 8
	}
	x.b, err = openOn(fs, state.Config{Dir: filepath.Join(x.t.TempDir(), "state"), KeyRange: x.keys, MaxParallelism: 8, CacheBytes: 1 << 20})
	if err != nil {
		x.t.Fatalf("open: %v", err)
	}
	if x.table, err = x.b.Table("t", state.Layout{Words: 1}); err != nil {
		x.t.Fatalf("table: %v", err)
	}
	if len(from) > 0 {
		if err := x.b.Restore(context.Background(), from, store); err != nil {
			x.t.Fatalf("restore: %v", err)
		}
	}
	b := x.b
	x.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			x.t.Errorf("close: %v", err)
		}
	})
}

// set stores v under those of the keys [from, to) that are in the backend's key groups.
func (x *fixture) set(from, to int, v uint64) {
	x.t.Helper()
	var keys state.KeySet
	for i := from; i < to; i++ {
		k := fmt.Appendf(nil, "key-%06d", i)
		if g := job.KeyGroupOf(batch.HashBytes(k), 8); g < x.keys.From || g >= x.keys.To {
			continue
		}
		keys.Bytes = append(keys.Bytes, k...)
		keys.Ends = append(keys.Ends, int32(len(keys.Bytes)))
		keys.Hash = append(keys.Hash, batch.HashBytes(k))
	}
	slots := make([]state.Slot, keys.Len())
	if err := x.table.Resolve(&keys, slots); err != nil {
		x.t.Fatalf("resolve: %v", err)
	}
	for _, s := range slots {
		x.table.Words(s)[0] = v
	}
	x.endBatch()
}

func (x *fixture) endBatch() {
	x.t.Helper()
	if err := x.b.EndBatch(); err != nil {
		x.t.Fatalf("end of batch: %v", err)
	}
}

func (x *fixture) persist(between func()) (checkpoint.OperatorState, error) {
	x.t.Helper()
	f, err := x.b.Freeze(x.next)
	if err != nil {
		x.t.Fatalf("freeze: %v", err)
	}
	x.next++
	type result struct {
		s   checkpoint.OperatorState
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := f.Persist(context.Background(), x.store)
		done <- result{s, err}
	}()
	for {
		between() // at least once
		select {
		case r := <-done:
			return r.s, r.err
		default:
		}
	}
}

func (x *fixture) count() map[uint64]int {
	x.t.Helper()
	n := map[uint64]int{}
	err := x.table.Each(func(_ []byte, s state.Slot) error {
		n[x.table.Words(s)[0]]++
		return nil
	})
	if err != nil {
		x.t.Fatalf("each: %v", err)
	}
	return n
}

// A checkpoint holds exactly what the barrier saw, under concurrent writes and evictions.
func TestCheckpointUnderWrites(t *testing.T) {
	x := openFixture(t, vfs.Default)
	x.set(0, 20_000, 1)
	v := uint64(2)
	s, err := x.persist(func() {
		x.set(int(v*500)%19_000, int(v*500)%19_000+1000, v)
		v++
	})
	if err != nil {
		t.Fatalf("persist: %v", err)
	}
	y := &fixture{t: t}
	y.open(vfs.Default, x.store, s)
	if n := y.count(); len(n) != 1 || n[1] != 20_000 {
		t.Errorf("values in the checkpoint: got %v, want 20000 times 1", n)
	}
}

// A full disk declines the checkpoint; the state is unharmed and the next one has everything.
func TestFullDisk(t *testing.T) {
	disk := &fullDisk{FS: vfs.Default}
	x := openFixture(t, disk)
	x.set(0, 500, 1)
	if _, err := x.persist(x.endBatch); err != nil {
		t.Fatalf("persist: %v", err)
	}
	x.set(200, 700, 2)
	disk.full.Store(true)
	if _, err := x.persist(x.endBatch); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("persist on a full disk: got %v, want %v", err, syscall.ENOSPC)
	}
	x.set(600, 800, 3)
	want := fmt.Sprint(map[uint64]int{1: 200, 2: 400, 3: 200})
	if got := fmt.Sprint(x.count()); got != want {
		t.Errorf("state after the failure: got %s, want %s", got, want)
	}
	disk.full.Store(false)
	x.mended()
	s, err := x.persist(x.endBatch)
	if err != nil {
		t.Fatalf("persist on the mended disk: %v", err)
	}
	y := &fixture{t: t}
	y.open(vfs.Default, x.store, s)
	if got := fmt.Sprint(y.count()); got != want {
		t.Errorf("restored state: got %s, want %s", got, want)
	}
}

// A directory in the checkpoint's way declines it and stays what it is.
func TestDirectoryInTheWay(t *testing.T) {
	x := openFixture(t, vfs.Default)
	x.set(0, 100, 1)
	foreign := filepath.Join(x.b.cfg.Dir, "chk-1", "foreign")
	if err := os.MkdirAll(foreign, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := x.persist(x.endBatch); !errors.Is(err, os.ErrExist) {
		t.Errorf("persist: got %v, want %v", err, os.ErrExist)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("the foreign directory: %v", err)
	}
	s, err := x.persist(x.endBatch)
	if err != nil {
		t.Fatalf("the next persist: %v", err)
	}
	y := &fixture{t: t}
	y.open(vfs.Default, x.store, s)
	if n := y.count(); n[1] != 100 {
		t.Errorf("restored: got %v, want 100 times 1", n)
	}
}

// A second checkpoint uploads only new tables, and leaves no directory behind but the newest one's.
func TestReuse(t *testing.T) {
	x := openFixture(t, vfs.Default)
	x.set(0, 10_000, 1)
	first, err := x.persist(x.endBatch)
	if err != nil {
		t.Fatalf("persist: %v", err)
	}
	x.store.Traffic()
	x.set(0, 1, 2)
	if _, err := x.persist(x.endBatch); err != nil {
		t.Fatalf("persist: %v", err)
	}
	traffic := x.store.Traffic()
	for _, local := range traffic.Uploaded {
		for _, old := range first.Files {
			if local == old.Local && strings.HasSuffix(local, ".sst") {
				t.Errorf("table %s was uploaded twice", local)
			}
		}
	}
	if traffic.Reused == 0 {
		t.Errorf("reused files: got none of %d", len(first.Files))
	}
	dirs, err := filepath.Glob(filepath.Join(x.b.cfg.Dir, "*"))
	if err != nil || len(dirs) != 2 {
		t.Errorf("directories: got %q, want the database and one checkpoint", dirs)
	}
}

// The first checkpoint after a restore names the files that were restored while nothing has changed, also if a compaction
// has replaced them meanwhile. One with changes leaves only its own directory behind.
func TestReuseAfterRestore(t *testing.T) {
	x := openFixture(t, vfs.Default)
	for v := range uint64(3) { // tables that overlap
		x.set(0, 10_000, v)
		if _, err := x.persist(x.endBatch); err != nil {
			t.Fatalf("persist: %v", err)
		}
	}
	saved, err := x.persist(x.endBatch)
	if err != nil {
		t.Fatalf("persist: %v", err)
	}
	y := &fixture{t: t, store: x.store, next: x.next}
	y.open(vfs.Default, x.store, saved)
	if err := y.b.db.Compact(t.Context(), []byte{0}, []byte{0xff, 0xff, 0xff}, false); err != nil {
		t.Fatalf("compact: %v", err)
	}
	x.store.Traffic()
	again, err := y.persist(y.endBatch)
	if err != nil {
		t.Fatalf("persist: %v", err)
	}
	if traffic := x.store.Traffic(); len(traffic.Uploaded) > 0 || traffic.Reused != len(saved.Files) {
		t.Errorf("uploaded %q and used %d files again, want none and %d", traffic.Uploaded, traffic.Reused, len(saved.Files))
	}
	z := &fixture{t: t}
	z.open(vfs.Default, x.store, again)
	if n := z.count(); n[2] != 10_000 {
		t.Errorf("restored: got %v, want 10000 times 2", n)
	}
	y.set(0, 1, 7)
	if _, err := y.persist(y.endBatch); err != nil {
		t.Fatalf("persist: %v", err)
	}
	dirs, err := filepath.Glob(filepath.Join(y.b.cfg.Dir, "*"))
	if err != nil || len(dirs) != 2 {
		t.Errorf("directories: got %q, want the database and one checkpoint", dirs)
	}
}

// However many checkpoints there were, the next one uploads about as much as the first.
func TestManifestStaysSmall(t *testing.T) {
	x := openFixture(t, vfs.Default)
	largest := int64(0)
	for n := range 200 {
		x.set(n%10*100, n%10*100+100, uint64(n))
		s, err := x.persist(x.endBatch)
		if err != nil {
			t.Fatalf("persist: %v", err)
		}
		for _, f := range s.Files {
			if strings.HasPrefix(f.Local, "MANIFEST") {
				largest = max(largest, f.Size)
			}
		}
	}
	if largest == 0 || largest > manifestBytes+1024 {
		t.Errorf("the largest manifest of 200 checkpoints has %d bytes, want at most %d", largest, manifestBytes+1024)
	}
}

// The bound holds while nothing is frozen, and a job whose state fits reads nothing from below.
func TestBound(t *testing.T) {
	x := openFixture(t, vfs.Default)
	for i := range 50 {
		x.set(i*1000, i*1000+1000, 1)
		if used, room := x.b.set.Used(), int64(1<<17); used > x.b.limit+room {
			t.Fatalf("after %d keys: %d bytes in use, the bound is %d", i*1000+1000, used, x.b.limit)
		}
	}
	if n := x.count(); n[1] != 50_000 {
		t.Errorf("entries: got %v, want 50000 times 1", n)
	}
}
