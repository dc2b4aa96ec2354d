package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/job"
)

const twoKeyed = `
name: x
sources:
  events: {nexmark: {events: 10, rate: 1000/s}}
steps:
  bid: {from: events, where: event_type = 2, select: [bid.*]}
  a: {from: bid, key_by: [auction], aggregate: {n: count(*)}, ttl: none}
  b: {from: bid, key_by: [bidder], aggregate: {n: count(*)}, ttl: none}
sinks:
  out: {from: [a, b], discard: {}}
state: {pebble: {cache: 64MiB}}
`

// The cache of a slot is shared by the keyed operators in it.
func TestCacheIsSharedInASlot(t *testing.T) {
	p, err := Parse("job.yaml", []byte(twoKeyed))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cacheBytes(p), int64(32<<20); got != want {
		t.Errorf("%d bytes for each of two operators, want %d", got, want)
	}
}

// Every node compiles the same graph from the same spec, and each program makes instances of its own.
func TestCompileIsDeterministic(t *testing.T) {
	e := &Engine{}
	var digests []string
	for range 2 {
		c, err := e.Compile(context.Background(), job.Deployment{Spec: []byte(twoKeyed)})
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, c.Program.Graph.Digest())
		for v := range c.Program.Vertices {
			for _, s := range c.Program.Vertices[v].Stages {
				a, err := s.New()
				if err != nil {
					t.Fatal(err)
				}
				if b, err := s.New(); err != nil || a == b {
					t.Errorf("%s: two instances are one (%v)", s.UID, err)
				}
			}
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("two compilations have digests %s and %s", digests[0], digests[1])
	}
}

// A spec with mistakes is refused with all of them.
func TestCompileRefusesMistakes(t *testing.T) {
	_, err := (&Engine{}).Compile(context.Background(), job.Deployment{Spec: []byte("name: x\nsources: {}\n")})
	if job.ClassOf(err) != job.Fatal {
		t.Errorf("got %v, want a fatal error", err)
	}
}

// A job whose spec has mistakes of its shape and of its columns is told of all of them.
func TestPlanSaysEveryMistake(t *testing.T) {
	_, err := (&Engine{}).Plan(context.Background(), []byte(`{
  "name": "x",
  "sources": {"in": {"nexmark": {"events": 10}}},
  "steps": {"q": {"from": "in", "where": "bid.prise > 1"}},
  "sinks": {"out": {"from": "q", "discard": {}, "formt": "json"}}
}`))
	var mistakes *activities.SpecError
	if !errors.As(err, &mistakes) || len(mistakes.Problems) != 2 ||
		!strings.Contains(mistakes.Problems[0], "steps.q.where") || !strings.Contains(mistakes.Problems[1], "sinks.out.formt") {
		t.Errorf("got %v, want the mistakes of steps.q.where and sinks.out.formt", err)
	}
}

// fakePredicate takes the rows that it lists and remembers what it was shown.
type fakePredicate struct {
	takes map[int32]bool
	shown []int32
}

func (f *fakePredicate) Select(_ *batch.Batch, sel, dst []int32) ([]int32, error) {
	if sel == nil {
		sel = []int32{0, 1, 2, 3}
	}
	f.shown = append([]int32(nil), sel...)
	for _, r := range sel {
		if f.takes[r] {
			dst = append(dst, r)
		}
	}
	return dst, nil
}

// A predicate of a conjunction sees the rows that those before it took, and none if there are none.
func TestConjunction(t *testing.T) {
	a, b, c := &fakePredicate{takes: map[int32]bool{1: true, 2: true, 3: true}}, &fakePredicate{takes: map[int32]bool{0: true, 1: true, 3: true}}, &fakePredicate{takes: map[int32]bool{3: true}}
	all := conjunction{preds: []batch.Predicate{a, b, c}}
	for range 2 { // its memory is used again
		got, err := all.Select(nil, nil, []int32{7})
		if err != nil || !slices.Equal(got, []int32{7, 3}) {
			t.Errorf("got %v, %v, want row 3 behind what was there", got, err)
		}
		if !slices.Equal(b.shown, []int32{1, 2, 3}) || !slices.Equal(c.shown, []int32{1, 3}) {
			t.Errorf("shown %v and %v, want [1 2 3] and [1 3]", b.shown, c.shown)
		}
	}
	c.shown = nil
	if got, err := all.Select(nil, []int32{0, 2}, []int32{}); err != nil || got == nil || len(got) != 0 || c.shown != nil {
		t.Errorf("got %v, %v, and the last was shown %v; want no row and nothing", got, err, c.shown)
	}
}

// A transaction timeout above the broker's is said when the job starts, with both values and the setting, and not by a
// producer some time later.
func TestStartRefusesATimeoutAboveTheBrokers(t *testing.T) {
	brokers := kafkatest.Fake(t, kfake.SeedTopics(1, "in", "out")).ListenAddrs()
	spec := fmt.Sprintf(`{"name": "x",
  "sources": {"in": {"kafka": {"brokers": [%[1]q], "topic": "in"}, "format": "json", "schema": {"id": "bigint"}}},
  "sinks": {"out": {"from": "in", "kafka": {"brokers": [%[1]q], "topic": "out", "transaction_timeout": "1h"}, "format": "json"}}
}`, brokers[0])
	_, err := (&Engine{}).Start(t.Context(), []byte(spec))
	if job.ClassOf(err) != job.Fatal {
		t.Errorf("got %v, want a fatal error", err)
	}
	for _, part := range []string{"sink out", "1h0m0s", "transaction.max.timeout.ms", "900000"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}
