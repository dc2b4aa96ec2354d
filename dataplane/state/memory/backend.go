package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

// Name is the backend's name in manifests and job specs.
const Name = "memory"

// Backend implements state.Backend.
type Backend struct {
	cfg state.Config
	set *table.Set

	// last is what the newest successful Persist wrote: written by Persist, read by Freeze, which
	// are never in progress at once (Release and Freeze order them).
	last []checkpoint.File
	// persisted is the newest epoch that Persist has finished with success; frozen the newest frozen one.
	persisted atomic.Uint64
	frozen    uint64
	// changed is set when the content differs from last.
	changed bool
}

var (
	_ state.Backend  = (*Backend)(nil)
	_ state.Restorer = (*Backend)(nil)
	_ state.Pending  = (*Backend)(nil)
)

// Open returns an empty backend. Files of checkpoints are staged in cfg.Dir, which is created.
func Open(cfg state.Config) (*Backend, error) {
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open memory state: %w", err)
	}
	return &Backend{cfg: cfg, set: table.NewSet(cfg, nil), changed: true}, nil
}

// Table implements state.Backend.
func (b *Backend) Table(name string, l state.Layout) (state.Table, error) {
	return b.set.Table(name, l)
}

// Buckets implements state.Backend.
func (b *Backend) Buckets(name string, l state.Layout) (state.Buckets, error) {
	return b.set.Buckets(name, l)
}

// EndBatch implements state.Backend.
func (b *Backend) EndBatch() error {
	b.set.EndBatch()
	return nil
}

// Pending implements state.Pending.
func (b *Backend) Pending() bool { return b.set.Pending() }

// Bytes implements state.Backend.
func (b *Backend) Bytes() int64 { return b.set.Bytes() }

// Close implements state.Backend: it removes the staged files.
func (b *Backend) Close() error {
	if err := os.RemoveAll(b.cfg.Dir); err != nil {
		return fmt.Errorf("close memory state: %w", err)
	}
	return nil
}

// Freeze implements state.Backend.
func (b *Backend) Freeze(id job.CheckpointID) (state.Frozen, error) {
	if b.set.Open() {
		return nil, fmt.Errorf("freeze memory state for checkpoint %d: %w", id, table.ErrFrozen)
	}
	if b.frozen != 0 && b.persisted.Load() == b.frozen {
		b.changed = false
	}
	b.changed = b.changed || b.set.Touched()
	epoch, err := b.set.Freeze(!b.changed)
	if err != nil {
		return nil, fmt.Errorf("freeze memory state for checkpoint %d: %w", id, err)
	}
	b.frozen = epoch
	return &frozen{b: b, id: id, epoch: epoch, changed: b.changed}, nil
}

// frozen implements state.Frozen.
type frozen struct {
	b       *Backend
	id      job.CheckpointID
	epoch   uint64
	changed bool
	done    atomic.Bool
}

var errOver = errors.New("it was persisted or dropped before")

// Drop implements state.Frozen.
func (f *frozen) Drop() {
	if f.done.CompareAndSwap(false, true) {
		f.b.set.Release()
	}
}

// Persist implements state.Frozen.
func (f *frozen) Persist(ctx context.Context, up state.Uploader) (checkpoint.OperatorState, error) {
	if !f.done.CompareAndSwap(false, true) {
		return checkpoint.OperatorState{}, fmt.Errorf("persist memory state for checkpoint %d: %w", f.id, errOver)
	}
	defer f.b.set.Release()
	files, err := f.files(ctx, up)
	if err != nil {
		return checkpoint.OperatorState{}, fmt.Errorf("persist memory state for checkpoint %d: %w", f.id, err)
	}
	f.b.persisted.Store(f.epoch)
	return checkpoint.OperatorState{KeyRange: f.b.cfg.KeyRange, Backend: Name, Files: files}, nil
}

func (f *frozen) files(ctx context.Context, up state.Uploader) ([]checkpoint.File, error) {
	if !f.changed {
		return f.upload(ctx, up, names(f.b.last), f.b.last)
	}
	chunks, err := f.collect(ctx)
	if err != nil {
		return nil, err
	}
	w := writer{dir: f.b.cfg.Dir, id: f.id, definitions: f.b.set.Definitions()}
	locals, err := w.write(ctx, chunks)
	if err != nil {
		w.remove(locals)
		return nil, err
	}
	files, err := f.upload(ctx, up, locals, nil)
	if err != nil {
		w.remove(locals)
		return nil, err
	}
	// The files stay: should nothing change before the next checkpoint, they are its files too.
	w.remove(names(f.b.last))
	f.b.last = files
	return files, nil
}

func (f *frozen) collect(ctx context.Context) (chunks [][]byte, err error) {
	for {
		c, ok, err := f.b.set.Queue().Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("wait for the frozen content: %w", err)
		}
		if !ok {
			return chunks, nil
		}
		chunks = append(chunks, c)
	}
}

func (f *frozen) upload(ctx context.Context, up state.Uploader, locals []string, reuse []checkpoint.File) ([]checkpoint.File, error) {
	files := make([]checkpoint.File, 0, len(locals))
	for i, local := range locals {
		var old *checkpoint.File
		if reuse != nil {
			old = &reuse[i]
		}
		file, err := up.Upload(ctx, filepath.Join(f.b.cfg.Dir, local), local, old)
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", local, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func names(files []checkpoint.File) []string {
	locals := make([]string, len(files))
	for i, f := range files {
		locals[i] = f.Local
	}
	return locals
}
