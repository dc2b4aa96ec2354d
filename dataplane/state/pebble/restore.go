package pebble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

// Restore implements state.Restorer.
func (b *Backend) Restore(ctx context.Context, from []checkpoint.OperatorState, down state.Downloader) error {
	if err := b.restore(ctx, from, down); err != nil {
		return fmt.Errorf("restore pebble state: %w", err)
	}
	return nil
}

func (b *Backend) restore(ctx context.Context, from []checkpoint.OperatorState, down state.Downloader) error {
	sources, err := b.sources(from)
	if err != nil || len(sources) == 0 {
		return err
	}
	if len(sources) == 1 && sources[0].KeyRange == b.cfg.KeyRange {
		err = b.adopt(ctx, sources[0], down)
	} else {
		for i, s := range sources {
			if err = b.copySource(ctx, i, s, down); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	return b.warm()
}

// sources checks the manifest entries and returns those with files, by key group.
func (b *Backend) sources(from []checkpoint.OperatorState) ([]checkpoint.OperatorState, error) {
	var sources []checkpoint.OperatorState
	for _, s := range from {
		if len(s.Files) == 0 {
			continue
		}
		if s.Backend != Name {
			return nil, fmt.Errorf("the checkpoint has state of backend %q: the backend of a job cannot change", s.Backend)
		}
		seen := map[string]bool{}
		for _, f := range s.Files {
			if !localName.MatchString(f.Local) || seen[f.Local] {
				return nil, fmt.Errorf("%s[%d]: file %s: local name %q is not one of this backend or occurs twice", s.Operator, s.Subtask, f.Name, f.Local)
			}
			seen[f.Local] = true
		}
		sources = append(sources, s)
	}
	slices.SortFunc(sources, func(a, b checkpoint.OperatorState) int { return int(a.KeyRange.From) - int(b.KeyRange.From) })
	for i := range sources[min(1, len(sources)):] {
		if a, b := sources[i].KeyRange, sources[i+1].KeyRange; a.Overlaps(b) {
			return nil, fmt.Errorf("the checkpoint has key groups %s and %s of one operator: they overlap", a, b)
		}
	}
	return sources, nil
}

// adopt opens the files of a source with exactly the backend's key groups as its database.
func (b *Backend) adopt(ctx context.Context, s checkpoint.OperatorState, down state.Downloader) error {
	err := b.db.Close()
	b.db = nil
	if err = errors.Join(err, os.RemoveAll(b.dir())); err != nil {
		return fmt.Errorf("clear the database: %w", err)
	}
	if err := download(ctx, s, b.dir(), down); err != nil {
		return err
	}
	restored := filepath.Join(b.cfg.Dir, "restored")
	if err := link(b.dir(), restored); err != nil {
		return named(s, err)
	}
	if err := b.openDB(); err != nil {
		return named(s, err)
	}
	for _, f := range s.Files {
		b.known[f.Local] = f
	}
	stored, err := b.checkDefinitions(b.db)
	if err != nil {
		return named(s, err)
	}
	b.described = stored == len(b.set.Definitions())
	b.last = linked{dir: restored, writes: b.writes.Load()}
	return nil
}

// link makes hard links to all files in from in the new directory to. The database that is opened there may replace
// files as soon as it is open, while checkpoints of unchanged content name those that were restored.
func link(from, to string) error {
	if err := os.Mkdir(to, 0o750); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func named(s checkpoint.OperatorState, err error) error {
	return fmt.Errorf("%s[%d]: %w", s.Operator, s.Subtask, err)
}

// download fetches the files of s into dir, which is created. The names were checked before.
func download(ctx context.Context, s checkpoint.OperatorState, dir string, down state.Downloader) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelTransfers)
	for _, f := range s.Files {
		g.Go(func() error {
			if err := down.Download(ctx, f, filepath.Join(dir, f.Local)); err != nil {
				return named(s, fmt.Errorf("file %s (%s): %w", f.Local, f.Name, err))
			}
			return nil
		})
	}
	return g.Wait()
}

// copySource copies the own key groups of a source into the database.
func (b *Backend) copySource(ctx context.Context, i int, s checkpoint.OperatorState, down state.Downloader) (err error) {
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("source-%d", i))
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := download(ctx, s, dir, down); err != nil {
		return err
	}
	db, err := pebble.Open(dir, readOnly())
	if err != nil {
		return named(s, fmt.Errorf("open database: %w", err))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := b.checkDefinitions(db); err != nil {
		return named(s, err)
	}
	own := job.KeyGroupRange{From: max(s.KeyRange.From, b.cfg.KeyRange.From), To: min(s.KeyRange.To, b.cfg.KeyRange.To)}
	if own.From >= own.To {
		return nil
	}
	if err := b.copyGroups(ctx, db, own); err != nil {
		return named(s, fmt.Errorf("copy key groups %s: %w", own, err))
	}
	return nil
}

func (b *Backend) copyGroups(ctx context.Context, db *pebble.DB, own job.KeyGroupRange) (err error) {
	t := b.newTables()
	defer func() { err = errors.Join(err, t.abandon()) }()
	err = scan(db, groupStart(own.From), groupStart(own.To), func(it *pebble.Iterator) error {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		return t.set(ctx, it.Key(), v)
	})
	if err != nil {
		return err
	}
	return t.ingest(ctx)
}

// checkDefinitions compares the states of db with the open ones and returns their number.
func (b *Backend) checkDefinitions(db *pebble.DB) (n int, err error) {
	from := groupStart(metaGroup)
	err = scan(db, from, nil, func(it *pebble.Iterator) error {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		var d table.Definition
		if err := json.Unmarshal(v, &d); err != nil {
			return fmt.Errorf("definition %x: %w", it.Key(), err)
		}
		n++
		return b.set.Check(d)
	})
	return n, err
}

// warm loads entries into the working copy until half of its bound is used, and notes what was left out. It
// also finds the buckets that exist.
func (b *Backend) warm() (err error) {
	it, err := b.db.NewIter(&pebble.IterOptions{LowerBound: groupStart(b.cfg.KeyRange.From), UpperBound: groupStart(b.cfg.KeyRange.To)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if b.set.Used() < b.limit/2 {
			if err := b.set.Insert(it.Key(), v); err != nil {
				return err
			}
			ok = it.Next()
			continue
		}
		// One look at each key group of each table: the rest of it stays below.
		span, err := b.set.SetCold(it.Key())
		if err != nil {
			return err
		}
		ok = it.SeekGE(table.PrefixEnd(span))
	}
	return it.Error()
}
