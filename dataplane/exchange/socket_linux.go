package exchange

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall lacks.
const tcpUserTimeout = 0x12

// tune makes the kernel notice a dead peer host: by keepalive when nothing is sent, and after timeout when what
// was sent is not acknowledged (keepalive does not cover that). A peer that merely stopped is for the
// heartbeats, since its kernel still answers.
func tune(sock net.Conn, timeout time.Duration) {
	tcp, ok := sock.(*net.TCPConn)
	if !ok {
		return
	}
	// Without these options the heartbeats still find a dead peer, a little later.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2})
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout.Milliseconds()))
	})
}
