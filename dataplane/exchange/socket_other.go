//go:build !linux

package exchange

import (
	"net"
	"time"
)

// tune makes the kernel notice a dead peer host while nothing is sent.
func tune(sock net.Conn, _ time.Duration) {
	if tcp, ok := sock.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2})
	}
}
