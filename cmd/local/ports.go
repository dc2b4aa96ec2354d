package local

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that are chosen lie below those that systems give to outgoing connections (Linux: from 32768,
// others from 49152), so that a killed worker finds its own free when it comes back.
const firstPort, lastPort = 20_000, 32_000

// ports hands out ports of loopback, none twice.
type ports struct{ taken map[int]bool }

// take takes a port that someone asked for; what and flag are for the message.
func (p *ports) take(port int, what, flag string) error {
	if p.taken[port] {
		return fmt.Errorf("port %d for %s is given to another part already; choose another with --%s", port, what, flag)
	}
	if !portFree(port) {
		return fmt.Errorf("port %d for %s is in use; free it or choose another with --%s (0: any)", port, what, flag)
	}
	p.mark(port)
	return nil
}

// pick finds a free port.
func (p *ports) pick() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !p.taken[port] && portFree(port) {
			p.mark(port)
			return port, nil
		}
	}
	return 0, fmt.Errorf("found no free port of loopback between %d and %d", firstPort, lastPort)
}

func (p *ports) pickN(n int) ([]int, error) {
	out := make([]int, n)
	for i := range out {
		port, err := p.pick()
		if err != nil {
			return nil, err
		}
		out[i] = port
	}
	return out, nil
}

func (p *ports) mark(port int) {
	if p.taken == nil {
		p.taken = map[int]bool{}
	}
	p.taken[port] = true
}

// portFree reports whether a port can be listened on, over TCP and over UDP, which gossip needs too.
func portFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		return false
	}
	return u.Close() == nil
}
