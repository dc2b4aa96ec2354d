package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/plan"
)

// devPartitions are those of a topic that does not say how many it has.
const devPartitions = 4

// devOptions are the flags of weir dev.
type devOptions struct {
	local.Options
	topics, params []string
}

func devCommand(s streams) *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use: "dev [JOB.yaml…]", Short: "Run a whole cluster on this machine, to play with",
		Long: `Run a Temporal development server, an in-process Kafka, an in-process S3 and worker processes on this
machine, until Ctrl-C. Nothing is kept. What dies is started again, as a service manager would do: kill -9 as
you like.

Jobs that are named are started; the Kafka topics that they read and write are created. Others are started as
on any cluster: weir job start, or temporal workflow start.`,
	}
	f := c.Flags()
	f.IntVar(&o.Workers, "workers", 3, "worker processes")
	f.IntVar(&o.Slots, "slots", 2, "slots of each")
	f.IntVar(&o.TemporalPort, "temporal-port", 7233, "port of Temporal; 0: any that is free")
	f.IntVar(&o.UIPort, "ui-port", 8233, "port of the Temporal UI; 0: any that is free")
	f.IntVar(&o.KafkaPort, "kafka-port", 9092, "port of Kafka; 0: any that is free")
	f.StringArrayVar(&o.topics, "topic", nil, "Kafka topic to create, name or name:partitions; may be repeated")
	f.StringVar(&o.Dir, "dir", "", "directory of logs and databases, which is kept (default: a temporary one)")
	params := paramFlag(c)
	c.RunE = func(c *cobra.Command, files []string) error {
		o.params = *params
		if o.Workers < 1 || o.Slots < 1 {
			return usageError{errors.New("--workers and --slots are at least 1")}
		}
		return runDev(c.Context(), s, o, files)
	}
	return c
}

func runDev(ctx context.Context, s streams, o devOptions, files []string) (err error) {
	topics, err := parseTopics(o.topics)
	if err != nil {
		return err
	}
	jobs := make([]*plan.Plan, len(files))
	for i, f := range files {
		if jobs[i], err = readSpec(s, f, o.params); err != nil {
			return err
		}
		addTopics(topics, jobs[i].Job)
	}
	end, err := logDir(&o.Dir, "weir-dev-")
	if err != nil {
		return err
	}
	defer func() { err = end(s, err) }()
	o.Progress = func(part string) { fmt.Fprintf(s.out, "starting %s\n", part) }
	stack, err := local.Start(ctx, o.Options)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	if err := createTopics(ctx, stack.Brokers, topics); err != nil {
		return err
	}
	if err := startJobs(ctx, s, stack, jobs); err != nil {
		return err
	}
	describeStack(s, stack, o)
	var keepers sync.WaitGroup
	keepers.Go(func() { keepAlive(ctx, s, "temporal", stack.Temporal) })
	for _, w := range stack.Workers {
		keepers.Go(func() { keepAlive(ctx, s, fmt.Sprintf("worker %d", w.Index), w) })
	}
	keepers.Wait() // until ctx ends
	fmt.Fprintln(s.out, "stopping")
	return nil
}

func startJobs(ctx context.Context, s streams, stack *local.Stack, jobs []*plan.Plan) error {
	if len(jobs) == 0 {
		return nil
	}
	cl, err := stack.Temporal.Dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, p := range jobs {
		if _, err := submit(ctx, cl, p, p.Job.Name, ""); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "started job %s\n", p.Job.Name)
	}
	return nil
}

func describeStack(s streams, stack *local.Stack, o devOptions) {
	fmt.Fprintf(s.out, `
Temporal  %[1]s, UI %[2]s
Kafka     %[3]s
storage   %[4]s, in memory
workers   %[5]d with %[6]d slots each; logs in %[7]s

  export TEMPORAL_ADDRESS=%[1]s KAFKA=%[3]s

Ctrl-C ends everything; nothing is kept.
`, stack.Temporal.Addr(), stack.Temporal.UI(), strings.Join(stack.Brokers, ","), stack.Storage, len(stack.Workers), o.Slots, o.Dir)
}

// child is a process of the stack.
type child interface {
	Ended() <-chan struct{}
	Start(ctx context.Context) error
	Log() string
}

// keepAlive starts a child again whenever it dies, until ctx ends.
func keepAlive(ctx context.Context, s streams, name string, c child) {
	for {
		select {
		case <-c.Ended():
		case <-ctx.Done():
			return
		}
		if err := wait(ctx, time.Second); err != nil {
			return
		}
		fmt.Fprintf(s.out, "%s has ended and is started again; its log: %s\n", name, c.Log())
		if err := c.Start(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(s.err, "%s: %v\n", name, err)
		}
	}
}

// parseTopics reads name or name:partitions.
func parseTopics(flags []string) (map[string]int32, error) {
	topics := map[string]int32{}
	for _, f := range flags {
		name, count, given := strings.Cut(f, ":")
		n := devPartitions
		if given {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 1 || n > 1000 {
				return nil, usageError{fmt.Errorf("--topic %s: write name or name:partitions", f)}
			}
		}
		if name == "" {
			return nil, usageError{fmt.Errorf("--topic %s: write name or name:partitions", f)}
		}
		topics[name] = int32(n)
	}
	return topics, nil
}

// addTopics adds the topics that a job reads and writes. One whose name cannot be known here is left to the job.
func addTopics(topics map[string]int32, j *config.Job) {
	add := func(r config.Ref) {
		name, err := r.Resolve()
		if _, ok := topics[name]; err == nil && !ok {
			topics[name] = devPartitions
		}
	}
	for i := range j.Sources {
		if k := j.Sources[i].Kafka; k != nil {
			add(k.Topic)
		}
	}
	for i := range j.Sinks {
		if k := j.Sinks[i].Kafka; k != nil {
			add(k.Topic)
		}
	}
}

// createTopics creates topics, and leaves those alone that exist.
func createTopics(ctx context.Context, brokers []string, topics map[string]int32) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("connect to Kafka at %s: %w", strings.Join(brokers, ","), err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for name, partitions := range topics {
		r, err := adm.CreateTopic(ctx, partitions, -1, nil, name)
		if err == nil {
			err = r.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	return nil
}
