package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// sizeEvery is how many bytes of records come between two looks at the size of a table and at the context.
const sizeEvery = 16 << 10

// tables writes records that come in the order of their keys, each key once, into tables beside the database, and hands
// them to it: sorted already, they need no memtable, and no flush of one. One goroutine.
type tables struct {
	b     *Backend
	opts  sstable.WriterOptions
	paths []string
	w     *sstable.Writer
	fresh int // bytes of records since the last look at the size of w
}

func (b *Backend) newTables() *tables {
	o := options(b.files(), b.limit, nil)
	o.EnsureDefaults()
	return &tables{b: b, opts: o.MakeWriterOptions(0, b.db.TableFormat())}
}

// set adds a key with its value.
func (t *tables) set(ctx context.Context, key, value []byte) error {
	if err := t.room(ctx, len(key)+len(value)); err != nil {
		return err
	}
	return t.w.Set(key, value)
}

// delete adds the deletion of a key.
func (t *tables) delete(ctx context.Context, key []byte) error {
	if err := t.room(ctx, len(key)); err != nil {
		return err
	}
	return t.w.Delete(key)
}

// room begins a table if there is none, or the one there is has its size, for a record of n bytes.
func (t *tables) room(ctx context.Context, n int) error {
	if t.w == nil || t.fresh >= sizeEvery {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t.fresh = 0; t.w != nil && t.w.Raw().EstimatedSize() >= tableBytes {
			if err := t.finish(); err != nil {
				return err
			}
		}
	}
	t.fresh += n
	if t.w != nil {
		return nil
	}
	path := filepath.Join(t.b.cfg.Dir, fmt.Sprintf("new-%d.sst", len(t.paths)))
	f, err := t.b.files().Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	t.paths = append(t.paths, path)
	t.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), t.opts)
	return nil
}

func (t *tables) finish() error {
	if t.w == nil {
		return nil
	}
	w := t.w
	t.w = nil
	return w.Close()
}

// ingest makes all of the records part of the database, or none. What the database has of their keys is older.
func (t *tables) ingest(ctx context.Context) error {
	if err := t.finish(); err != nil || len(t.paths) == 0 {
		return err
	}
	if err := t.b.db.Ingest(ctx, t.paths); err != nil {
		return fmt.Errorf("add %d tables to the database: %w", len(t.paths), err)
	}
	t.b.writes.Add(1)
	t.b.health.clear() // the disk takes tables
	t.paths = nil      // the database has removed them
	return nil
}

// abandon removes what was not ingested.
func (t *tables) abandon() error {
	var errs []error
	if t.w != nil {
		errs = append(errs, t.finish())
	}
	for _, path := range t.paths {
		if err := t.b.files().Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	t.paths = nil
	return errors.Join(errs...)
}
