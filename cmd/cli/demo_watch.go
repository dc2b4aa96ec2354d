package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/weirstream/weir/workflows"
)

// jobWatch follows a job through its queries. A job that is being recovered may not answer for seconds: what was
// heard last is kept.
type jobWatch struct {
	client client.Client
	name   string
	// passed is how much the reader has seen, asked when a checkpoint succeeds.
	passed func() int

	mu struct {
		sync.Mutex
		heard
		err error // of the last question
	}
	changed chan struct{} // one slot: news
}

// heard is what a job said last.
type heard struct {
	status workflows.Status
	last   workflows.CheckpointView // newest that succeeded; zero if there is none
	// passedThen is how much the reader had seen when that became known.
	passedThen int
}

func newJobWatch(cl client.Client, name string, passed func() int) *jobWatch {
	return &jobWatch{client: cl, name: name, passed: passed, changed: make(chan struct{}, 1)}
}

// run asks until ctx ends.
func (w *jobWatch) run(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		w.ask(ctx)
		select {
		case w.changed <- struct{}{}:
		default:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *jobWatch) ask(ctx context.Context) {
	var st workflows.Status
	var cps []workflows.CheckpointView
	err := query(ctx, w.client, w.name, workflows.QueryStatus, &st)
	if err == nil {
		err = query(ctx, w.client, w.name, workflows.QueryCheckpoints, &cps)
	}
	passed := w.passed()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err = err; err != nil {
		return
	}
	w.mu.status = st
	for _, c := range cps {
		if c.Result != workflows.Committed && c.Result != workflows.Durable {
			continue
		}
		if c.ID != w.mu.last.ID {
			w.mu.passedThen = passed
		}
		w.mu.last = c
		return
	}
}

func (w *jobWatch) now() heard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.heard
}

// await waits until the job is as wanted. A job that has failed meanwhile is an error.
func (w *jobWatch) await(ctx context.Context, what string, cond func(heard) bool) error {
	for {
		h := w.now()
		if cond(h) {
			return nil
		}
		switch h.status.State {
		case "failed", "cancelled", "done":
			return fmt.Errorf("job %s is %s: %s", w.name, h.status.State, h.status.LastFailure)
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("job %s: %s: %w%s", w.name, what, context.Cause(ctx), w.why())
		}
	}
}

// why says what the job waits for, or why it does not answer.
func (w *jobWatch) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s := w.mu.status; {
	case s.WaitingFor != "":
		return "; it waits for: " + s.WaitingFor
	case s.LastFailure != "":
		return "; its last failure: " + s.LastFailure
	case w.mu.err != nil:
		return "; " + w.mu.err.Error()
	}
	return ""
}
