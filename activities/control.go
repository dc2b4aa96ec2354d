package activities

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/snapshot"
)

// Control holds the activities that any process can run, on ControlQueue. Every one of them is idempotent.
// All methods may run concurrently.
type Control struct {
	Planner      Planner
	Transactions Transactions
	Members      Members
	Executions   Executions
	// OpenStore opens the snapshot store at a URL.
	OpenStore func(ctx context.Context, url string) (snapshot.Store, error)
	// DefaultStorage is the URL for jobs that name none.
	DefaultStorage string
	// Now is the wall clock, against which the age of transactions is judged; nil means time.Now.
	Now func() time.Time
	// Settle is how long PlaceAttempt waits for enough free slots before it says that there are too few;
	// zero means 3 s. Slots of the attempt before become free, and lost nodes are noticed, within it.
	Settle time.Duration

	programs programs
}

func (c *Control) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// store opens the job's store.
func (c *Control) store(ctx context.Context, j Job) (snapshot.Store, error) {
	s, err := c.OpenStore(ctx, j.Storage)
	if err != nil {
		return nil, fmt.Errorf("open storage %s: %w", j.Storage, err)
	}
	return s, nil
}

// programs remembers a few SpecObjects: the objects are immutable, so nothing in here is ever stale.
type programs struct {
	mu    sync.Mutex
	byKey map[string]SpecObject
	order []string // oldest first
}

// maxPrograms bounds the memory that remembered specs take.
const maxPrograms = 32

// program returns the spec and plan of a job.
func (c *Control) program(ctx context.Context, s snapshot.Store, j Job) (SpecObject, error) {
	key := j.Storage + " " + j.Spec
	c.programs.mu.Lock()
	p, ok := c.programs.byKey[key]
	c.programs.mu.Unlock()
	if ok {
		return p, nil
	}
	if err := readJSON(ctx, s, j.Spec, &p); err != nil {
		return SpecObject{}, fmt.Errorf("read spec of job %s: %w", j.Name, err)
	}
	c.programs.put(key, p)
	return p, nil
}

func (p *programs) put(key string, o SpecObject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.byKey[key]; ok {
		return
	}
	if p.byKey == nil {
		p.byKey = map[string]SpecObject{}
	}
	if len(p.order) == maxPrograms {
		delete(p.byKey, p.order[0])
		p.order = p.order[1:]
	}
	p.byKey[key], p.order = o, append(p.order, key)
}
