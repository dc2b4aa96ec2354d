package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/cmd/local"
)

// strike is one use of SIGKILL.
type strike struct {
	after time.Duration // since the first record
	all   bool          // every worker at once, instead of one
	down  time.Duration // how long they stay dead
}

// strikes are the kills of a run of the given length: n single ones in its first two thirds, then all at once.
// None at all if n is 0.
func strikes(rng *rand.Rand, n int, length time.Duration) []strike {
	if n == 0 {
		return nil
	}
	between := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*rng.Float64()) * float64(length))
	}
	out := make([]strike, 0, n+1)
	for range n {
		out = append(out, strike{after: between(0.10, 0.60), down: 500*time.Millisecond + time.Duration(rng.Int64N(int64(1500*time.Millisecond)))})
	}
	slices.SortFunc(out, func(a, b strike) int { return int(a.after - b.after) })
	return append(out, strike{after: between(0.70, 0.85), all: true, down: 500 * time.Millisecond})
}

// killer carries strikes out.
type killer struct {
	stack *local.Stack
	rng   *rand.Rand
	// ripe waits for a moment worth a kill. It returns an error only when ctx ends.
	ripe func(ctx context.Context) error
	say  func(format string, args ...any)
}

// run kills and restarts workers as planned, from now on.
func (k *killer) run(ctx context.Context, plan []strike) error {
	begin := time.Now()
	for _, s := range plan {
		if err := wait(ctx, s.after-time.Since(begin)); err != nil {
			return err
		}
		if err := k.ripe(ctx); err != nil {
			return err
		}
		victims := k.stack.Workers
		if !s.all {
			victims = []*local.Worker{k.victim(ctx)}
		}
		k.kill(victims, begin)
		if err := wait(ctx, s.down); err != nil {
			return err
		}
		if err := k.restart(ctx, victims); err != nil {
			return err
		}
	}
	return nil
}

func (k *killer) kill(victims []*local.Worker, begin time.Time) {
	what := fmt.Sprintf("kill -9 all %d workers", len(victims))
	if len(victims) == 1 {
		what = fmt.Sprintf("kill -9 worker %d (pid %d)", victims[0].Index, victims[0].Pid())
	}
	k.say("%4.0fs  %s", time.Since(begin).Seconds(), what)
	var all sync.WaitGroup
	for _, w := range victims {
		all.Go(w.Kill)
	}
	all.Wait()
}

func (k *killer) restart(ctx context.Context, victims []*local.Worker) error {
	errs := make(chan error, len(victims))
	for _, w := range victims {
		go func() { errs <- w.Start(ctx) }()
	}
	var first error
	for range victims {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// victim draws one of the workers that run tasks: killing an idle one proves little.
func (k *killer) victim(ctx context.Context) *local.Worker {
	var busy []*local.Worker
	for _, w := range k.stack.Workers {
		if f, err := w.Figures(ctx); err == nil && len(f) > 0 {
			busy = append(busy, w)
		}
	}
	if len(busy) == 0 {
		busy = k.stack.Workers
	}
	return busy[k.rng.IntN(len(busy))]
}

// wait waits for d, or for ctx.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
