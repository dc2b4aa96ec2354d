package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka"
)

// dialled counts the committers that it opens and that are closed.
type dialled struct{ opened, closed atomic.Int64 }

type fakeCommitter struct {
	connector.Committer
	d *dialled
}

func (f *fakeCommitter) Close() { f.d.closed.Add(1) }

func (d *dialled) dial() (connector.Committer, error) {
	d.opened.Add(1)
	return &fakeCommitter{d: d}, nil
}

func (d *dialled) want(t *testing.T, when string, opened, closed int64) {
	t.Helper()
	if o, c := d.opened.Load(), d.closed.Load(); o != opened || c != closed {
		t.Errorf("%s: %d opened and %d closed, want %d and %d", when, o, c, opened, closed)
	}
}

func TestCommittersAreShared(t *testing.T) {
	var c committers
	d := &dialled{}
	use := func(key string, do func(connector.Committer) error) error { return c.with(key, d.dial, do) }
	fine := func(connector.Committer) error { return nil }
	for range 3 {
		if err := use("a", fine); err != nil {
			t.Fatal(err)
		}
	}
	d.want(t, "three calls one after the other", 1, 0)
	if err := use("b", fine); err != nil {
		t.Fatal(err)
	}
	d.want(t, "another system", 2, 0)
	broken := errors.New("broken")
	if err := use("a", func(connector.Committer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	d.want(t, "after a failure", 2, 1)
	err := use("a", func(connector.Committer) error {
		if err := use("a", func(connector.Committer) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		d.want(t, "a failure beside another call", 3, 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.want(t, "after the last user of a failed one", 3, 2)
	if err := use("b", func(connector.Committer) error { c.close(); return nil }); err != nil {
		t.Fatal(err)
	}
	d.want(t, "closed while one is in use", 3, 3)
	if err := use("b", fine); err != nil {
		t.Fatal(err)
	}
	d.want(t, "a call after that", 4, 4)
}

func TestIdleCommittersAreClosed(t *testing.T) {
	var c committers
	d := &dialled{}
	var s *sharedCommitter
	fine := func(connector.Committer) error { return nil }
	if err := c.with("a", d.dial, fine); err != nil {
		t.Fatal(err)
	}
	s = c.open["a"]
	err := c.with("a", d.dial, func(connector.Committer) error {
		c.expire("a", s) // the timer fires while somebody takes it
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.want(t, "in use", 1, 0)
	c.expire("a", s)
	c.expire("a", s)
	d.want(t, "idle", 1, 1)
	if err := c.with("a", d.dial, fine); err != nil {
		t.Fatal(err)
	}
	d.want(t, "the next call", 2, 1)
	c.close()
	d.want(t, "closed", 2, 2)
}

func TestCommittersOfManyGoroutines(t *testing.T) {
	var c committers
	d := &dialled{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				_ = c.with("a", d.dial, func(connector.Committer) error {
					if (n+i)%7 == 0 {
						return errors.New("broken")
					}
					return nil
				})
			}
		})
	}
	all.Wait()
	c.close()
	if o, n := d.opened.Load(), d.closed.Load(); o != n {
		t.Errorf("%d opened and %d closed, want them all closed", o, n)
	}
}

func TestConnectionKey(t *testing.T) {
	base := kafka.ConnConfig{Brokers: []string{"a:1"}}
	seen := map[string]string{connectionKey(base): "plain"}
	for name, c := range map[string]kafka.ConnConfig{
		"brokers": {Brokers: []string{"a:1", "b:1"}}, "tls": {Brokers: base.Brokers, TLS: &kafka.TLS{}},
		"ca": {Brokers: base.Brokers, TLS: &kafka.TLS{CA: "x"}}, "sasl": {Brokers: base.Brokers, SASL: &kafka.SASL{User: "u", Password: "p"}},
		"password": {Brokers: base.Brokers, SASL: &kafka.SASL{User: "u", Password: "q"}},
	} {
		if other, ok := seen[connectionKey(c)]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[connectionKey(c)] = name
	}
	if again := connectionKey(kafka.ConnConfig{Brokers: []string{"a:1"}}); seen[again] != "plain" {
		t.Error("the same connection has two keys")
	}
}
