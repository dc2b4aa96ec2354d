package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

// runBytes is how much frozen content is sorted at once. What a checkpoint has of it becomes a level of tables for every
// runBytes, which compactions merge and reads look into.
const runBytes = 64 << 20

// run is frozen content in memory: it is sorted, and becomes tables of the database.
type run struct {
	groups job.KeyGroupRange
	chunks [][]byte
	bytes  int
	// records are in the order in which they came, those of one key group after those of another once sort has been called.
	records []located
	ranges  []located // range deletions, in the order in which they came
}

// located is a record of a run.
type located struct {
	prefix uint64 // the key group; once sorted by it, eight bytes of the key behind what all keys of the group have in common
	at     uint64 // chunk (upper half) and offset in it: later ones are newer
}

// add takes a chunk. On error it is part of the run all the same.
func (r *run) add(chunk []byte) error {
	n := uint64(len(r.chunks)) << 32
	r.chunks = append(r.chunks, chunk)
	r.bytes += len(chunk)
	for left := chunk; len(left) > 0; {
		rec, rest, err := table.Next(left)
		if err != nil {
			return err
		}
		g, _, _, err := table.ParseHeader(rec.Key)
		if err != nil {
			return err
		}
		if !r.groups.Contains(g) {
			return fmt.Errorf("a key of key group %d, which is not in %s", g, r.groups)
		}
		l := located{prefix: uint64(g - r.groups.From), at: n | uint64(len(chunk)-len(left))}
		if rec.Op == table.OpDeleteRange {
			r.ranges = append(r.ranges, l)
		} else {
			r.records = append(r.records, l)
		}
		left = rest
	}
	return nil
}

func (r *run) record(l located) table.Record {
	rec, _, _ := table.Next(r.chunks[l.at>>32][uint32(l.at):]) // add has read it
	return rec
}

// sort sorts the records by key, newest first: first by key group, of which there are few, then each of these small parts
// by what distinguishes its keys.
func (r *run) sort() {
	ends := make([]int, r.groups.To-r.groups.From+1) // of key group g at g+1, until the records are placed
	for _, l := range r.records {
		ends[l.prefix+1]++
	}
	for g := range ends[1:] {
		ends[g+1] += ends[g]
	}
	sorted := make([]located, len(r.records))
	for _, l := range r.records {
		sorted[ends[l.prefix]] = l
		ends[l.prefix]++
	}
	r.records = sorted
	from := 0
	for _, to := range ends[:len(ends)-1] {
		r.sortGroup(sorted[from:to])
		from = to
	}
}

func (r *run) sortGroup(part []located) {
	common := r.common(part)
	for i := range part {
		var b [8]byte
		copy(b[:], r.record(part[i]).Key[common:])
		part[i].prefix = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(part, func(a, b located) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		if c := bytes.Compare(r.record(a).Key[common:], r.record(b).Key[common:]); c != 0 {
			return c
		}
		return cmp.Compare(b.at, a.at)
	})
}

// common is how many bytes all keys begin with.
func (r *run) common(part []located) int {
	if len(part) == 0 {
		return 0
	}
	first := r.record(part[0]).Key
	n := len(first)
	for _, l := range part[1:] {
		key := r.record(l).Key
		n = min(n, len(key))
		for i := range n {
			if key[i] != first[i] {
				n = i
				break
			}
		}
	}
	return n
}

// deleted reports whether a newer range deletion of the run covers the record. Most runs begin with theirs.
func (r *run) deleted(l located, key []byte) bool {
	for _, d := range slices.Backward(r.ranges) {
		if d.at < l.at {
			return false
		}
		if del := r.record(d); bytes.Compare(del.Key, key) <= 0 && bytes.Compare(key, del.Value) < 0 {
			return true
		}
	}
	return false
}

// writeTo adds the sorted records to t: of each key the newest.
func (r *run) writeTo(ctx context.Context, t *tables) error {
	var last []byte
	for _, l := range r.records {
		rec := r.record(l)
		if bytes.Equal(rec.Key, last) || r.deleted(l, rec.Key) {
			continue
		}
		last = rec.Key
		var err error
		if rec.Op == table.OpSet {
			err = t.set(ctx, rec.Key, rec.Value)
		} else {
			err = t.delete(ctx, rec.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyAll writes the frozen content into the database. On error what has not reached it is in the queue again.
func (f *frozen) applyAll(ctx context.Context) error {
	q := f.b.set.Queue()
	r := &run{groups: f.b.cfg.KeyRange}
	defer f.b.running.Store(0)
	for {
		chunk, ok, err := q.Next(ctx)
		switch {
		case err != nil:
			err = fmt.Errorf("wait for the frozen content: %w", err)
		case ok:
			err = r.add(chunk)
			f.b.running.Store(int64(r.bytes))
			if err == nil && r.bytes < runBytes {
				continue
			}
		}
		if err == nil {
			err = f.settle(ctx, r)
		}
		if err != nil {
			for _, c := range slices.Backward(r.chunks) {
				q.PutBack(c)
			}
			return err
		}
		if !ok {
			f.b.set.Applied(f.epoch)
			return nil
		}
		*r = run{groups: r.groups}
	}
}

// settle brings a run into the database. Range deletions go first, through the memtable: what is newer lies above them.
func (f *frozen) settle(ctx context.Context, r *run) (err error) {
	if len(r.chunks) == 0 {
		return nil
	}
	if err := f.awaitCompactions(ctx); err != nil {
		return fmt.Errorf("wait for compactions: %w", err)
	}
	if err := f.deleteRanges(r); err != nil {
		return err
	}
	// What is in memtables is older than the run. Pebble would wait for it as well, but for ever if it cannot be written.
	if err := f.flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	r.sort()
	t := f.b.newTables()
	defer func() { err = errors.Join(err, t.abandon()) }()
	if err := r.writeTo(ctx, t); err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	if err := t.ingest(ctx); err != nil {
		return err
	}
	for _, c := range r.chunks {
		f.b.set.Queue().Recycle(c)
	}
	return nil
}

// awaitCompactions waits while they are so far behind that Pebble would stop every write. Tables that are handed to it do
// not stop, but what it cannot merge in time makes every look-up dearer.
func (f *frozen) awaitCompactions(ctx context.Context) error {
	for {
		failed := f.b.health.next()
		if f.b.db.Metrics().Levels[0].Sublevels < stopAt {
			return nil
		}
		select {
		case <-f.b.compacted:
		case err := <-failed:
			return fmt.Errorf("background work failed: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *frozen) deleteRanges(r *run) error {
	if len(r.ranges) == 0 {
		return nil
	}
	w := f.b.db.NewBatch()
	defer w.Close()
	for _, d := range r.ranges {
		rec := r.record(d)
		if err := w.DeleteRange(rec.Key, rec.Value, nil); err != nil {
			return err
		}
	}
	if err := f.b.commit(w); err != nil {
		return fmt.Errorf("delete ranges: %w", err)
	}
	return nil
}
