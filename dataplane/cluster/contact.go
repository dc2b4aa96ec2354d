package cluster

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"
)

// contactPeriod is the interval until the first join address answers. It is short so that processes which are
// started together find each other at once.
const contactPeriod = 500 * time.Millisecond

// announceLoop gossips changed metadata. What is pending when running ends is still gossiped.
func (c *Cluster) announceLoop(running context.Context) {
	update := func() {
		if err := c.list.UpdateNode(announceTimeout); err != nil {
			c.log.Debug("metadata reached no other member yet", "error", err) // it travels with the next state sync
		}
	}
	for {
		select {
		case <-c.announce:
			update()
		case <-running.Done():
			select {
			case <-c.announce:
				update()
			default:
			}
			return
		}
	}
}

// contactLoop contacts the addresses that should be members and are not. contacted is closed after the first
// round.
func (c *Cluster) contactLoop(running context.Context, contacted chan<- struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	answered := len(c.join) == 0
	for round := 0; ; round++ {
		select {
		case <-timer.C:
		case <-running.Done():
			return
		}
		missing := c.missing(running, round)
		n := c.contact(missing)
		answered = answered || n > 0 || len(missing) == 0
		if round == 0 {
			if !answered {
				c.log.Warn("no other node answered yet; trying on", "join", c.join)
			}
			close(contacted)
		}
		if answered {
			timer.Reset(c.rejoin)
		} else {
			timer.Reset(min(contactPeriod, c.rejoin))
		}
	}
}

// contact asks each address for a state sync and returns how many answered.
func (c *Cluster) contact(addrs []string) int {
	answered := 0
	for _, addr := range addrs {
		n, err := c.list.Join([]string{addr})
		answered += n
		if err != nil {
			c.log.Debug("contact failed", "addr", addr, "error", err)
		}
	}
	return answered
}

// missing lists the resolved join addresses that no alive member has, and one address, another each round,
// of a member that was lost: the other side of a healed partition may have nobody else who remembers it.
func (c *Cluster) missing(ctx context.Context, round int) []string {
	present := map[string]bool{}
	var lost []string
	for _, m := range c.members.list() {
		switch m.Status {
		case Alive, Leaving:
			present[m.Gossip] = true
		case Lost:
			lost = append(lost, m.Gossip)
		case Left:
		}
	}
	var out []string
	add := func(addr string) {
		if !present[addr] && !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	for _, addr := range c.join {
		for _, a := range c.lookup(ctx, addr) {
			add(a)
		}
	}
	if len(lost) > 0 {
		add(lost[round%len(lost)])
	}
	return out
}

// lookup resolves host:port to every ip:port behind the name. A name that does not resolve (yet) is none.
func (c *Cluster) lookup(ctx context.Context, addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = addr, strconv.Itoa(defaultPort)
	}
	if ip := net.ParseIP(host); ip != nil {
		return []string{net.JoinHostPort(ip.String(), port)}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		c.log.Debug("join address does not resolve", "addr", addr, "error", err)
		return nil
	}
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		out = append(out, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return out
}

// defaultPort is memberlist's, for a join address without one.
const defaultPort = 7946
