package statetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/dataplane/checkpoint"
)

// testModel runs random operations on backends and on Go maps, with freezes, failures and restores at any
// point and the background work of a checkpoint in progress meanwhile.
func testModel(t *testing.T, h Harness) {
	rapid.Check(t, func(r *rapid.T) {
		run := &modelRun{
			t: r, store: NewStore(), content: newModel(), saved: newModel(),
			max: rapid.SampledFrom([]int{1, 7, 16}).Draw(r, "max parallelism"),
		}
		run.c = open(t, h, run.store, run.parallelism(), run.max, nil)
		defer func() {
			if run.frozen != nil {
				_, _ = run.frozen.await()
			}
			run.c.close()
		}()
		r.Repeat(map[string]func(*rapid.T){
			"update": run.update, "delete": run.remove, "bucket": run.bucket, "drop bucket": run.dropBucket,
			"freeze": run.freeze, "await": run.await, "fail": run.fail, "idle": run.idle,
			"restore": run.restore, "": run.check,
		})
	})
}

type modelRun struct {
	t       *rapid.T
	c       *cluster
	store   *Store
	max     int
	content model

	frozen *snapshot
	// saved is the content of the newest checkpoint, states its manifest entries.
	saved  model
	states []checkpoint.OperatorState
}

func (m *modelRun) parallelism() int {
	return min(m.max, rapid.IntRange(1, 3).Draw(m.t, "parallelism"))
}

func keys(r *rapid.T) []string {
	return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) string {
		n := rapid.IntRange(0, 120).Draw(r, "key")
		return strings.Repeat(string(rune('a'+n%26)), n/3) + string(rune(n))
	}), 0, 60).Draw(r, "keys")
}

func distinct(k []string) []string {
	slices.Sort(k)
	return slices.Compact(k)
}

func fields(r *rapid.T) change {
	return plus(rapid.Uint64().Draw(r, "word"), strings.Repeat("v", rapid.IntRange(0, 40).Draw(r, "field")))
}

func (m *modelRun) update(r *rapid.T) {
	// A key may occur twice in a batch, but the suite's batch compares before it writes.
	m.c.batch(m.content.table, nil, keys(r), fields(r))
}

func (m *modelRun) remove(r *rapid.T) {
	k := distinct(keys(r))
	m.c.batch(m.content.table, nil, k, nil)
	if rapid.Bool().Draw(r, "again") {
		m.c.batch(m.content.table, nil, k[:len(k)/2], fields(r))
	}
}

func (m *modelRun) bucket(r *rapid.T) {
	at := rapid.Int64Range(-2, 2).Draw(r, "bucket")
	if m.content.buckets[at] == nil {
		m.content.buckets[at] = map[string]value{}
	}
	m.c.batch(m.content.buckets[at], &at, keys(r), fields(r))
}

func (m *modelRun) dropBucket(r *rapid.T) {
	at := rapid.Int64Range(-2, 2).Draw(r, "bucket")
	for _, s := range m.c.subs {
		if err := s.buckets.Drop(at); err != nil {
			r.Fatalf("drop bucket %d: %v", at, err)
		}
	}
	delete(m.content.buckets, at)
}

func (m *modelRun) freeze(r *rapid.T) {
	if m.frozen != nil {
		r.Skip("one is in progress")
	}
	s := m.c.freeze(m.content)
	if rapid.IntRange(0, 3).Draw(r, "drop one in four") == 0 {
		if rapid.Bool().Draw(r, "after a batch") {
			m.c.batch(m.content.table, nil, keys(r), fields(r))
		}
		s.drop()
		return
	}
	m.frozen = s
	s.persist(context.Background())
}

func (m *modelRun) await(r *rapid.T) {
	if m.frozen == nil {
		r.Skip("none is in progress")
	}
	states, err := m.frozen.await()
	if err != nil {
		r.Fatalf("persist: %v", err)
	}
	m.saved, m.states = m.frozen.content, states
	m.frozen = nil
}

func (m *modelRun) fail(r *rapid.T) {
	if m.frozen != nil {
		r.Skip("one is in progress")
	}
	broken := errors.New("broken")
	m.store.FailUploads(func(string) error { return broken })
	defer m.store.FailUploads(nil)
	s := m.c.freeze(m.content)
	ctx, cancel := context.WithCancel(context.Background())
	if rapid.Bool().Draw(r, "cancelled") {
		cancel()
	}
	defer cancel()
	s.persist(ctx)
	m.c.batch(m.content.table, nil, keys(r), fields(r))
	if _, err := s.await(); err == nil {
		r.Fatalf("persist into a broken store: got no error")
	}
}

func (m *modelRun) idle(*rapid.T) { m.c.endBatch() }

func (m *modelRun) restore(r *rapid.T) {
	if m.frozen != nil {
		m.await(r)
	}
	m.c.close()
	m.content = m.saved.clone()
	m.c = open(m.c.t, m.c.h, m.store, m.parallelism(), m.max, m.states)
}

func (m *modelRun) check(r *rapid.T) {
	if rapid.IntRange(0, 3).Draw(r, "check one in four") == 0 {
		m.c.check(m.content)
	}
	maps.DeleteFunc(m.content.buckets, func(_ int64, b map[string]value) bool { return len(b) == 0 })
}
