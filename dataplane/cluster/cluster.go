package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/weirstream/weir/dataplane/job"
)

// Config says who this process is and how it finds the others. ID, Bind and ExchangeAddr are required.
type Config struct {
	// ID is new with every process start.
	ID job.NodeID
	// Bind is the host:port that gossip listens on (UDP and TCP); port 0 takes a free one.
	Bind string
	// Advertise is the host:port that others reach Bind by; empty: the same. Port 0 or none: Bind's.
	Advertise string
	// Join are host:port addresses of other members; this process's own may be among them. Names are
	// resolved anew at each contact.
	Join []string
	// ExchangeAddr and HTTPAddr are the host:port addresses that other nodes and people reach this one by.
	ExchangeAddr string
	HTTPAddr     string
	// Slots is the number of slots that this process offers; all are free at the start.
	Slots int
	// Version is the program's, shown to people.
	Version string
	// Secret is the key that encrypts gossip (16, 24 or 32 bytes); empty: plain text.
	Secret []byte
	// Label keeps clusters apart that share a network; empty means "weir".
	Label string
	// Timings default to DefaultTimings, field by field.
	Timings Timings
	// Logger receives joins, losses and memberlist's own lines; nil discards them.
	Logger *slog.Logger
}

// Cluster is this process's membership. All methods may be called concurrently.
type Cluster struct {
	log     *slog.Logger
	list    *memberlist.Memberlist
	members *registry
	addr    string // this process's gossip address, as advertised
	join    []string
	rejoin  time.Duration

	mu struct {
		sync.Mutex
		meta metadata
	}
	// announce holds a token while metadata waits to be gossiped.
	announce  chan struct{}
	stop      context.CancelFunc
	loops     sync.WaitGroup
	leaveOnce sync.Once
	leaveErr  error
	closeOnce sync.Once
	closeErr  error
}

// announceTimeout bounds the wait until one other member has heard of changed metadata.
const announceTimeout = 2 * time.Second

// Join starts gossip and contacts the join addresses once before it returns. That none of them answers is no
// error (the first process of a cluster is alone): they are contacted again until they do. An error means
// that Config is wrong, that the address cannot be bound or that ctx ended.
func Join(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.ID == "" {
		return nil, errors.New("join cluster: no node id")
	}
	if err := checkAddr(cfg.ExchangeAddr); err != nil {
		return nil, fmt.Errorf("join cluster: exchange address: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	timings := cfg.Timings.withDefaults()
	c := &Cluster{
		log:      log,
		members:  newRegistry(cfg.ID, timings.UnseenGrace),
		join:     cfg.Join,
		rejoin:   timings.RejoinInterval,
		announce: make(chan struct{}, 1),
	}
	c.mu.meta = metadata{Exchange: cfg.ExchangeAddr, HTTP: cfg.HTTPAddr, Slots: cfg.Slots, Free: cfg.Slots, Version: cfg.Version}
	if _, err := c.mu.meta.encode(); err != nil {
		return nil, fmt.Errorf("join cluster: %w", err)
	}
	mc, err := memberlistConfig(ctx, cfg, timings, log)
	if err != nil {
		return nil, fmt.Errorf("join cluster: %w", err)
	}
	mc.Delegate, mc.Events, mc.Alive = delegate{c}, delegate{c}, delegate{c}
	if c.list, err = memberlist.Create(mc); err != nil {
		return nil, fmt.Errorf("join cluster: listen on %s: %w", cfg.Bind, err)
	}
	c.addr = c.list.LocalNode().Address() // memberlist may rewrite the node later, so it is read once
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// start runs the loops and waits for the first contact.
func (c *Cluster) start(ctx context.Context) error {
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	contacted := make(chan struct{})
	c.loops.Go(func() { c.announceLoop(running) })
	c.loops.Go(func() { c.contactLoop(running, contacted) })
	select {
	case <-contacted:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("join cluster: %w", context.Cause(ctx)), c.Close())
	}
}

// memberlistConfig translates cfg. Names are resolved here because memberlist takes addresses only.
func memberlistConfig(ctx context.Context, cfg Config, t Timings, log *slog.Logger) (*memberlist.Config, error) {
	mc := memberlist.DefaultLANConfig()
	t.apply(mc)
	mc.Name = string(cfg.ID)
	mc.Logger = stdLogger(log)
	mc.SecretKey = cfg.Secret
	mc.Label = cfg.Label
	if mc.Label == "" {
		mc.Label = "weir"
	}
	var err error
	if mc.BindAddr, mc.BindPort, err = resolve(ctx, cfg.Bind); err != nil {
		return nil, fmt.Errorf("bind address: %w", err)
	}
	if cfg.Advertise != "" {
		if mc.AdvertiseAddr, mc.AdvertisePort, err = resolve(ctx, cfg.Advertise); err != nil {
			return nil, fmt.Errorf("advertised address: %w", err)
		}
		if mc.AdvertisePort == 0 {
			mc.AdvertisePort = mc.BindPort
		}
	}
	return mc, nil
}

// resolve turns host:port (or host alone) into an IP address and a port. An empty host is every interface.
func resolve(ctx context.Context, addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = addr, "0"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q: bad port %q", addr, port)
	}
	if host == "" {
		return "0.0.0.0", int(n), nil
	}
	if net.ParseIP(host) != nil {
		return host, int(n), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", 0, fmt.Errorf("%q: %w", addr, err)
	}
	for _, ip := range ips { // IPv4 first, as most networks route it
		if ip.Unmap().Is4() {
			return ip.Unmap().String(), int(n), nil
		}
	}
	return ips[0].String(), int(n), nil
}

// Addr is the host:port that other members can join this one by.
func (c *Cluster) Addr() string { return c.addr }

// SetFree tells the others, soon, how many of this node's slots nothing uses. It does not block.
func (c *Cluster) SetFree(n int) {
	c.change(func(m *metadata) { m.Free = min(max(n, 0), m.Slots) })
}

// SetLeaving tells the others, soon, to place nothing more here. It does not block.
func (c *Cluster) SetLeaving() {
	c.change(func(m *metadata) { m.Leaving = true })
}

// change edits the metadata; what this process says of itself holds here at once.
func (c *Cluster) change(edit func(*metadata)) {
	c.mu.Lock()
	before := c.mu.meta
	edit(&c.mu.meta)
	meta := c.mu.meta
	if meta != before {
		c.members.put(c.members.self, c.addr, meta)
	}
	c.mu.Unlock()
	if meta == before {
		return
	}
	select {
	case c.announce <- struct{}{}:
	default: // the announcement that waits will carry this change too
	}
}

// Nodes lists the members that can take work, by id, with their free slots.
func (c *Cluster) Nodes() []job.NodeSlots {
	var out []job.NodeSlots
	for _, m := range c.members.list() {
		if m.Status == Alive {
			out = append(out, job.NodeSlots{ID: m.ID, Addr: m.Exchange, Slots: m.Free})
		}
	}
	return out
}

// Members lists every member that this process knows of, by id, those that are gone within the last hour
// included.
func (c *Cluster) Members() []Member { return c.members.list() }

// Changed returns a channel that is closed when Members next changes. Take it before you look.
func (c *Cluster) Changed() <-chan struct{} { return c.members.changed() }

// Watch returns the first of ids that is gone (lost or left), at once if one is. A node that was never seen
// counts as gone only when Timings.UnseenGrace has passed since this process joined. Otherwise it returns
// the cause of ctx's end, or ErrClosed when this process leaves.
func (c *Cluster) Watch(ctx context.Context, ids []job.NodeID) (job.NodeID, error) {
	return c.members.watch(ctx, ids)
}

// Leave tells the others that this process goes, waits until one has heard it, announceTimeout passes or ctx
// ends, and stops gossip. That nobody is left to hear it, as when a whole cluster stops, is no error. Only the first
// call acts; the others return its result.
func (c *Cluster) Leave(ctx context.Context) error {
	c.leaveOnce.Do(func() { c.leaveErr = c.leave(ctx) })
	return c.leaveErr
}

func (c *Cluster) leave(ctx context.Context) error {
	c.SetLeaving()
	c.stop()
	c.loops.Wait() // the announcing loop gossips what is pending before it ends
	timeout := announceTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond)) // 0 would wait for ever
	}
	err := c.list.Leave(timeout)
	if c.list.NumMembers() == 0 { // this one has left and no other is alive
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("leave cluster: %w", err)
	}
	return errors.Join(err, c.Close())
}

// Close stops gossip without a word, as a crash would; the others find this process dead. It is safe to call
// after Leave.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		c.stop()
		c.loops.Wait()
		c.members.close()
		if err := c.list.Shutdown(); err != nil {
			c.closeErr = fmt.Errorf("close cluster: %w", err)
		}
	})
	return c.closeErr
}
