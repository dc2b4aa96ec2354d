package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// ErrClosed says that this process has left the cluster, so that it can no longer tell who is alive.
var ErrClosed = errors.New("this node has left the cluster")

// Status is what this process knows of a member.
type Status int

// The statuses. A Leaving member finishes what it has and takes no more. Left and Lost members are gone, the
// first by their own word, the second because they stopped answering.
const (
	Alive Status = iota
	Leaving
	Left
	Lost
)

// String returns the status as shown to people.
func (s Status) String() string { return [...]string{"alive", "leaving", "left", "lost"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Member is a worker process as this one sees it.
type Member struct {
	ID     job.NodeID `json:"id"`
	Status Status     `json:"status"`
	// Gossip, Exchange and HTTP are host:port addresses; HTTP may be empty.
	Gossip   string `json:"gossip"`
	Exchange string `json:"exchange"`
	HTTP     string `json:"http,omitempty"`
	// Slots is the number of slots that the process has, Free how many of them nothing uses.
	Slots   int    `json:"slots"`
	Free    int    `json:"free"`
	Version string `json:"version,omitempty"`
	// Since is when Status was last observed to change, on this process's clock.
	Since time.Time `json:"since"`
}

// gone reports whether the process no longer runs, as far as is known.
func (m *Member) gone() bool { return m.Status == Left || m.Status == Lost }

// Members that are gone are remembered for rememberGone (to be shown, and contacted in case it was only the
// network), at most maxGone of them. A Watch of a forgotten one still reports it lost: it is "never seen".
const (
	rememberGone = time.Hour
	maxGone      = 256
)

// registry is the set of members with its waiters. Its methods never call out, so memberlist may call them
// while it holds its own locks.
type registry struct {
	self   job.NodeID
	joined time.Time
	grace  time.Duration

	mu struct {
		sync.Mutex
		members map[job.NodeID]*Member
		// changed is closed and replaced at every change.
		changed chan struct{}
		closed  bool
	}
}

func newRegistry(self job.NodeID, grace time.Duration) *registry {
	r := &registry{self: self, joined: time.Now(), grace: grace}
	r.mu.members = map[job.NodeID]*Member{}
	r.mu.changed = make(chan struct{})
	return r
}

// put records that a member is there, or what it newly says of itself, and returns its status before (Lost
// when it is new) and now.
func (r *registry) put(id job.NodeID, gossip string, meta metadata) (before, now Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.mu.members[id]
	if m == nil {
		m = &Member{ID: id, Status: Lost}
		r.mu.members[id] = m
	}
	before, now = m.Status, Alive
	if meta.Leaving {
		now = Leaving
	}
	if before != now {
		m.Since = time.Now()
	}
	m.Status = now
	m.Gossip, m.Exchange, m.HTTP = gossip, meta.Exchange, meta.HTTP
	m.Slots, m.Free, m.Version = meta.Slots, meta.Free, meta.Version
	r.changedLocked()
	return before, now
}

// drop records that a member is gone and returns how. known is false for a member that was never there and
// after close: memberlist's suspicion timers outlive its Shutdown, and would now find everybody dead.
func (r *registry) drop(id job.NodeID) (how Status, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.mu.members[id]
	if m == nil || r.mu.closed {
		return Lost, false
	}
	if m.Status == Leaving {
		m.Status = Left
	} else {
		m.Status = Lost
	}
	m.Since = time.Now()
	r.forgetLocked()
	r.changedLocked()
	return m.Status, true
}

// forgetLocked removes members that have been gone for long, and the oldest of too many.
func (r *registry) forgetLocked() {
	gone := make([]*Member, 0, len(r.mu.members))
	for _, m := range r.mu.members {
		if m.gone() {
			gone = append(gone, m)
		}
	}
	slices.SortFunc(gone, func(a, b *Member) int { return b.Since.Compare(a.Since) }) // newest first
	for i, m := range gone {
		if i >= maxGone || time.Since(m.Since) > rememberGone {
			delete(r.mu.members, m.ID)
		}
	}
}

func (r *registry) changedLocked() {
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// changed returns a channel that is closed at the next change.
func (r *registry) changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.changed
}

// close ends every watch with ErrClosed.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.closed {
		r.mu.closed = true
		r.changedLocked()
	}
}

// list returns copies of all members, gone ones included, by id.
func (r *registry) list() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Member, 0, len(r.mu.members))
	for _, m := range r.mu.members {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// watch returns the first of ids that is gone; see Cluster.Watch.
func (r *registry) watch(ctx context.Context, ids []job.NodeID) (job.NodeID, error) {
	grace := time.NewTimer(time.Until(r.joined.Add(r.grace)))
	defer grace.Stop()
	for {
		lost, changed, err := r.firstLost(ids)
		if lost != "" || err != nil {
			return lost, err
		}
		select {
		case <-changed:
		case <-grace.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// firstLost looks at ids once. changed is closed at the next change after this look.
func (r *registry) firstLost(ids []job.NodeID) (lost job.NodeID, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return "", nil, ErrClosed
	}
	settled := time.Since(r.joined) >= r.grace
	for _, id := range ids {
		m := r.mu.members[id]
		if m == nil && settled || m != nil && m.gone() {
			return id, nil, nil
		}
	}
	return "", r.mu.changed, nil
}
