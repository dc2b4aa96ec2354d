package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/cmd/bench"
	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/dataplane/plan"
)

// benchOptions are the flags of weir bench.
type benchOptions struct {
	brokers         []string
	beside          []string
	params          []string
	fill, topic     string
	events          int64
	partitions      int32
	rate            float64
	workers, slots  int
	runs            int
	profile, allocs string
	profileFor      time.Duration
	dir             string
	env             []string
}

func benchCommand(s streams) *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use: "bench SPEC.yaml", Short: "Run a bounded job and say what it costs: records a second, CPU a record, allocations",
		Args: exactly(1, "one spec"),
		Long: `Run a bounded job on a cluster that is started for it on this machine (a Temporal development server, an S3
server, one worker process) and print what it took: records a second; CPU time a record, of Weir's own processes
and beside it of Temporal, the S3 server and Kafka; allocations; checkpoints. Linux only.

Kafka is the one at --brokers, whose topics should be on this machine's disks, warm, and not written to
meanwhile; --beside kafka=PID accounts for its process. Without brokers Kafka is embedded: good for trying a
spec out, but it is no Kafka to measure with. The S3 server is versitygw if it is installed, else embedded.

  weir bench --brokers 127.0.0.1:9092 --fill nexmark --events 10000000 tests/bench/q0.yaml
  weir bench --brokers 127.0.0.1:9092 --beside kafka=4711 --runs 3 --profile cpu.out tests/bench/q0.yaml

The last line of a run is for scripts: weir JOB records=… wall=… cpu=… (seconds).`,
	}
	f := c.Flags()
	f.StringSliceVar(&o.brokers, "brokers", nil, "bootstrap brokers (default: the environment variable KAFKA, else embedded)")
	f.StringArrayVar(&o.beside, "beside", nil, "process whose CPU time is shown too, NAME=PID; may be repeated")
	f.StringVar(&o.fill, "fill", "", "make the input first, in place of what the topic holds: nexmark")
	f.StringVar(&o.topic, "topic", "nexmark", "topic that --fill writes")
	f.Int64Var(&o.events, "events", 1_000_000, "events of --fill")
	f.Int32Var(&o.partitions, "partitions", 2, "partitions of --fill, and of output topics that do not exist")
	f.Float64Var(&o.rate, "rate", 10_000, "events of --fill a second of event time")
	f.IntVar(&o.workers, "workers", 1, "worker processes")
	f.IntVar(&o.slots, "slots", 2, "slots of each")
	f.IntVar(&o.runs, "runs", 1, "times that the job is run, each from the beginning")
	f.StringVar(&o.profile, "profile", "", "file for a CPU profile of the last run's first worker")
	f.DurationVar(&o.profileFor, "profile-for", 20*time.Second, "longest time that --profile takes")
	f.StringVar(&o.allocs, "allocs", "", "file for a profile of the first worker's allocations in all runs")
	f.StringArrayVar(&o.env, "env", nil, "environment variable for the workers, NAME=VALUE; may be repeated")
	f.StringVar(&o.dir, "dir", "", "directory of logs and databases, which is kept (default: a temporary one)")
	params := paramFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		o.params = *params
		if len(o.brokers) == 0 && os.Getenv("KAFKA") != "" {
			o.brokers = strings.Split(os.Getenv("KAFKA"), ",")
		}
		if err := o.check(); err != nil {
			return usageError{err}
		}
		p, err := readSpec(s, args[0], o.params)
		if err != nil {
			return err
		}
		if !p.Job.Bounded() {
			return usageError{fmt.Errorf("%s never ends; give its sources an end (bounded: latest)", args[0])}
		}
		return runBench(c.Context(), s, o, p)
	}
	return c
}

func (o *benchOptions) check() error {
	switch {
	case o.workers < 1 || o.slots < 1 || o.runs < 1:
		return errors.New("--workers, --slots and --runs are at least 1")
	case o.fill != "" && o.fill != "nexmark":
		return fmt.Errorf("--fill %s: nexmark is all there is", o.fill)
	case o.events < 1 || o.partitions < 1 || !(o.rate > 0):
		return errors.New("--events, --partitions and --rate are more than 0")
	}
	_, err := o.processes()
	return err
}

// processes reads --beside.
func (o *benchOptions) processes() (ps []bench.Process, err error) {
	for _, b := range o.beside {
		name, pid, _ := strings.Cut(b, "=")
		n, err := strconv.Atoi(pid)
		if err != nil || name == "" || n < 1 {
			return nil, fmt.Errorf("--beside %s: write NAME=PID", b)
		}
		ps = append(ps, bench.Process{Name: name, Pid: n})
	}
	return ps, nil
}

func runBench(ctx context.Context, s streams, o benchOptions, p *plan.Plan) (err error) {
	dir, drop, err := workDir(o.dir, "weir-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = drop()
		} else {
			fmt.Fprintf(s.err, "logs: %s\n", dir)
		}
	}()
	progress := func(text string) { fmt.Fprintln(s.err, text) }
	stack, beside, stop, err := o.start(ctx, dir, progress)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := o.prepare(ctx, stack, p, progress); err != nil {
		return interrupted(ctx, err)
	}
	for i := range o.runs {
		if err := o.run(ctx, s, bench.Options{
			Plan: p, Stack: stack, Beside: beside, Name: fmt.Sprintf("%s-%d", p.Job.Name, i+1), Progress: progress, ProfileFor: o.profileFor,
		}, i == o.runs-1); err != nil {
			return interrupted(ctx, err)
		}
	}
	return nil
}

// start starts the cluster. stop ends what was started, on an error too.
func (o *benchOptions) start(ctx context.Context, dir string, progress func(string)) (_ *local.Stack, beside []bench.Process, stop func() error, err error) {
	opts := local.Options{
		Dir: dir, Workers: o.workers, Slots: o.slots, Brokers: o.brokers, Env: o.env,
		Progress: func(part string) { progress("starting " + part) },
	}
	stop = func() error { return nil }
	if o.profile != "" || o.allocs != "" {
		opts.Env = append(opts.Env, "WEIR_HTTP_PPROF=true")
	}
	if beside, err = o.processes(); err != nil {
		return nil, nil, stop, err
	}
	gateway, err := local.StartGateway(ctx, dir)
	switch {
	case errors.Is(err, local.ErrNoGateway):
		progress("S3 is embedded: " + err.Error())
	case err != nil:
		return nil, nil, stop, err
	default:
		opts.Storage, opts.S3Endpoint = "s3://"+local.Bucket+"/jobs", gateway.Endpoint()
		opts.Env = append(opts.Env, gateway.Env()...)
		beside = append(beside, bench.Process{Name: "S3", Pid: gateway.Pid()})
		stop = func() error { gateway.Stop(); return nil }
	}
	stack, err := local.Start(ctx, opts)
	if err != nil {
		return nil, nil, stop, err
	}
	beside = append(beside, bench.Process{Name: "Temporal", Pid: stack.Temporal.Pid()})
	if len(o.brokers) == 0 || gateway == nil {
		beside = append(beside, bench.Process{Name: "this process, with what is embedded", Pid: os.Getpid()})
	}
	stopGateway := stop
	return stack, beside, func() error { return errors.Join(stack.Stop(), stopGateway()) }, nil
}

// prepare makes the input and the topics.
func (o *benchOptions) prepare(ctx context.Context, stack *local.Stack, p *plan.Plan, progress func(string)) error {
	if o.fill != "" {
		fill := bench.Fill{
			Brokers: stack.Brokers, Topic: o.topic, Partitions: o.partitions, Events: o.events, Rate: o.rate, Progress: progress,
		}
		if err := fill.Nexmark(ctx); err != nil {
			return err
		}
	}
	topics := map[string]int32{}
	addTopics(topics, p.Job)
	for name := range topics {
		topics[name] = o.partitions
	}
	return createTopics(ctx, stack.Brokers, topics)
}

// run measures once. Only the last run is profiled.
func (o *benchOptions) run(ctx context.Context, s streams, b bench.Options, last bool) (err error) {
	for _, f := range []struct {
		name string
		to   *io.Writer
	}{{o.profile, &b.Profile}, {o.allocs, &b.Allocs}} {
		if f.name == "" || !last {
			continue
		}
		file, err := os.Create(f.name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		*f.to = file
	}
	r, err := bench.Run(ctx, b)
	if err != nil {
		return err
	}
	return r.Write(s.out)
}
