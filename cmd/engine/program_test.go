package engine

import (
	"context"
	"testing"

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
