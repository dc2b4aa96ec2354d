package exchange

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// conn is the connection to one peer of a mesh: one goroutine reads, one writes.
type conn struct {
	mesh *Mesh
	peer job.NodeID
	sock net.Conn
	in   *frameReader

	outputs map[job.Channel]*Output
	queues  map[job.Channel]*queue
	control uint64 // sequence of the next control frame read

	// heard is set by every read and cleared by every heartbeat; silent counts heartbeats without it.
	heard  *atomic.Bool
	silent int

	// wake is signalled when a waiting writer has something to do.
	wake chan struct{}
	out  struct {
		sync.Mutex
		frames  [][]byte
		grants  []grant
		control uint64   // sequence of the next control frame written
		free    [][]byte // buffers of frames that were written
		waiting bool     // the writer waits for wake
		closing bool     // the last frame is in frames
	}
	sent, received atomic.Int64 // bytes
}

const (
	// maxFree and maxRecycled bound the buffers that a connection keeps for its next frames.
	maxFree     = 16
	maxRecycled = 1 << 20
	// lingerTime is how long an ending connection may take to deliver its goodbye.
	lingerTime = 500 * time.Millisecond
	// readBuffer is what one read of the socket asks for at least.
	readBuffer = 64 << 10
)

// heardConn is a net.Conn that notes when something was read.
type heardConn struct {
	net.Conn
	heard *atomic.Bool
}

// Read implements io.Reader.
func (h *heardConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		h.heard.Store(true)
	}
	return n, err
}

// newFrameReader reads frames from sock and notes in heard that something came.
func newFrameReader(sock net.Conn, heard *atomic.Bool) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(&heardConn{sock, heard}, readBuffer)}
}

func newConn(m *Mesh, peer job.NodeID, sock net.Conn, in *frameReader, heard *atomic.Bool) *conn {
	in.expect(m.ref)
	c := &conn{
		mesh: m, peer: peer, sock: sock, in: in, heard: heard, wake: make(chan struct{}, 1),
		outputs: map[job.Channel]*Output{}, queues: map[job.Channel]*queue{},
	}
	heard.Store(true)
	return c
}

// buffer returns an empty buffer for a frame.
func (c *conn) buffer() []byte {
	c.out.Lock()
	defer c.out.Unlock()
	return c.bufferLocked()
}

func (c *conn) bufferLocked() []byte {
	if n := len(c.out.free); n > 0 {
		b := c.out.free[n-1]
		c.out.free = c.out.free[:n-1]
		return b[:0]
	}
	return nil
}

// recycle keeps the buffer of a frame that is not needed any more.
func (c *conn) recycle(frame []byte) {
	c.out.Lock()
	defer c.out.Unlock()
	c.recycleLocked(frame)
}

func (c *conn) recycleLocked(frame []byte) {
	if len(c.out.free) < maxFree && cap(frame) <= maxRecycled {
		c.out.free = append(c.out.free, frame)
	}
}

// enqueue hands a sealed frame to the writer, which owns it from then on.
func (c *conn) enqueue(frame []byte) {
	c.out.Lock()
	defer c.out.Unlock()
	if !c.out.closing {
		c.out.frames = append(c.out.frames, frame)
		c.wakeLocked()
	}
}

// grant hands credit to the writer, which sends all that has come together in one frame.
func (c *conn) grant(g grant) {
	c.out.Lock()
	defer c.out.Unlock()
	if !c.out.closing {
		c.out.grants = append(c.out.grants, g)
		c.wakeLocked()
	}
}

// sendControl hands a control message to the writer.
func (c *conn) sendControl(typ frameType, payload []byte) {
	c.out.Lock()
	defer c.out.Unlock()
	if !c.out.closing {
		c.out.frames = append(c.out.frames, c.controlLocked(typ, payload))
		c.wakeLocked()
	}
}

func (c *conn) controlLocked(typ frameType, payload []byte) []byte {
	frame := append(reserveHeader(c.bufferLocked()), payload...)
	seal(frame, header{typ: typ, tag: c.mesh.tag, attempt: c.mesh.ref.Attempt, seq: c.out.control})
	c.out.control++
	return frame
}

// heartbeat sends a heartbeat unless other frames wait to be sent, and returns for how many heartbeats the
// peer has been silent. It counts calls, not time, so that a pause of this process is not held against the
// peer.
func (c *conn) heartbeat() (silent int) {
	c.out.Lock()
	if len(c.out.frames) == 0 && !c.out.closing {
		c.out.frames = append(c.out.frames, c.controlLocked(heartbeatFrame, nil))
		c.wakeLocked()
	}
	c.out.Unlock()
	if c.heard.Swap(false) {
		c.silent = 0
	} else {
		c.silent++
	}
	return c.silent
}

func (c *conn) wakeLocked() {
	if c.out.waiting {
		c.out.waiting = false
		signal(c.wake)
	}
}

// shutdown drops what waits to be sent, says goodbye and lets both goroutines end, at the latest after
// lingerTime. It does not wait for them.
func (c *conn) shutdown(g goodbye) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.out.closing {
		return
	}
	c.out.frames = append(c.out.frames[:0], c.controlLocked(goodbyeFrame, controlPayload(g)))
	c.out.grants = nil
	c.out.closing = true
	c.wakeLocked()
	// Errors of a socket that is going are of no consequence.
	_ = c.sock.SetDeadline(time.Now().Add(lingerTime))
}

// writeLoop sends frames until the goodbye is sent. It writes all that has come together at once.
func (c *conn) writeLoop() {
	var frames [][]byte
	var grants []grant
	var vec net.Buffers
	for {
		var closing bool
		frames, grants, closing = c.takeOutgoing(frames, grants)
		vec = append(vec[:0], frames...)
		toSend := vec // WriteTo consumes it
		n, err := toSend.WriteTo(c.sock)
		c.sent.Add(n)
		if err != nil {
			c.lost(fmt.Errorf("write: %w", err))
			_ = c.sock.Close()
			return
		}
		if closing {
			c.closeWrite()
			return
		}
	}
}

// takeOutgoing waits for frames and takes them, credit first. It is given back what it returned last.
func (c *conn) takeOutgoing(done [][]byte, grants []grant) ([][]byte, []grant, bool) {
	c.out.Lock()
	for i, f := range done {
		c.recycleLocked(f)
		done[i] = nil
	}
	for len(c.out.frames) == 0 && len(c.out.grants) == 0 {
		c.out.waiting = true
		c.out.Unlock()
		<-c.wake
		c.out.Lock()
	}
	defer c.out.Unlock()
	pending, closing := c.out.grants, c.out.closing
	c.out.grants = grants[:0]
	for i := 0; i < len(pending); i += maxGrants {
		var payload []byte
		for _, g := range pending[i:min(i+maxGrants, len(pending))] {
			payload = appendGrant(payload, g)
		}
		c.out.frames = append(c.out.frames, c.controlLocked(creditFrame, payload))
	}
	frames := c.out.frames
	c.out.frames = done[:0]
	return frames, pending, closing
}

// closeWrite ends the outgoing half; the reader goes on until the peer has done the same, because closing a
// socket with unread input would destroy the goodbye on its way.
func (c *conn) closeWrite() {
	if s, ok := c.sock.(interface{ CloseWrite() error }); ok {
		_ = s.CloseWrite()
		return
	}
	_ = c.sock.Close()
}

// readLoop delivers frames until the connection ends.
func (c *conn) readLoop() {
	defer c.sock.Close()
	for {
		h, payload, err := c.in.next()
		if err == nil && c.mesh.Err() == nil {
			c.received.Add(int64(headerSize + len(payload)))
			err = c.deliver(h, payload)
		}
		if err != nil {
			c.lost(err)
			return
		}
	}
}

// lost ends the mesh because the connection does not work. During an orderly end it does nothing.
func (c *conn) lost(err error) {
	if c.mesh.Err() != nil {
		return
	}
	why := err.Error()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "connection closed"
	case !isNetError(err):
		c.mesh.log.Warn("refused what a peer sent", "peer", c.peer, "addr", c.sock.RemoteAddr(), "error", err)
	}
	c.mesh.fail(&job.PeerLostError{Node: c.peer, Why: why})
}

// isNetError tells a broken network from a peer that breaks the protocol.
func isNetError(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, net.ErrClosed)
}

// deliver acts on one frame.
func (c *conn) deliver(h header, payload []byte) error {
	if h.typ.inChannel() {
		return c.deliverElement(h, payload)
	}
	if h.seq != c.control {
		return fmt.Errorf("control frame %d, want %d", h.seq, c.control)
	}
	c.control++
	switch h.typ {
	case heartbeatFrame:
		return nil
	case creditFrame:
		return eachGrant(payload, func(g grant) error {
			o := c.outputs[g.channel]
			if o == nil {
				return fmt.Errorf("credit for channel %s, which does not go there", g.channel)
			}
			o.refill(g)
			return nil
		})
	case announceFrame:
		b, err := decodeBarrier(payload, c.mesh.ref)
		if err != nil {
			return err
		}
		c.mesh.announced(c.peer, *b)
		return nil
	case declineFrame:
		d, err := decodeControl[decline](payload)
		if err == nil {
			err = ofAttempt(d.Barrier, c.mesh.ref)
		}
		if err != nil {
			return err
		}
		c.mesh.declined(c.peer, d)
		return nil
	case goodbyeFrame:
		g, err := decodeControl[goodbye](payload)
		if err != nil {
			return err
		}
		c.mesh.dismissed(c.peer, g)
		return nil
	default:
		return fmt.Errorf("frame of type %d after the handshake", h.typ)
	}
}

// deliverElement queues an element for its reader.
func (c *conn) deliverElement(h header, payload []byte) error {
	q := c.queues[h.channel]
	if q == nil {
		return fmt.Errorf("channel %s does not come from there", h.channel)
	}
	if h.seq != q.seq {
		return fmt.Errorf("channel %s: frame %d, want %d", h.channel, h.seq, q.seq)
	}
	q.seq++
	it := item{bytes: len(payload)}
	var err error
	switch h.typ {
	case batchFrame:
		it.element.Kind = batch.BatchElement
		it.element.Batch, err = batch.DecodeBatch(payload, q.schema)
	case barrierFrame:
		it.element.Kind = batch.BarrierElement
		it.element.Barrier, err = decodeBarrier(payload, c.mesh.ref)
	default:
		it.element.Kind = batch.EndElement
	}
	if err == nil {
		err = q.gate.receive(q, it)
	}
	if err != nil {
		return fmt.Errorf("channel %s: %w", h.channel, err)
	}
	return nil
}
