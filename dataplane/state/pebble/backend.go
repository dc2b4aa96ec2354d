package pebble

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

// Name is the backend's name in manifests and job specs.
const Name = "pebble"

// DefaultCacheBytes is the bound of the working copy when Config does not give one.
const DefaultCacheBytes = 256 << 20

// metaGroup is the key group of the definitions: none of a job's, which are fewer than maxGroups.
const (
	metaGroup = 0xffff
	maxGroups = 1 << 15
)

// Backend implements state.Backend.
type Backend struct {
	fs    vfs.FS
	cfg   state.Config
	set   *table.Set
	db    *pebble.DB
	limit int64

	// frozen is the newest one. Owner only.
	frozen *frozen
	// health is the newest error of Pebble's background work, until the disk has taken a table.
	health failure
	// compacted has something when a compaction has ended.
	compacted chan struct{}

	// use is held shared while a Persist runs, exclusively by Close.
	use    sync.RWMutex
	closed bool

	// known are the files of the newest checkpoint, by local name; described says that the database has the
	// definitions of all states. Both are used by Restore and Persist, which never overlap.
	known     map[string]checkpoint.File
	described bool
	last      linked
	// writes counts the batches and runs that reached the database; unflushed says that a memtable may have some.
	writes    atomic.Int64
	unflushed atomic.Bool
	// running is the size of the frozen content that is being sorted.
	running atomic.Int64
}

// linked is the hard-link checkpoint whose files the newest Persist has uploaded, or Restore has downloaded. It is
// kept, because a compaction gives the same content new files: while nothing is written, checkpoints name the old ones.
type linked struct {
	dir    string
	writes int64
}

var (
	_ state.Backend  = (*Backend)(nil)
	_ state.Restorer = (*Backend)(nil)
	_ state.Pending  = (*Backend)(nil)
)

// Open returns an empty backend with its database in cfg.Dir. What an earlier process may have left there
// is removed, never read.
func Open(cfg state.Config) (*Backend, error) { return openOn(vfs.Default, cfg) }

func openOn(fs vfs.FS, cfg state.Config) (*Backend, error) {
	if cfg.MaxParallelism < 1 || cfg.MaxParallelism > maxGroups {
		return nil, fmt.Errorf("open pebble state: max parallelism %d is not in [1, %d]", cfg.MaxParallelism, maxGroups)
	}
	b := &Backend{fs: fs, cfg: cfg, limit: cfg.CacheBytes, known: map[string]checkpoint.File{}, compacted: make(chan struct{}, 1)}
	if b.limit <= 0 {
		b.limit = DefaultCacheBytes
	}
	b.set = table.NewSet(cfg, below{b})
	if err := os.RemoveAll(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open pebble state: remove leftovers: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open pebble state: %w", err)
	}
	if err := b.openDB(); err != nil {
		return nil, fmt.Errorf("open pebble state: %w", err)
	}
	return b, nil
}

// files is the file system of the database and of what is to become part of it.
func (b *Backend) files() vfs.FS { return volatile{b.fs} }

func (b *Backend) dir() string { return filepath.Join(b.cfg.Dir, "db") }

func (b *Backend) openDB() (err error) {
	b.db, err = pebble.Open(b.dir(), options(b.files(), b.limit, b.events()))
	if err != nil {
		b.db = nil
		return fmt.Errorf("open database: %w", err)
	}
	return nil
}

// events keeps health and compacted.
func (b *Backend) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: b.health.set,
		DataCorruption:  func(i pebble.DataCorruptionInfo) { b.health.set(fmt.Errorf("%s", i)) },
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil {
				b.health.clear()
			}
		},
		CompactionEnd: func(pebble.CompactionInfo) {
			select {
			case b.compacted <- struct{}{}:
			default:
			}
		},
	}
}

// Table implements state.Backend.
func (b *Backend) Table(name string, l state.Layout) (state.Table, error) {
	return b.set.Table(name, l)
}

// Buckets implements state.Backend.
func (b *Backend) Buckets(name string, l state.Layout) (state.Buckets, error) {
	return b.set.Buckets(name, l)
}

// Pending implements state.Pending.
func (b *Backend) Pending() bool { return b.set.Pending() }

// Bytes implements state.Backend: the working copy, frozen content and the database's cache and memtables.
func (b *Backend) Bytes() int64 {
	m := b.db.Metrics()
	return b.set.Bytes() + b.running.Load() + m.BlockCache.Size + int64(m.MemTable.Size)
}

// EndBatch implements state.Backend.
func (b *Backend) EndBatch() error {
	b.set.EndBatch()
	if b.set.Used() <= b.limit {
		return nil
	}
	if err := b.shrink(); err != nil {
		return fmt.Errorf("shrink the working copy of pebble state: %w", err)
	}
	return nil
}

// shrink brings the working copy below its bound, some room included, so that spills come in portions.
func (b *Backend) shrink() error {
	target := b.limit - b.limit/32
	if b.set.Evict(target) {
		return nil
	}
	overfull := b.set.Used() > 2*b.limit
	if b.set.Open() && !b.frozen.isFixed() {
		if !overfull || !b.frozen.done.Load() {
			return nil
		}
		b.set.Finish()
		<-b.frozen.fixed
	}
	if err := b.health.get(); err != nil {
		// A write could block for ever. There is room to wait for better times.
		if !overfull {
			return nil
		}
		return err
	}
	b.set.Spill(target)
	return b.drain()
}

// drain applies everything that was copied out of the working copy. Nobody else reads the queue then: a
// Persist is either over or has emptied it.
func (b *Backend) drain() error {
	b.set.HandOver()
	for {
		chunk, ok := b.set.Queue().TryNext()
		if !ok {
			b.set.Settled()
			return nil
		}
		if err := b.apply(chunk); err != nil {
			return err
		}
	}
}

// apply writes a chunk into the database; on error it goes back into the queue.
func (b *Backend) apply(chunk []byte) error {
	q := b.set.Queue()
	w := b.db.NewBatchWithSize(len(chunk) + len(chunk)/8)
	defer w.Close()
	err := addRecords(w, chunk)
	if err == nil {
		err = b.commit(w)
	}
	if err != nil {
		q.PutBack(chunk)
		return err
	}
	q.Recycle(chunk)
	return nil
}

// commit brings a batch into the memtable.
func (b *Backend) commit(w *pebble.Batch) error {
	if err := w.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("write into the database: %w", err)
	}
	b.writes.Add(1)
	b.unflushed.Store(true)
	return nil
}

func addRecords(w *pebble.Batch, chunk []byte) error {
	for len(chunk) > 0 {
		r, rest, err := table.Next(chunk)
		if err != nil {
			return err
		}
		switch r.Op {
		case table.OpSet:
			err = w.Set(r.Key, r.Value, nil)
		case table.OpDelete:
			err = w.Delete(r.Key, nil)
		case table.OpDeleteRange:
			err = w.DeleteRange(r.Key, r.Value, nil)
		}
		if err != nil {
			return err
		}
		chunk = rest
	}
	return nil
}

// describe stores the definitions of the states.
func (b *Backend) describe() error {
	if b.described {
		return nil
	}
	w := b.db.NewBatch()
	defer w.Close()
	for id, d := range b.set.Definitions() {
		body, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("describe state %q: %w", d.Name, err)
		}
		if err := w.Set(table.AppendHeader(nil, metaGroup, id), body, nil); err != nil {
			return fmt.Errorf("describe state %q: %w", d.Name, err)
		}
	}
	if err := b.commit(w); err != nil {
		return fmt.Errorf("describe states: %w", err)
	}
	b.described = true
	return nil
}

// Freeze implements state.Backend.
func (b *Backend) Freeze(id job.CheckpointID) (state.Frozen, error) {
	epoch, err := b.set.Freeze(false)
	if err != nil {
		return nil, fmt.Errorf("freeze pebble state for checkpoint %d: %w", id, err)
	}
	b.frozen = &frozen{b: b, id: id, epoch: epoch, fixed: make(chan struct{})}
	return b.frozen, nil
}

// Close implements state.Backend: it waits for a Persist in progress, whose context should be cancelled, and
// removes the directory.
func (b *Backend) Close() error {
	b.use.Lock()
	defer b.use.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	var err error
	if b.db != nil {
		err = b.db.Close()
	}
	if err = errors.Join(err, os.RemoveAll(b.cfg.Dir)); err != nil {
		return fmt.Errorf("close pebble state: %w", err)
	}
	return nil
}

// failure is an error that may be set and read by any goroutine.
type failure struct {
	err  atomic.Pointer[error]
	told atomic.Pointer[chan error]
}

func (f *failure) set(err error) {
	f.err.Store(&err)
	if c := f.told.Swap(nil); c != nil {
		*c <- err
	}
}

func (f *failure) clear() { f.err.Store(nil) }

func (f *failure) get() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// next returns a channel on which the next error comes, which may be gone again by then. One caller at a time.
func (f *failure) next() <-chan error {
	c := make(chan error, 1)
	f.told.Store(&c)
	return c
}

// below implements table.Below on the database.
type below struct{ b *Backend }

// Load implements table.Below. The iterator's prefix is the whole key, so that Bloom filters apply, and the
// keys ascend, so that it moves on from where it is.
func (s below) Load(keys *state.KeySet, found func(i int, value []byte) error) (err error) {
	it, err := s.b.db.NewIter(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for i := range keys.Len() {
		if !it.SeekPrefixGE(keys.Key(i)) {
			if err := it.Error(); err != nil {
				return err
			}
			continue
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := found(i, v); err != nil {
			return err
		}
	}
	return nil
}

// Scan implements table.Below.
func (s below) Scan(prefix []byte, visit func(key, value []byte) error) error {
	return scan(s.b.db, prefix, table.PrefixEnd(prefix), func(it *pebble.Iterator) error {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		return visit(it.Key(), v)
	})
}

// scan calls visit at every entry in [from, to).
func scan(db *pebble.DB, from, to []byte, visit func(*pebble.Iterator) error) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := visit(it); err != nil {
			return err
		}
	}
	return it.Error()
}

// groupStart is the first key of key group g.
func groupStart(g job.KeyGroup) []byte { return binary.BigEndian.AppendUint16(nil, uint16(g)) }
