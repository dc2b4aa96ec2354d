package exchange

import (
	"context"
	"errors"
	"sync"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// ErrWoken is returned by Gate.Next after Wake: the subtask has something else to look at.
var ErrWoken = errors.New("woken")

// Gate is the reading side of all channels into one subtask, numbered as they were given to Mesh.Gate. Its
// methods belong to the subtask's goroutine, but for Wake. Reading takes a lock and allocates nothing; a
// reader or writer that waits costs one wake-up, however many elements it missed.
//
// Invariants: available is the number of queues that are neither empty nor blocked; each of them is in turn,
// and nothing is in turn twice.
type Gate struct {
	// waked is signalled when a waiting reader has reason to look again.
	waked chan struct{}
	mu    struct {
		sync.Mutex
		queues    []*queue
		turn      ring[*queue] // queues to be read next, in order; blocked ones are skipped when met
		available int
		waiting   bool // the reader waits for waked
		woken     bool
		err       error
	}
}

// queue is the reading end of a channel. Gate.mu guards it.
type queue struct {
	gate    *Gate
	channel job.Channel
	index   int
	from    *conn // nil within the node
	schema  *batch.Schema

	items   ring[item]
	blocked bool
	inTurn  bool
	// full is set by a writer within the node that waits for room and is told by space.
	full  bool
	space chan struct{}

	// Between nodes: credit is what the writer may still send, owed what was read and not granted again.
	credit, owed credit
	window       credit
	seq          uint64 // of the next frame; connection's reader only
}

// item is a queued element with its size on the wire, 0 within the node.
type item struct {
	element batch.Element
	bytes   int
}

// credit is an amount of flow control.
type credit struct{ elements, bytes int }

func newGate(channels int) *Gate {
	g := &Gate{waked: make(chan struct{}, 1)}
	g.mu.turn = newRing[*queue](channels)
	return g
}

// add makes q the gate's next channel.
func (g *Gate) add(q *queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q.gate, q.index = g, len(g.mu.queues)
	g.mu.queues = append(g.mu.queues, q)
}

// Next returns the next element of a channel that is not blocked, taking turns, and waits for one. It returns
// ErrWoken after Wake, the mesh's error once that is over, and the cause of ctx's end.
func (g *Gate) Next(ctx context.Context) (channel int, e batch.Element, err error) {
	for {
		g.mu.Lock()
		switch {
		case g.mu.err != nil:
			err = g.mu.err
		case g.mu.woken:
			g.mu.woken = false
			err = ErrWoken
		case g.mu.available > 0:
			q := g.turnLocked()
			e, back := g.popLocked(q)
			g.mu.Unlock()
			if back != (credit{}) {
				q.from.grant(grant{q.channel, back.elements, back.bytes})
			}
			return q.index, e, nil
		default:
			g.mu.waiting = true
		}
		g.mu.Unlock()
		if err != nil {
			return -1, batch.Element{}, err
		}
		select {
		case <-g.waked:
		case <-ctx.Done():
			return -1, batch.Element{}, context.Cause(ctx)
		}
	}
}

// turnLocked takes the queue whose turn it is; there is one.
func (g *Gate) turnLocked() *queue {
	for {
		q := g.mu.turn.pop()
		q.inTurn = false
		if !q.blocked && q.items.len() > 0 {
			return q
		}
	}
}

// popLocked takes the first element of q, and returns the credit to grant to its writer now: grants are saved
// up to half a window, which leaves the writer the other half meanwhile.
func (g *Gate) popLocked(q *queue) (batch.Element, credit) {
	it := q.items.pop()
	if q.items.len() > 0 {
		g.enqueueLocked(q)
	} else {
		g.mu.available--
	}
	if q.from == nil {
		if q.full && q.items.len() <= q.items.cap()/2 {
			q.full = false
			signal(q.space)
		}
		return it.element, credit{}
	}
	q.owed.elements++
	q.owed.bytes += it.bytes
	if 2*q.owed.elements < q.window.elements && 2*q.owed.bytes < q.window.bytes {
		return it.element, credit{}
	}
	back := q.owed
	q.owed = credit{}
	q.credit.elements += back.elements
	q.credit.bytes += back.bytes
	return it.element, back
}

func (g *Gate) enqueueLocked(q *queue) {
	if !q.inTurn {
		q.inTurn = true
		g.mu.turn.push(q)
	}
}

// push appends an element to q and reports whether there was room. If not, q.space will be signalled.
func (g *Gate) push(q *queue, it item) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.items.len() == q.items.cap() {
		q.full = true
		return false
	}
	g.pushLocked(q, it)
	return true
}

func (g *Gate) pushLocked(q *queue, it item) {
	q.items.push(it)
	if q.items.len() > 1 || q.blocked {
		return
	}
	g.mu.available++
	g.enqueueLocked(q)
	g.wakeLocked()
}

// receive appends an element that came from another node, against the credit granted for it.
func (g *Gate) receive(q *queue, it item) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.credit.elements <= 0 || q.credit.bytes <= 0 {
		return errors.New("sent without credit")
	}
	q.credit.elements--
	q.credit.bytes -= it.bytes
	g.pushLocked(q, it)
	return nil
}

func (g *Gate) wakeLocked() {
	if g.mu.waiting {
		g.mu.waiting = false
		signal(g.waked)
	}
}

// Ready reports whether Next would return an element at once.
func (g *Gate) Ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.available > 0
}

// Block stops reading channel. Its writer goes on until the channel is full.
func (g *Gate) Block(channel int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.mu.queues[channel]
	if !q.blocked && q.items.len() > 0 {
		g.mu.available--
	}
	q.blocked = true
}

// Unblock reads every channel again.
func (g *Gate) Unblock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range g.mu.queues {
		if q.blocked && q.items.len() > 0 {
			g.mu.available++
			g.enqueueLocked(q)
		}
		q.blocked = false
	}
}

// Wake makes the current or next Next return ErrWoken; calls before that count once. Any goroutine may call
// it.
func (g *Gate) Wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.woken = true
	g.wakeLocked()
}

// fail makes every Next return err.
func (g *Gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.err = err
	g.wakeLocked()
}

// signal leaves a token in c, which has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
