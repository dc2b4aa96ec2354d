package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/cmd/engine"
	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
)

// demoOptions are the flags of weir demo.
type demoOptions struct {
	records, rate, kills int
	length, interval     time.Duration
	seed                 uint64
	atLeastOnce, exit    bool
	state, dir           string
}

const demoJob = "payments"

func demoCommand(s streams) *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use: "demo", Short: "Kill workers while payments flow, and prove that nothing was lost or doubled", Args: exactly(0, "no arguments"),
		Long: `Run the double charge. Everything is embedded: a Temporal development server, Kafka, S3 and three worker
processes. Transfers and logins flow from two topics through running totals per account and sums per minute
into three topics. Workers are killed with SIGKILL at random moments, and once all of them. A read-committed
reader watches the output all the time; in the end it is compared with what the input must have led to.

The exit status is 0 if every record came out exactly once. On a terminal the cluster stays up until Ctrl-C,
so that one can look around in the Temporal UI.`,
	}
	f := c.Flags()
	f.IntVar(&o.records, "records", 200_000, "records of the input")
	f.DurationVar(&o.length, "duration", 30*time.Second, "time over which they are sent")
	f.IntVar(&o.rate, "rate", 0, "records a second, instead of --duration")
	f.IntVar(&o.kills, "kills", 2, "workers killed one at a time, before all are killed at once; 0 kills none at all")
	f.DurationVar(&o.interval, "interval", 0, "checkpoint interval (default 1s; with --at-least-once 4s)")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the workload and of the kills (default: random)")
	f.BoolVar(&o.atLeastOnce, "at-least-once", false, "give up exactly once, to see the doubles that it prevents")
	f.StringVar(&o.state, "state", "pebble", "state backend of the job: pebble or memory")
	f.BoolVar(&o.exit, "exit", false, "end after the verdict, even on a terminal")
	f.StringVar(&o.dir, "dir", "", "directory of logs and databases, which is kept (default: a temporary one)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.complete(); err != nil {
			return usageError{err}
		}
		return runDemo(c.Context(), s, o)
	}
	return c
}

// complete checks the options and fills in what depends on others.
func (o *demoOptions) complete() error {
	switch {
	case o.records < 1:
		return fmt.Errorf("--records %d: at least 1", o.records)
	case o.kills < 0:
		return fmt.Errorf("--kills %d: at least 0", o.kills)
	case o.rate < 0:
		return fmt.Errorf("--rate %d: at least 1", o.rate)
	case o.rate == 0 && o.length < time.Second:
		return fmt.Errorf("--duration %s: at least 1s", o.length)
	case o.state != "pebble" && o.state != "memory":
		return fmt.Errorf("--state %s: write pebble or memory", o.state)
	case o.interval < 0:
		return fmt.Errorf("--interval %s: at least 1s", o.interval)
	}
	if o.rate == 0 {
		o.rate = max(1, int(float64(o.records)/o.length.Seconds()))
	}
	o.length = time.Duration(float64(o.records) / float64(o.rate) * float64(time.Second))
	if o.interval == 0 {
		o.interval = time.Second
		if o.atLeastOnce {
			o.interval = 4 * time.Second
		}
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	return nil
}

// demo is a run of the double charge.
type demo struct {
	opts   demoOptions
	term   *terminal
	dir    string
	stack  *local.Stack
	client client.Client
	reader *proof.Reader
	watch  *jobWatch
	work   proof.Workload
	want   *proof.Expected
	sent   atomic.Int64
}

// errVerdict is the failure of a demo whose verdict is bad; the verdict has been printed.
var errVerdict = errors.New("the output is not what was promised")

func runDemo(ctx context.Context, s streams, o demoOptions) (err error) {
	d := &demo{opts: o, term: newTerminal(s.out), work: proof.NewWorkload(o.seed, o.records)}
	end, err := logDir(&o.dir, "weir-demo-")
	if err != nil {
		return err
	}
	d.dir = o.dir
	defer func() { err = end(s, err) }()
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.start(ctx); err != nil {
		return interrupted(ctx, err)
	}
	v, err := d.run(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	bad := d.report(v)
	if isTerminal(s.in) && !o.exit {
		d.term.printf("\nThe cluster stays up to be looked at. Ctrl-C ends it; nothing is kept.")
		<-ctx.Done()
	}
	return bad
}

// errInterrupted is how a command ends that is stopped by its user before it is done.
var errInterrupted = errors.New("interrupted")

// interrupted replaces what a stop by the user leads to by a word about it.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// workDir is the directory that was asked for, or a temporary one. drop removes the temporary one.
func workDir(asked, pattern string) (dir string, drop func() error, err error) {
	if asked != "" {
		return asked, func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp("", pattern)
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// logDir makes *dir a temporary directory unless it names one. end takes and returns how the work ended: it
// removes a temporary directory, unless there was a failure that its logs may explain.
func logDir(dir *string, pattern string) (end func(streams, error) error, err error) {
	made, drop, err := workDir(*dir, pattern)
	if err != nil || made == *dir {
		return func(_ streams, err error) error { return err }, err
	}
	*dir = made
	return func(s streams, err error) error {
		switch {
		case err == nil, errors.Is(err, errInterrupted):
			return errors.Join(err, drop())
		case os.Remove(made) != nil: // not empty
			fmt.Fprintf(s.err, "logs: %s\n", made)
		}
		return err
	}, nil
}

// start starts the cluster and the job, and waits until the job runs.
func (d *demo) start(ctx context.Context) (err error) {
	begin := time.Now()
	d.stack, err = local.Start(ctx, local.Options{Dir: d.dir, Progress: func(part string) {
		d.term.printf("%4.0fs  starting %s", time.Since(begin).Seconds(), part)
	}})
	if err != nil {
		return err
	}
	if err := proof.CreateTopics(ctx, d.stack.Brokers, 4); err != nil {
		return err
	}
	if d.reader, err = proof.NewReader(d.stack.Brokers); err != nil {
		return err
	}
	if d.client, err = d.stack.Temporal.Dial(ctx); err != nil {
		return err
	}
	p, err := engine.Parse("payments", proof.Spec(proof.SpecOptions{
		Parallelism: 4, Interval: d.opts.interval, AtLeastOnce: d.opts.atLeastOnce, State: d.opts.state,
	}))
	if err != nil {
		return err
	}
	d.term.printf("%4.0fs  starting the job %s", time.Since(begin).Seconds(), demoJob)
	if _, err := submit(ctx, d.client, p, demoJob, ""); err != nil {
		return err
	}
	d.watch = newJobWatch(d.client, demoJob, d.reader.Passed)
	return nil
}

// close ends everything that start started.
func (d *demo) close() error {
	d.term.settle()
	if d.reader != nil {
		d.reader.Close()
	}
	if d.client != nil {
		d.client.Close()
	}
	if d.stack != nil {
		return d.stack.Stop()
	}
	return nil
}

// run sends the workload, kills workers, shows how it goes and returns the verdict.
func (d *demo) run(ctx context.Context) (proof.Verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() { defer close(watching); d.watch.run(ctx) }()
	defer func() { cancel(); <-watching }()
	if err := d.awaitRunning(ctx); err != nil {
		return proof.Verdict{}, err
	}
	d.introduce()
	d.want = d.work.Expect()
	show, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() { defer close(shown); d.show(show) }()
	err := d.flow(ctx)
	if err == nil {
		err = d.settle(ctx)
	}
	stop()
	<-shown
	d.term.settle()
	if err != nil {
		return proof.Verdict{}, err
	}
	return d.reader.Verdict(d.want), nil
}

func (d *demo) awaitRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not within a minute"))
	defer cancel()
	return d.watch.await(ctx, "start", func(h heard) bool { return h.status.State == "running" })
}

// flow produces and kills.
func (d *demo) flow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return d.work.Produce(ctx, d.stack.Brokers, d.opts.rate, func(n int) { d.sent.Store(int64(n)) })
	})
	g.Go(func() error {
		rng := rand.New(rand.NewPCG(d.opts.seed, 1))
		k := &killer{stack: d.stack, rng: rng, ripe: d.ripe, say: d.term.printf}
		return k.run(ctx, strikes(rng, d.opts.kills, d.opts.length))
	})
	return g.Wait()
}

// ripe waits, in at-least-once mode, until records have come out that the newest checkpoint does not cover: a
// kill then makes them come again. Exactly once any moment is as good as another.
func (d *demo) ripe(ctx context.Context) error {
	if !d.opts.atLeastOnce {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, 2*d.opts.interval)
	defer cancel()
	_ = d.watch.await(limit, "records after a checkpoint", func(h heard) bool {
		return h.status.State == "running" && d.reader.Passed() > h.passedThen
	})
	return context.Cause(ctx)
}

// patience bounds how long the job may take to catch up when everything has been sent.
const patience = 2 * time.Minute

// settle waits until the output is complete, or patience ends, and then until nothing more comes.
func (d *demo) settle(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	complete, quiet := d.reader.Await, 2*time.Second+2*d.opts.interval
	if d.opts.atLeastOnce {
		complete, quiet = d.reader.AwaitArrival, 3*time.Second
	}
	if err := complete(limit, d.want); err != nil {
		if ctx.Err() == nil {
			d.term.printf("       the output is not complete after %s%s", patience, d.watch.why())
		}
		return context.Cause(ctx)
	}
	return d.reader.AwaitQuiet(ctx, quiet)
}
