package statetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// value is the content of an entry of the suite's layout: two words and two fields.
type value struct {
	words [2]uint64
	vars  [2]string
}

var layout = state.Layout{Words: 2, Vars: 2}

// model is what the state should contain; bucket 0 of keys is the plain table.
type model struct {
	table   map[string]value
	buckets map[int64]map[string]value
}

func newModel() model {
	return model{table: map[string]value{}, buckets: map[int64]map[string]value{}}
}

func (m model) clone() model {
	c := model{table: maps.Clone(m.table), buckets: map[int64]map[string]value{}}
	for t, b := range m.buckets {
		c.buckets[t] = maps.Clone(b)
	}
	return c
}

// subtask is one backend with its two states.
type subtask struct {
	state.Backend
	table   state.Table
	buckets state.Buckets
}

// cluster is the subtasks of an operator: the owner of all backends.
type cluster struct {
	t     testing.TB
	h     Harness
	store *Store
	max   int
	subs  []subtask
	next  job.CheckpointID
}

// open starts a cluster of p subtasks from the states of a checkpoint.
func open(t testing.TB, h Harness, store *Store, p, maxParallelism int, from []checkpoint.OperatorState) *cluster {
	t.Helper()
	c := &cluster{t: t, h: h, store: store, max: maxParallelism, next: 1}
	for i := range p {
		s, err := c.openSubtask(i, p, from)
		if err != nil {
			t.Fatalf("open subtask %d of %d: %v", i, p, err)
		}
		c.subs = append(c.subs, s)
	}
	return c
}

func (c *cluster) openSubtask(i, p int, from []checkpoint.OperatorState) (s subtask, err error) {
	r := job.RangeOf(i, p, c.max)
	s.Backend = c.h.Open(c.t, state.Config{
		Dir: c.t.TempDir(), KeyRange: r, MaxParallelism: c.max, CacheBytes: c.h.CacheBytes,
	})
	if s.table, err = s.Table("keys", layout); err != nil {
		return s, err
	}
	if s.buckets, err = s.Buckets("windows", layout); err != nil {
		return s, err
	}
	var mine []checkpoint.OperatorState
	for _, o := range from {
		if o.KeyRange.Overlaps(r) {
			mine = append(mine, o)
		}
	}
	if len(mine) > 0 {
		err = s.Backend.(state.Restorer).Restore(context.Background(), mine, c.store)
	}
	return s, err
}

func (c *cluster) close() {
	c.t.Helper()
	for i, s := range c.subs {
		if err := s.Close(); err != nil {
			c.t.Fatalf("close subtask %d: %v", i, err)
		}
	}
	c.subs = nil
}

// route splits keys over the subtasks.
func (c *cluster) route(keys []string) []state.KeySet {
	sets := make([]state.KeySet, len(c.subs))
	for _, k := range keys {
		h := batch.HashBytes([]byte(k))
		s := &sets[job.OwnerOf(job.KeyGroupOf(h, c.max), len(c.subs), c.max)]
		s.Bytes = append(s.Bytes, k...)
		s.Ends = append(s.Ends, int32(len(s.Bytes)))
		s.Hash = append(s.Hash, h)
	}
	return sets
}

// change is what a batch does to an entry; nil deletes it.
type change func(value) value

// batch applies change to every key of bucket (nil: the plain table), in the backends and in m.
func (c *cluster) batch(m map[string]value, bucket *int64, keys []string, to change) {
	c.t.Helper()
	for i, set := range c.route(keys) {
		s := c.subs[i]
		table, err := s.table, error(nil)
		if bucket != nil {
			table, err = s.buckets.Bucket(*bucket)
		}
		if err != nil {
			c.t.Fatalf("bucket %d: %v", *bucket, err)
		}
		slots := make([]state.Slot, set.Len())
		if err := table.Resolve(&set, slots); err != nil {
			c.t.Fatalf("resolve: %v", err)
		}
		for n, slot := range slots {
			key := string(set.Key(n))
			have := read(table, slot)
			if want := m[key]; have != want {
				c.t.Fatalf("subtask %d: key %q: got %+v, want %+v", i, key, have, want)
			}
			if to == nil {
				table.Delete(slot)
				delete(m, key)
				continue
			}
			m[key] = to(have)
			write(table, slot, m[key])
		}
	}
	c.endBatch()
}

func (c *cluster) endBatch() {
	c.t.Helper()
	for i, s := range c.subs {
		if err := s.EndBatch(); err != nil {
			c.t.Fatalf("subtask %d: end of batch: %v", i, err)
		}
	}
}

func read(t state.Table, s state.Slot) (v value) {
	copy(v.words[:], t.Words(s))
	for i := range v.vars {
		v.vars[i] = string(t.Var(s, i))
	}
	return v
}

func write(t state.Table, s state.Slot, v value) {
	copy(t.Words(s), v.words[:])
	for i := range v.vars {
		t.SetVar(s, i, []byte(v.vars[i]))
	}
}

// snapshot is a frozen cluster.
type snapshot struct {
	c       *cluster
	content model
	frozen  []state.Frozen
	results chan result
}

type result struct {
	subtask int
	state   checkpoint.OperatorState
	err     error
}

func (c *cluster) freeze(m model) *snapshot {
	c.t.Helper()
	s := &snapshot{c: c, content: m.clone(), results: make(chan result, len(c.subs))}
	for i, sub := range c.subs {
		f, err := sub.Freeze(c.next)
		if err != nil {
			c.t.Fatalf("freeze subtask %d: %v", i, err)
		}
		s.frozen = append(s.frozen, f)
	}
	c.next++
	return s
}

func (s *snapshot) drop() {
	for _, f := range s.frozen {
		f.Drop()
	}
}

// persist starts the background work.
func (s *snapshot) persist(ctx context.Context) {
	for i, f := range s.frozen {
		go func() {
			o, err := f.Persist(ctx, s.c.store)
			o.Operator, o.Subtask = "op", i
			s.results <- result{i, o, err}
		}()
	}
}

// await plays the idle owner until the background work is done.
func (s *snapshot) await() (states []checkpoint.OperatorState, err error) {
	for _, sub := range s.c.subs {
		for sub.Backend.(state.Pending).Pending() {
			if err := sub.EndBatch(); err != nil {
				return nil, err
			}
		}
	}
	for range s.frozen {
		r := <-s.results
		if r.err != nil {
			err = fmt.Errorf("subtask %d: %w", r.subtask, r.err)
		}
		states = append(states, r.state)
	}
	slices.SortFunc(states, func(a, b checkpoint.OperatorState) int { return a.Subtask - b.Subtask })
	return states, err
}

func (s *snapshot) mustPersist() []checkpoint.OperatorState {
	s.c.t.Helper()
	s.persist(context.Background())
	states, err := s.await()
	if err != nil {
		s.c.t.Fatalf("persist: %v", err)
	}
	return states
}

// check compares the whole content with m.
func (c *cluster) check(m model) {
	c.t.Helper()
	table := map[string]value{}
	buckets := map[int64]map[string]value{}
	for i, s := range c.subs {
		c.collect(i, s.table, table)
		for _, t := range slices.Clone(s.buckets.Times()) {
			b, err := s.buckets.Bucket(t)
			if err != nil {
				c.t.Fatalf("bucket %d: %v", t, err)
			}
			if buckets[t] == nil {
				buckets[t] = map[string]value{}
			}
			c.collect(i, b, buckets[t])
		}
	}
	c.compare("table", table, m.table)
	for t, want := range m.buckets {
		c.compare(fmt.Sprintf("bucket %d", t), buckets[t], want)
		delete(buckets, t)
	}
	for t, b := range buckets {
		if len(b) > 0 {
			c.t.Fatalf("bucket %d: got %d entries, want none", t, len(b))
		}
	}
}

func (c *cluster) collect(i int, t state.Table, into map[string]value) {
	c.t.Helper()
	err := t.Each(func(key []byte, s state.Slot) error {
		if _, twice := into[string(key)]; twice {
			return fmt.Errorf("key %q occurs twice", key)
		}
		into[string(key)] = read(t, s)
		return nil
	})
	if err != nil {
		c.t.Fatalf("each of subtask %d: %v", i, err)
	}
}

func (c *cluster) compare(what string, got, want map[string]value) {
	c.t.Helper()
	for k, w := range want {
		if g, ok := got[k]; !ok || g != w {
			c.t.Fatalf("%s: key %q: got %+v (present: %t), want %+v", what, k, g, ok, w)
		}
	}
	if len(got) != len(want) {
		c.t.Fatalf("%s: got %d entries, want %d", what, len(got), len(want))
	}
}
