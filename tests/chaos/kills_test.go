package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/dataplane/job"
)

var (
	seed    = flag.Uint64("seed", fromEnv("WEIR_CHAOS_SEED", 1), "the first seed; its plan is printed and can be replayed")
	seeds   = flag.Uint64("seeds", fromEnv("WEIR_CHAOS_SEEDS", 1), "how many seeds to run, from -seed on")
	records = flag.Uint64("records", fromEnv("WEIR_CHAOS_RECORDS", 120_000), "records of a run; the full proof takes 300000")
	long    = flag.Bool("long", os.Getenv("WEIR_CHAOS_LONG") != "", "outages of minutes, more zombies")
)

// fromEnv is a flag's default.
func fromEnv(name string, def uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return v
	}
	return def
}

// TestRandomKills is promise 1 under fire: every part of a cluster is killed with SIGKILL at random moments and
// started again on its data, while records flow and a read-committed reader runs.
func TestRandomKills(t *testing.T) {
	for s := *seed; s < *seed+*seeds; s++ {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) { randomKills(t, s, int(*records)) })
	}
}

func randomKills(t *testing.T, seed uint64, n int) {
	r := start(t, seed, n)
	faults := plan(seed, workers, time.Duration(n)*time.Second/perSecond)
	t.Logf("seed %d, %d records; replay with -seed %d -records %d\n%s", seed, n, seed, n, describe(faults))
	in := newInjector(r)
	if err := in.run(faults); err != nil {
		t.Fatal(err)
	}
	r.finish(3 * time.Minute)
	t.Logf("kill → records flow again / new output:\n%s", in.report())
}

// injector carries out a plan.
type injector struct {
	r     *rig
	parts [workers]sync.Mutex // held while a worker is down
	// The others are killed once each.
	mu  sync.Mutex
	log []injected
}

// injected is a fault that has happened.
type injected struct {
	fault
	killed, up time.Time
	attempt    job.Attempt // that ran when it was killed
}

func newInjector(r *rig) *injector { return &injector{r: r} }

// run returns when every part that was killed is up again.
func (in *injector) run(faults []fault) error {
	begin := time.Now()
	g, ctx := errgroup.WithContext(in.r.Ctx)
	for _, f := range faults {
		g.Go(func() error {
			if err := pause(ctx, time.Until(begin.Add(f.at))); err != nil {
				return err
			}
			return in.inject(ctx, f)
		})
	}
	return g.Wait()
}

func (in *injector) inject(ctx context.Context, f fault) error {
	kill, start := in.levers(f)
	for i := range in.parts {
		if f.part == allWorkers || f.part == oneWorker && f.worker == i {
			in.parts[i].Lock()
			defer in.parts[i].Unlock()
		}
	}
	done := injected{fault: f, killed: time.Now(), attempt: in.r.flow.Attempt()}
	kill()
	in.r.Logf("killed: %s", f)
	if err := pause(ctx, f.down); err != nil {
		return err
	}
	if err := start(ctx); err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	done.up = time.Now()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.log = append(in.log, done)
	return nil
}

// levers are how the part of a fault is killed and started.
func (in *injector) levers(f fault) (kill func(), start func(context.Context) error) {
	c := in.r.Cluster
	switch f.part {
	case oneWorker:
		w := c.Workers[f.worker]
		return w.Kill, w.Start
	case broker:
		return c.Broker.Kill, c.Broker.Restart
	case temporalServer:
		return c.Temporal.Kill, c.Temporal.Start
	case s3Server:
		return c.S3.Kill, func(context.Context) error { c.S3.Start(); return nil }
	}
	return func() {
			for _, w := range c.Workers {
				w.Kill()
			}
		}, func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			for _, w := range c.Workers {
				g.Go(func() error { return w.Start(ctx) })
			}
			return g.Wait()
		}
}

// report says for each fault how long the records stood: from the kill until an attempt after it read records, and
// until the reader was shown something that came after it.
func (in *injector) report() string {
	var b strings.Builder
	for _, d := range in.log {
		flows, shown := "same attempt", "nothing"
		if at, ok := in.r.flow.Resumed(d.attempt, d.killed); ok {
			flows = fmt.Sprintf("%.1fs", at.Sub(d.killed).Seconds())
		}
		if at, ok := in.r.flow.Shown(d.up); ok {
			shown = fmt.Sprintf("%.1fs", at.Sub(d.killed).Seconds())
		}
		fmt.Fprintf(&b, "  %s: up after %.1fs, flow %s, output %s\n", d.fault, d.up.Sub(d.killed).Seconds(), flows, shown)
	}
	return b.String()
}
