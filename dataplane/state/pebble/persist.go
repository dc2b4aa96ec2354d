package pebble

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// localName is what a file of a database's checkpoint may be called: tables, manifest, options and markers.
// The write-ahead log is there, but empty, and no database misses it.
var localName = regexp.MustCompile(`^([0-9]{6,20}\.sst|MANIFEST-[0-9]{6,20}|OPTIONS-[0-9]{6,20}|` +
	`marker\.(format-version|manifest)\.[0-9]{6,20}\.([0-9]{3}|MANIFEST-[0-9]{6,20}))$`)

const (
	parallelTransfers = 8
	// smallFile is the size up to which a file that is not immutable is compared by its digest.
	smallFile = 1 << 20
)

// frozen implements state.Frozen.
type frozen struct {
	b     *Backend
	id    job.CheckpointID
	epoch uint64
	done  atomic.Bool
	// fixed is closed when newer content may reach the database: its checkpoint exists, or never will.
	fixed chan struct{}
	once  sync.Once
}

var (
	errOver   = errors.New("it was persisted or dropped before")
	errClosed = errors.New("the backend is closed")
)

func (f *frozen) fix() { f.once.Do(func() { close(f.fixed) }) }

func (f *frozen) isFixed() bool {
	select {
	case <-f.fixed:
		return true
	default:
		return false
	}
}

// Drop implements state.Frozen.
func (f *frozen) Drop() {
	if f.done.CompareAndSwap(false, true) {
		f.b.set.Release()
		f.fix()
	}
}

// Persist implements state.Frozen.
func (f *frozen) Persist(ctx context.Context, up state.Uploader) (checkpoint.OperatorState, error) {
	if !f.done.CompareAndSwap(false, true) {
		return checkpoint.OperatorState{}, f.wrap(errOver)
	}
	defer f.fix()
	defer f.b.set.Release()
	f.b.use.RLock()
	defer f.b.use.RUnlock()
	if f.b.closed {
		return checkpoint.OperatorState{}, f.wrap(errClosed)
	}
	files, err := f.persist(ctx, up)
	if err != nil {
		return checkpoint.OperatorState{}, f.wrap(err)
	}
	return checkpoint.OperatorState{KeyRange: f.b.cfg.KeyRange, Backend: Name, Files: files}, nil
}

func (f *frozen) wrap(err error) error {
	return fmt.Errorf("persist pebble state for checkpoint %d: %w", f.id, err)
}

func (f *frozen) persist(ctx context.Context, up state.Uploader) ([]checkpoint.File, error) {
	if err := f.b.describe(); err != nil {
		return nil, err
	}
	if err := f.applyAll(ctx); err != nil {
		return nil, err
	}
	// Whoever writes newer content waits for fix, so the number stands for the content.
	writes := f.b.writes.Load()
	if last := f.b.last; last.dir != "" && last.writes == writes {
		f.fix()
		return f.upload(ctx, up, last.dir, func(_, local string) *checkpoint.File { return f.b.knownFile(local) })
	}
	if err := f.flush(ctx); err != nil {
		return nil, fmt.Errorf("flush: %w", err)
	}
	dir := filepath.Join(f.b.cfg.Dir, fmt.Sprintf("chk-%d", f.id))
	if err := f.b.db.Checkpoint(dir); err != nil {
		return nil, fmt.Errorf("hard-link checkpoint: %w", err)
	}
	f.fix()
	files, err := f.upload(ctx, up, dir, f.reuse)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = os.RemoveAll(f.b.last.dir)
	f.b.last = linked{dir: dir, writes: writes}
	return files, err
}

func (b *Backend) knownFile(local string) *checkpoint.File {
	if f, ok := b.known[local]; ok {
		return &f
	}
	return nil
}

// flush waits until no content is in memtables. Pebble tries a failed flush again and again; the checkpoint
// is declined at the first failure, a later one may find the disk mended.
func (f *frozen) flush(ctx context.Context) error {
	if !f.b.unflushed.Load() {
		return nil
	}
	failed := f.b.health.next()
	flushed, err := f.b.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		f.b.unflushed.Store(false)
		return nil
	case err := <-failed:
		return fmt.Errorf("background work failed: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// upload uploads the files of the checkpoint in dir; reuse names a known file with the content of one.
func (f *frozen) upload(ctx context.Context, up state.Uploader, dir string, reuse func(path, local string) *checkpoint.File) ([]checkpoint.File, error) {
	locals, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	files := make([]checkpoint.File, len(locals))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelTransfers)
	for i, local := range locals {
		g.Go(func() (err error) {
			path := filepath.Join(dir, local)
			if files[i], err = up.Upload(ctx, path, local, reuse(path, local)); err != nil {
				return fmt.Errorf("upload %s: %w", local, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	clear(f.b.known)
	for _, file := range files {
		f.b.known[file.Local] = file
	}
	return files, nil
}

// listFiles lists the files of a database's checkpoint that make it up.
func listFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
			return nil, err
		case strings.HasSuffix(e.Name(), ".log") && info.Size() == 0:
		case !localName.MatchString(e.Name()):
			return nil, fmt.Errorf("unexpected file %q of %d bytes in a checkpoint", e.Name(), info.Size())
		default:
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// reuse returns the file of the newest checkpoint that has the same content, if there is one. A table is
// never changed and its number never used again in one line of checkpoints; of the others the digest tells.
func (f *frozen) reuse(path, local string) *checkpoint.File {
	old := f.b.knownFile(local)
	if old == nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != old.Size {
		return nil
	}
	if strings.HasSuffix(local, ".sst") {
		return old
	}
	if info.Size() > smallFile {
		return nil
	}
	body, err := os.ReadFile(path)
	if sum := sha256.Sum256(body); err != nil || hex.EncodeToString(sum[:]) != old.SHA256 {
		return nil
	}
	return old
}
