package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// dial connects to a peer and ends the mesh if that does not succeed.
func (m *Mesh) dial(peer job.NodeID, addr string) {
	ctx, cancel := context.WithTimeout(m.ctx, m.server.timings.Connect)
	defer cancel()
	sock, err := m.dialTwice(ctx, addr)
	if err != nil {
		m.fail(&job.PeerLostError{Node: peer, Why: err.Error()})
		return
	}
	interrupt := context.AfterFunc(ctx, func() { _ = sock.Close() })
	meeting, met := context.WithCancel(ctx)
	c, err := m.introduce(meeting, peer, sock)
	met()
	if !interrupt() { // whatever introduce returned, the socket is closed
		err = &job.PeerLostError{Node: peer, Why: fmt.Sprintf("did not join attempt %s within %v", m.ref, m.server.timings.Connect)}
	}
	if err != nil {
		_ = sock.Close()
		m.fail(err)
		return
	}
	m.join(c)
}

// dialTwice dials, and once more after a pause: a connection that is refused at a busy moment is not a lost
// node yet.
func (m *Mesh) dialTwice(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	sock, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		select {
		case <-time.After(m.server.timings.Redial):
		case <-ctx.Done():
			return nil, err
		}
		if sock, err = d.DialContext(ctx, "tcp", addr); err != nil {
			return nil, err
		}
	}
	tune(sock, m.server.timings.Dead)
	return sock, nil
}

// introduce says hello and waits to be welcomed. A peer that does not know the attempt yet sends heartbeats;
// one that sends nothing is lost.
func (m *Mesh) introduce(ctx context.Context, peer job.NodeID, sock net.Conn) (*conn, error) {
	lost := func(format string, args ...any) error {
		return &job.PeerLostError{Node: peer, Why: fmt.Sprintf(format, args...)}
	}
	h := hello{Ref: m.ref, From: m.self, To: peer, Digest: m.cfg.GraphDigest}
	if err := writeHandshake(sock, helloFrame, m.ref, controlPayload(h)); err != nil {
		return nil, lost("handshake: %v", err)
	}
	heard := new(atomic.Bool)
	in := newFrameReader(sock, heard)
	in.expect(m.ref)
	silent := m.watchSilence(ctx, sock, heard)
	for {
		head, payload, err := in.next()
		if silent.Load() {
			return nil, lost("handshake: not heard for %v", m.server.timings.Dead)
		}
		if err != nil {
			return nil, lost("handshake: %v", err)
		}
		switch head.typ {
		case heartbeatFrame:
		case welcomeFrame:
			return newConn(m, peer, sock, in, heard), nil
		case refuseFrame:
			r, err := decodeControl[refusal](payload)
			if err != nil {
				return nil, lost("handshake: %v", err)
			}
			return nil, m.refused(peer, r)
		default:
			return nil, lost("handshake: frame of type %d", head.typ)
		}
	}
}

// watchSilence closes sock and sets silent when nothing is heard for as long as makes a peer dead. It stops
// with ctx, and counts heartbeats of this process as conn.heartbeat does.
func (m *Mesh) watchSilence(ctx context.Context, sock net.Conn, heard *atomic.Bool) (silent *atomic.Bool) {
	silent = new(atomic.Bool)
	t := m.server.timings
	m.running.Go(func() {
		ticker := time.NewTicker(t.Heartbeat)
		defer ticker.Stop()
		for missed := 0; missed < t.beats(t.Dead); missed++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if heard.Swap(false) {
				missed = -1
			}
		}
		silent.Store(true)
		_ = sock.Close()
	})
	return silent
}

// refused is what a refusal means for this node's part of the attempt.
func (m *Mesh) refused(peer job.NodeID, r refusal) error {
	switch r.Code {
	case refusedSuperseded:
		return job.AsFenced(&job.StaleError{Ref: m.ref, Highest: r.Highest})
	case refusedGraph:
		return job.AsFatal(fmt.Errorf("node %s refused the connection: %s (the nodes run different versions of the program)", peer, r))
	default:
		return &job.PeerLostError{Node: peer, Why: "refused the connection: " + r.String()}
	}
}

// writeHandshake writes one frame of a handshake.
func writeHandshake(sock net.Conn, typ frameType, ref job.Ref, payload []byte) error {
	frame := append(reserveHeader(nil), payload...)
	if len(frame)-headerSize > maxControl {
		return errors.New("message too long")
	}
	seal(frame, header{typ: typ, tag: uidTag(ref.UID), attempt: ref.Attempt})
	_, err := sock.Write(frame)
	return err
}
