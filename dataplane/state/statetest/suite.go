package statetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// Harness opens backends of one kind. They must implement state.Restorer and state.Pending as well.
type Harness struct {
	Open func(t testing.TB, cfg state.Config) state.Backend
	// CacheBytes goes into every Config: small, so that a backend which evicts does so.
	CacheBytes int64
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Run("Model", func(t *testing.T) { testModel(t, h) })
	t.Run("Rescale", func(t *testing.T) { testRescale(t, h) })
	t.Run("FewKeys", func(t *testing.T) { testFewKeys(t, h) })
	t.Run("Frozen", func(t *testing.T) { testFrozen(t, h) })
	t.Run("DropIsCarriedOver", func(t *testing.T) { testDrop(t, h) })
	t.Run("FailureIsCarriedOver", func(t *testing.T) { testFailure(t, h) })
	t.Run("DroppedBucketStaysGone", func(t *testing.T) { testDroppedBucket(t, h) })
	t.Run("Unchanged", func(t *testing.T) { testUnchanged(t, h) })
	t.Run("ChangedBehindTheCopy", func(t *testing.T) { testChangedBehindTheCopy(t, h) })
	t.Run("Definitions", func(t *testing.T) { testDefinitions(t, h) })
	t.Run("Damage", func(t *testing.T) { testDamage(t, h) })
	t.Run("ForeignNames", func(t *testing.T) { testForeignNames(t, h) })
	t.Run("WrongSubtask", func(t *testing.T) { testWrongSubtask(t, h) })
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
		if i%7 == 0 {
			keys[i] += strings.Repeat("-long", i%11)
		}
	}
	return keys
}

func plus(n uint64, text string) change {
	return func(v value) value {
		v.words[0] += n
		v.words[1]++
		v.vars[0] = text
		v.vars[1] += text
		if len(v.vars[1]) > 60 {
			v.vars[1] = ""
		}
		return v
	}
}

// Every key once, its value intact, on the subtask that owns its key group.
func testRescale(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 3, 128, nil)
	keys := manyKeys(10_000)
	for i := 0; i < len(keys); i += 1000 {
		c.batch(m.table, nil, keys[i:i+1000], plus(uint64(i), "x"))
	}
	bucket := int64(-60)
	m.buckets[bucket] = map[string]value{}
	c.batch(m.buckets[bucket], &bucket, keys[:500], plus(1, "w"))
	for i, p := range []int{3, 5, 1, 7, 128, 2} {
		states := c.freeze(m).mustPersist()
		c.close()
		c = open(t, h, store, p, 128, states)
		c.check(m)
		c.batch(m.table, nil, keys[i*100:i*100+300], plus(7, "y"))
		c.batch(m.table, nil, keys[5000+i*50:5000+i*50+20], nil)
		c.check(m)
	}
	c.close()
}

func testFewKeys(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 5, 128, nil)
	states := c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 3, 128, states)
	c.check(m)
	c.batch(m.table, nil, manyKeys(3), plus(1, ""))
	states = c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 1, 128, states)
	c.check(m)
	c.close()
}

// What a checkpoint contains is what was there when it was frozen, whatever happens while it is persisted.
func testFrozen(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 2, 16, nil)
	keys := manyKeys(3000)
	gone := int64(1)
	m.buckets[gone] = map[string]value{}
	c.batch(m.table, nil, keys[:2000], plus(1, "a"))
	c.batch(m.buckets[gone], &gone, keys[:1500], plus(3, "b"))
	s := c.freeze(m)
	if _, err := c.subs[0].Freeze(99); err == nil {
		t.Error("a second freeze while one is in progress: got no error")
	}
	s.persist(context.Background())
	c.batch(m.table, nil, keys[500:1000], nil)
	c.batch(m.table, nil, keys[:2500], plus(10, "c"))
	for _, sub := range c.subs {
		if err := sub.buckets.Drop(gone); err != nil {
			t.Fatalf("drop: %v", err)
		}
	}
	m.buckets[gone] = map[string]value{}
	c.batch(m.buckets[gone], &gone, keys[1400:1600], plus(5, "d"))
	states, err := s.await()
	if err != nil {
		t.Fatalf("persist: %v", err)
	}
	c.check(m)
	later := c.freeze(m)
	laterStates := later.mustPersist()
	c.close()
	for _, have := range []struct {
		states []checkpoint.OperatorState
		want   model
	}{{states, s.content}, {laterStates, m}} {
		c = open(t, h, store, 2, 16, have.states)
		c.check(have.want)
		c.close()
		c = open(t, h, store, 3, 16, have.states)
		c.check(have.want)
		c.close()
	}
}

func testDrop(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	keys := manyKeys(5000)
	c.batch(m.table, nil, keys, plus(1, "a"))
	c.freeze(m).drop()
	c.batch(m.table, nil, keys[:100], nil)
	s := c.freeze(m)
	c.endBatch()
	c.batch(m.table, nil, keys[50:200], plus(1, "b"))
	s.drop()
	c.check(m)
	states := c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 1, 16, states)
	c.check(m)
	c.close()
}

func testFailure(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 2, 16, nil)
	keys := manyKeys(2000)
	c.batch(m.table, nil, keys, plus(1, "a"))
	broken := errors.New("broken pipe")
	store.FailUploads(func(string) error { return broken })
	s := c.freeze(m)
	s.persist(context.Background())
	c.batch(m.table, nil, keys[:100], nil)
	if _, err := s.await(); !errors.Is(err, broken) {
		t.Fatalf("persist with a broken store: got %v, want %v", err, broken)
	}
	store.FailUploads(nil)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	s = c.freeze(m)
	s.persist(canceled)
	if _, err := s.await(); !errors.Is(err, context.Canceled) {
		t.Fatalf("persist with a cancelled context: got %v, want %v", err, context.Canceled)
	}
	c.batch(m.table, nil, keys[60:80], plus(1, "b"))
	c.check(m)
	states := c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 2, 16, states)
	c.check(m)
	c.close()
}

func testDroppedBucket(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	keys := manyKeys(200)
	drop := func(at int64) {
		if err := c.subs[0].buckets.Drop(at); err != nil {
			t.Fatalf("drop bucket %d: %v", at, err)
		}
		delete(m.buckets, at)
	}
	fill := func(at int64, keys []string) {
		m.buckets[at] = map[string]value{}
		c.batch(m.buckets[at], &at, keys, plus(1, "a"))
	}
	fill(-5, keys)
	fill(5, keys)
	states := c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 1, 16, states)
	drop(-5)
	fill(-5, keys[:3])
	states = c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 1, 16, states)
	c.check(m)
	if got := c.subs[0].buckets.Times(); len(got) != 2 || got[0] != -5 || got[1] != 5 {
		t.Errorf("times after the restore: got %v, want [-5 5]", got)
	}
	drop(5)
	drop(-5)
	drop(77)
	states = c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 1, 16, states)
	c.check(m)
	if got := c.subs[0].buckets.Times(); len(got) != 0 {
		t.Errorf("times after everything was dropped: got %v, want none", got)
	}
	c.close()
}

// A checkpoint of unchanged state uploads next to nothing.
func testUnchanged(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	keys := manyKeys(20_000)
	c.batch(m.table, nil, keys, plus(1, strings.Repeat("a", 40)))
	c.freeze(m).mustPersist()
	first := store.Traffic()
	states := c.freeze(m).mustPersist()
	second := store.Traffic()
	if second.Bytes > first.Bytes/20 {
		t.Errorf("unchanged state: uploaded %d bytes (%v) after %d", second.Bytes, second.Uploaded, first.Bytes)
	}
	c.close()
	c = open(t, h, store, 1, 16, states)
	c.check(m)
	c.close()
}

// A change to what has been copied for a checkpoint that is still in progress belongs to the next one, even if it
// is the only change.
func testChangedBehindTheCopy(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	keys := manyKeys(2000)
	c.batch(m.table, nil, keys, plus(1, "a"))
	first := c.freeze(m)
	for c.subs[0].Backend.(state.Pending).Pending() {
		c.endBatch()
	}
	c.batch(m.table, nil, keys[:3], plus(1, "b"))
	first.mustPersist()
	states := c.freeze(m).mustPersist()
	c.close()
	c = open(t, h, store, 1, 16, states)
	c.check(m)
	c.close()
}

func testDefinitions(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	c.batch(m.table, nil, manyKeys(10), plus(1, "a"))
	states := c.freeze(m).mustPersist()
	if _, err := c.subs[0].Table("keys", layout); err == nil {
		t.Error("a table opened twice: got no error")
	}
	c.close()
	for _, d := range []struct {
		name   string
		max    int
		table  string
		layout state.Layout
		want   string
	}{
		{"other layout", 16, "keys", state.Layout{Words: 3, Vars: 2}, `"keys"`},
		{"renamed", 16, "clefs", layout, `"keys"`},
		{"other max parallelism", 32, "keys", layout, "32"},
	} {
		t.Run(d.name, func(t *testing.T) {
			b := h.Open(t, state.Config{Dir: t.TempDir(), KeyRange: job.KeyGroupRange{To: 16}, MaxParallelism: d.max, CacheBytes: h.CacheBytes})
			defer b.Close()
			if _, err := b.Table(d.table, d.layout); err != nil {
				t.Fatalf("table: %v", err)
			}
			if _, err := b.Buckets("windows", layout); err != nil {
				t.Fatalf("buckets: %v", err)
			}
			err := b.(state.Restorer).Restore(context.Background(), states, store)
			if err == nil || !strings.Contains(err.Error(), d.want) {
				t.Errorf("restore: got %v, want an error with %s", err, d.want)
			}
		})
	}
}

// A damaged file is refused and named, whether the digest tells or the file itself must.
func testDamage(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	c.batch(m.table, nil, manyKeys(3000), plus(1, strings.Repeat("a", 30)))
	states := c.freeze(m).mustPersist()
	c.close()
	big := 0
	for i, f := range states[0].Files {
		if f.Size > states[0].Files[big].Size {
			big = i
		}
	}
	target := states[0].Files[big]
	for _, p := range []int{1, 2} {
		refuse := func(name string, f checkpoint.File) {
			bad := states[0]
			bad.Files = append([]checkpoint.File(nil), bad.Files...)
			bad.Files[big] = f
			t.Run(fmt.Sprintf("%s/parallelism %d", name, p), func(t *testing.T) {
				c := &cluster{t: t, h: h, store: store, max: 16}
				s, err := c.openSubtask(0, p, []checkpoint.OperatorState{bad})
				if err == nil {
					err = s.table.Each(func([]byte, state.Slot) error { return nil })
				}
				if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(f.Local, ".sst")) {
					t.Errorf("got %v, want an error that names %s", err, f.Local)
				}
				_ = s.Close()
			})
		}
		refuse("truncated", store.Corrupt(target, func(b []byte) []byte { return b[:len(b)-5] }))
		refuse("empty", store.Corrupt(target, func(b []byte) []byte { return b[:0] }))
		if p > 1 {
			continue // the bit may lie in the other subtask's part, which this one does not read
		}
		for _, at := range []int{3, 4} {
			refuse(fmt.Sprintf("flipped bit at %d eighths", at), store.Corrupt(target, func(b []byte) []byte {
				b[len(b)*at/8] ^= 0x10
				return b
			}))
		}
	}
	store.Damage(target)
	c2 := &cluster{t: t, h: h, store: store, max: 16}
	s, err := c2.openSubtask(0, 1, states)
	if err == nil || !strings.Contains(err.Error(), target.Local) {
		t.Errorf("wrong digest: got %v, want an error that names %s", err, target.Local)
	}
	_ = s.Close()
}

// Local names come from a manifest: none may reach out of the directory.
func testForeignNames(t *testing.T, h Harness) {
	store, m := NewStore(), newModel()
	c := open(t, h, store, 1, 16, nil)
	c.batch(m.table, nil, manyKeys(10), plus(1, "a"))
	states := c.freeze(m).mustPersist()
	c.close()
	for _, name := range []string{"", ".", "..", "../000001.sst", "/etc/passwd", "a/b", "000001.sst\x00", "state-1-1.weir/..", "LOCK"} {
		bad := states[0]
		bad.Files = append([]checkpoint.File(nil), bad.Files...)
		bad.Files[0].Local = name
		c2 := &cluster{t: t, h: h, store: store, max: 16}
		s, err := c2.openSubtask(0, 1, []checkpoint.OperatorState{bad})
		if err == nil || !strings.Contains(err.Error(), "local name") {
			t.Errorf("local name %q: got %v, want an error about it", name, err)
		}
		_ = s.Close()
	}
}

func testWrongSubtask(t *testing.T, h Harness) {
	c := open(t, h, NewStore(), 2, 16, nil)
	defer c.close()
	sets := c.route(manyKeys(50))
	err := c.subs[0].table.Resolve(&sets[1], make([]state.Slot, sets[1].Len()))
	if err == nil || !strings.Contains(err.Error(), "wrong subtask") {
		t.Errorf("keys of the other subtask: got %v, want an error that says so", err)
	}
}
