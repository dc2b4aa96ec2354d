package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// Server is a process's listener. It lives as long as the process; every attempt has a Mesh of its own.
type Server struct {
	self     job.NodeID
	timings  Timings
	log      *slog.Logger
	listener net.Listener
	closed   chan struct{}
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		jobs map[job.UID]*attempts
		// changed is closed and replaced when a mesh starts or ends.
		changed chan struct{}
		pending map[net.Conn]bool // connections in their handshake
		closing bool
	}
}

// attempts is what the server knows of a job: the highest attempt heard of, and how far it has come here.
type attempts struct {
	highest  job.Attempt
	attached bool  // the highest was attached here, perhaps long ago
	mesh     *Mesh // of the highest, from Attach to its end
	serving  bool  // the mesh takes connections
	ended    error // why the mesh ended
}

// maxPending bounds the connections that are in their handshake.
const maxPending = 1024

// Listen opens the process's exchange listener.
func Listen(cfg ServerConfig) (*Server, error) {
	if cfg.Self == "" {
		return nil, errors.New("exchange: no node id")
	}
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	s := &Server{self: cfg.Self, timings: cfg.Timings.withDefaults(), log: cfg.Logger, listener: l, closed: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.mu.jobs = map[job.UID]*attempts{}
	s.mu.changed = make(chan struct{})
	s.mu.pending = map[net.Conn]bool{}
	s.running.Go(s.acceptLoop)
	return s, nil
}

// Addr is the host:port that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Attach makes this node's part of an attempt, once per attempt. A lower attempt of the job that still runs
// here ends with a fenced error; an attempt below the highest heard of is refused with one.
func (s *Server) Attach(cfg MeshConfig) (*Mesh, error) {
	if err := cfg.validate(s.self); err != nil {
		return nil, fmt.Errorf("exchange: attach: %w", err)
	}
	m := newMesh(s, cfg)
	s.mu.Lock()
	if s.mu.closing {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	stale := s.hearLocked(cfg.Ref)
	a := s.mu.jobs[cfg.Ref.UID]
	var err error
	switch {
	case a.highest > cfg.Ref.Attempt:
		err = job.AsFenced(&job.StaleError{Ref: cfg.Ref, Highest: a.highest})
	case a.attached:
		err = fmt.Errorf("exchange: attempt %s was attached before", cfg.Ref)
	default:
		a.attached, a.mesh = true, m
	}
	s.mu.Unlock()
	supersede(stale, cfg.Ref.Attempt)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// hearLocked records that an attempt exists and returns the mesh of a lower one, if it has to end.
func (s *Server) hearLocked(ref job.Ref) (stale *Mesh) {
	a := s.mu.jobs[ref.UID]
	if a == nil {
		a = &attempts{}
		s.mu.jobs[ref.UID] = a
	}
	if ref.Attempt <= a.highest {
		return nil
	}
	stale = a.mesh
	*a = attempts{highest: ref.Attempt}
	s.changedLocked()
	return stale
}

func supersede(stale *Mesh, highest job.Attempt) {
	if stale != nil {
		stale.fail(job.AsFenced(&job.StaleError{Ref: stale.ref, Highest: highest}))
	}
}

func (s *Server) changedLocked() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// serve lets connections reach m.
func (s *Server) serve(m *Mesh) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.mu.jobs[m.ref.UID]; a.mesh == m {
		a.serving = true
		s.changedLocked()
	}
}

// ended refuses further connections to m and lets go of it, with all that waits in its channels.
func (s *Server) ended(m *Mesh) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.mu.jobs[m.ref.UID]; a != nil && a.mesh == m {
		a.mesh, a.serving, a.ended = nil, false, m.Err()
		s.changedLocked()
	}
}

// Close stops listening, ends every mesh and returns when all goroutines of the server have ended.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.mu.closing {
		s.mu.closing = true
		close(s.closed)
		_ = s.listener.Close()
	}
	var meshes []*Mesh
	for _, a := range s.mu.jobs {
		if a.mesh != nil {
			meshes = append(meshes, a.mesh)
		}
	}
	for sock := range s.mu.pending {
		_ = sock.Close()
	}
	s.mu.Unlock()
	for _, m := range meshes {
		m.Close(ErrClosed)
	}
	s.running.Wait()
}

func (s *Server) acceptLoop() {
	for {
		sock, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.closed:
				return
			case <-time.After(50 * time.Millisecond): // too many open files; others may close some
				s.log.Warn("accept failed", "error", err)
				continue
			}
		}
		if !s.admit(sock) {
			_ = sock.Close()
			continue
		}
		s.running.Go(func() {
			s.handshake(sock)
			s.mu.Lock()
			delete(s.mu.pending, sock)
			s.mu.Unlock()
		})
	}
}

// admit counts a connection among those in their handshake.
func (s *Server) admit(sock net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing || len(s.mu.pending) >= maxPending {
		return false
	}
	s.mu.pending[sock] = true
	return true
}

// handshake reads a hello and hands the connection to the mesh that it is for, or refuses and logs it.
func (s *Server) handshake(sock net.Conn) {
	tune(sock, s.timings.Dead)
	heard := new(atomic.Bool)
	in := newFrameReader(sock, heard)
	h, err := s.readHello(sock, in)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, io.EOF) { // nothing was sent: somebody looked whether the port is open
			level = slog.LevelDebug
		}
		s.log.Log(context.Background(), level, "refused a connection", "addr", sock.RemoteAddr(), "error", err)
		_ = sock.Close()
		return
	}
	m, refused := s.route(sock, h)
	if m != nil {
		refused = m.receive(h, sock, in, heard)
	}
	if refused == nil {
		return
	}
	s.log.Warn("refused a connection", "addr", sock.RemoteAddr(), "peer", h.From, "uid", h.UID, "attempt", h.Attempt, "reason", refused)
	_ = sock.SetDeadline(time.Now().Add(lingerTime))
	_ = writeHandshake(sock, refuseFrame, h.Ref, controlPayload(refused))
	_ = sock.Close()
}

// readHello reads the first frame of a connection, which has to come soon and to be a hello.
func (s *Server) readHello(sock net.Conn, in *frameReader) (hello, error) {
	_ = sock.SetDeadline(time.Now().Add(s.timings.Dead))
	defer func() { _ = sock.SetDeadline(time.Time{}) }()
	head, payload, err := in.next()
	if err != nil {
		return hello{}, err
	}
	if head.typ != helloFrame {
		return hello{}, fmt.Errorf("frame of type %d before a hello", head.typ)
	}
	h, err := decodeControl[hello](payload)
	if err != nil {
		return hello{}, err
	}
	if h.Attempt != head.attempt || uidTag(h.UID) != head.tag || h.Attempt <= 0 {
		return hello{}, fmt.Errorf("hello of attempt %s in a frame of another", h.Ref)
	}
	return h, nil
}

// route finds the mesh that a hello is for. While this node has not started the attempt yet it waits, and
// lets the dialler hear that it is alive.
func (s *Server) route(sock net.Conn, h hello) (*Mesh, *refusal) {
	if h.To != s.self {
		return nil, &refusal{Code: refusedWrongNode, Detail: fmt.Sprintf("this is node %s", s.self)}
	}
	deadline := time.After(s.timings.Connect)
	beat := time.NewTicker(s.timings.Heartbeat)
	defer beat.Stop()
	for {
		m, changed, refused := s.find(h.Ref)
		if m != nil || refused != nil {
			return m, refused
		}
		select {
		case <-changed:
		case <-beat.C:
			_ = sock.SetWriteDeadline(time.Now().Add(s.timings.Dead))
			if err := writeHandshake(sock, heartbeatFrame, h.Ref, nil); err != nil {
				return nil, &refusal{Code: refusedUnknown, Detail: "the peer went away: " + err.Error()}
			}
		case <-deadline:
			return nil, &refusal{Code: refusedUnknown, Detail: fmt.Sprintf("not deployed here within %v", s.timings.Connect)}
		case <-s.closed:
			return nil, &refusal{Code: refusedEnded, Detail: "the node is stopping"}
		}
	}
}

// find looks for the mesh of an attempt once. With neither mesh nor refusal, look again when changed is
// closed.
func (s *Server) find(ref job.Ref) (m *Mesh, changed <-chan struct{}, refused *refusal) {
	s.mu.Lock()
	stale := s.hearLocked(ref)
	a := s.mu.jobs[ref.UID]
	switch {
	case a.highest > ref.Attempt:
		refused = &refusal{Code: refusedSuperseded, Highest: a.highest}
	case a.ended != nil:
		refused = &refusal{Code: refusedEnded, Detail: goodbyeFor(a.ended).Why}
	case a.serving:
		m = a.mesh
	}
	changed = s.mu.changed
	s.mu.Unlock()
	supersede(stale, ref.Attempt)
	return m, changed, refused
}

// receive answers a hello and takes over the connection, or says why not.
func (m *Mesh) receive(h hello, sock net.Conn, in *frameReader, heard *atomic.Bool) *refusal {
	if _, ok := m.peers[h.From]; !ok || h.From >= m.self {
		return &refusal{Code: refusedStranger, Detail: fmt.Sprintf("node %s does not dial node %s in this attempt", h.From, m.self)}
	}
	if h.Digest != m.cfg.GraphDigest {
		return &refusal{Code: refusedGraph, Detail: fmt.Sprintf("digest %.12s, here %.12s", h.Digest, m.cfg.GraphDigest)}
	}
	c := newConn(m, h.From, sock, in, heard)
	if !m.reserve(h.From) {
		return &refusal{Code: refusedTwice}
	}
	_ = sock.SetWriteDeadline(time.Now().Add(m.server.timings.Dead))
	if err := writeHandshake(sock, welcomeFrame, m.ref, nil); err != nil {
		_ = sock.Close()
		m.fail(&job.PeerLostError{Node: h.From, Why: "handshake: " + err.Error()})
		return nil
	}
	_ = sock.SetDeadline(time.Time{})
	m.join(c)
	return nil
}
