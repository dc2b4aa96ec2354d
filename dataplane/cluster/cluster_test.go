package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// wait bounds every wait for an event; it only matters when a test fails.
const wait = 30 * time.Second

func testTimings() Timings {
	return Timings{
		ProbeInterval: 100 * time.Millisecond, ProbeTimeout: 50 * time.Millisecond, SuspicionMult: 3,
		GossipInterval: 20 * time.Millisecond, RejoinInterval: 100 * time.Millisecond, UnseenGrace: 300 * time.Millisecond,
	}
}

func testConfig(t *testing.T, id job.NodeID, join ...string) Config {
	t.Helper()
	return Config{
		ID: id, Bind: "127.0.0.1:0", Join: join, ExchangeAddr: "127.0.0.1:7001", HTTPAddr: "127.0.0.1:7002",
		Slots: 4, Version: "test", Timings: testTimings(),
		Logger: slog.New(slog.NewTextHandler(newTestLog(t), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

// testLog writes to the test's output until the test ends; memberlist's timers log longer than that.
type testLog struct {
	mu sync.Mutex
	to io.Writer
}

func newTestLog(t *testing.T) *testLog {
	l := &testLog{to: t.Output()}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.to = io.Discard
	})
	return l
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

func join(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// trio returns three members that know each other.
func trio(t *testing.T) (a, b, c *Cluster) {
	t.Helper()
	a = join(t, testConfig(t, "a"))
	b = join(t, testConfig(t, "b", a.Addr()))
	c = join(t, testConfig(t, "c", a.Addr()))
	for _, m := range []*Cluster{a, b, c} {
		awaitNodes(t, m, "a", "b", "c")
	}
	return a, b, c
}

// await waits until cond holds, looking after every change.
func await(t *testing.T, c *Cluster, what string, cond func() bool) {
	t.Helper()
	timeout := time.After(wait)
	for {
		changed := c.Changed()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s: never saw %s; members: %+v", c.members.self, what, c.Members())
		}
	}
}

func awaitNodes(t *testing.T, c *Cluster, ids ...job.NodeID) {
	t.Helper()
	await(t, c, fmt.Sprint(ids), func() bool {
		var got []job.NodeID
		for _, n := range c.Nodes() {
			got = append(got, n.ID)
		}
		return slices.Equal(got, ids)
	})
}

func status(c *Cluster, id job.NodeID) Status {
	for _, m := range c.Members() {
		if m.ID == id {
			return m.Status
		}
	}
	return -1
}

func TestJoinAndMetadata(t *testing.T) {
	a, b, _ := trio(t)
	want := job.NodeSlots{ID: "b", Addr: "127.0.0.1:7001", Slots: 4}
	if got := a.Nodes()[1]; got != want {
		t.Errorf("a sees %+v, want %+v", got, want)
	}
	b.SetFree(3)
	b.SetFree(1)
	if got := b.Nodes()[1].Slots; got != 1 {
		t.Errorf("b sees %d free slots of its own, want 1 at once", got)
	}
	await(t, a, "one free slot of b", func() bool { return a.Nodes()[1].Slots == 1 })
	b.SetLeaving()
	awaitNodes(t, a, "a", "c")
	if got := status(a, "b"); got != Leaving {
		t.Errorf("status of b = %v, want %v", got, Leaving)
	}
}

func TestDeathIsNoticed(t *testing.T) {
	a, b, c := trio(t)
	lost := startWatch(t.Context(), a.members, "b", "c")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-lost; got.id != "b" || got.err != nil {
		t.Errorf("watch = %+v, want b lost", got)
	}
	awaitNodes(t, a, "a", "c")
	awaitNodes(t, c, "a", "c")
	if got := status(a, "b"); got != Lost {
		t.Errorf("status of b = %v, want %v", got, Lost)
	}
	if _, err := b.Watch(t.Context(), []job.NodeID{"a"}); !errors.Is(err, ErrClosed) {
		t.Errorf("watch of a closed member = %v, want %v", err, ErrClosed)
	}
}

func TestLeave(t *testing.T) {
	a, b, c := trio(t)
	lost := startWatch(t.Context(), a.members, "b")
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-lost; got.id != "b" || got.err != nil {
		t.Errorf("watch = %+v, want b lost", got)
	}
	await(t, a, "b left", func() bool { return status(a, "b") == Left })
	awaitNodes(t, c, "a", "c")
	if err := b.Leave(t.Context()); err != nil {
		t.Errorf("second leave: %v", err)
	}
}

// When a whole cluster stops, nobody is left to hear the last ones.
func TestAllLeaveAtOnce(t *testing.T) {
	a, b, c := trio(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	left := make(chan error, 3)
	for _, m := range []*Cluster{a, b, c} {
		go func() { left <- m.Leave(ctx) }()
	}
	for range 3 {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	if ctx.Err() != nil {
		t.Error("leaving used up all the time that there was")
	}
}

// A restarted worker is another node, at its old address, whoever it knows.
func TestRestartedProcess(t *testing.T) {
	a, b, c := trio(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, "b2", a.Addr())
	cfg.Bind = b.Addr()
	b2 := join(t, cfg)
	for _, m := range []*Cluster{a, b2, c} {
		awaitNodes(t, m, "a", "b2", "c")
	}
}

// The first process of a cluster may start after those that want to join it.
func TestJoinAddressAppearsLater(t *testing.T) {
	addr := freeAddr(t)
	b := join(t, testConfig(t, "b", addr))
	awaitNodes(t, b, "b")
	cfg := testConfig(t, "a", addr) // its own address, as in a configuration that all share
	cfg.Bind = addr
	a := join(t, cfg)
	awaitNodes(t, a, "a", "b")
	awaitNodes(t, b, "a", "b")
}

// After a partition both sides have forgotten each other, and perhaps neither has the other's address in its
// join list: the address of a member that was lost is contacted again.
func TestLostAddressIsContactedAgain(t *testing.T) {
	a := join(t, testConfig(t, "a"))
	b := join(t, testConfig(t, "b", a.Addr()))
	awaitNodes(t, a, "a", "b")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	awaitNodes(t, a, "a")
	cfg := testConfig(t, "b2")
	cfg.Bind = b.Addr()
	b2 := join(t, cfg)
	awaitNodes(t, b2, "a", "b2")
	awaitNodes(t, a, "a", "b2")
}

func TestMissing(t *testing.T) {
	c := &Cluster{members: newRegistry("self", grace), log: slog.New(slog.DiscardHandler)}
	c.join = []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:3", "127.0.0.1"}
	c.members.put("self", "127.0.0.1:1", metadata{})
	c.members.put("two", "127.0.0.1:2", metadata{Leaving: true})
	c.members.put("lost", "127.0.0.1:4", metadata{})
	c.members.drop("lost")
	c.members.put("left", "127.0.0.1:5", metadata{Leaving: true})
	c.members.drop("left")
	want := []string{"127.0.0.1:3", "127.0.0.1:7946", "127.0.0.1:4"}
	if got := c.missing(t.Context(), 7); !slices.Equal(got, want) {
		t.Errorf("missing = %v, want %v", got, want)
	}
}

func TestSecret(t *testing.T) {
	cfg := testConfig(t, "a")
	cfg.Secret = []byte("0123456789abcdef0123456789abcdef")
	a := join(t, cfg)
	cfg = testConfig(t, "b", a.Addr())
	cfg.Secret = []byte("0123456789abcdef0123456789abcdef")
	b := join(t, cfg)
	awaitNodes(t, b, "a", "b")
	stranger := join(t, testConfig(t, "stranger", a.Addr()))
	awaitNodes(t, stranger, "stranger")
	awaitNodes(t, a, "a", "b")
}

func TestJoinRefused(t *testing.T) {
	taken := join(t, testConfig(t, "a"))
	for name, edit := range map[string]func(*Config){
		"no id":               func(c *Config) { c.ID = "" },
		"undialable exchange": func(c *Config) { c.ExchangeAddr = "0.0.0.0:7001" },
		"long metadata":       func(c *Config) { c.Version = string(make([]byte, 600)) },
		"bind in use":         func(c *Config) { c.Bind = taken.Addr() },
		"bad port":            func(c *Config) { c.Bind = "127.0.0.1:http" },
		"bad key":             func(c *Config) { c.Secret = []byte("short") },
	} {
		cfg := testConfig(t, "x")
		edit(&cfg)
		if c, err := Join(t.Context(), cfg); err == nil {
			t.Errorf("%s: joined, want an error", name)
			c.Close()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Join(ctx, testConfig(t, "x", "127.0.0.1:1")); !errors.Is(err, context.Canceled) {
		t.Errorf("join with an ended context = %v, want %v", err, context.Canceled)
	}
}

// freeAddr returns a loopback address that was free a moment ago, for TCP and UDP alike.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
