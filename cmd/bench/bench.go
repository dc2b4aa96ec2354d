// Package bench measures what a bounded job costs: it runs it on a cluster of this machine and accounts for the
// CPU time and memory of every process that takes part.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/dataplane/plan"
	"github.com/weirstream/weir/workflows"
)

// Options say what is measured. Zero values mean the defaults.
type Options struct {
	// Plan is the job; it must be bounded.
	Plan *plan.Plan
	// Stack is the cluster, whose workers run nothing else. Beside are the processes that serve it.
	Stack  *local.Stack
	Beside []Process
	// Name is the job's name: the plan's.
	Name string
	// Profile and Allocs, if set, take a CPU profile and a profile of all allocations of the first worker, which
	// must serve profiles. The CPU profile ends after ProfileFor (20 s) at the latest.
	Profile, Allocs io.Writer
	ProfileFor      time.Duration
	// Progress is told in words how far the job is. Optional.
	Progress func(string)
}

// Result is what a run took.
type Result struct {
	Job string
	// Records are those that the sources read.
	Records int64
	// Wall is the time from the start of the workflow to its end.
	Wall time.Duration
	// Weir is the CPU time of all workers, Beside that of the others, in the order of Options.
	Weir   time.Duration
	Beside []ProcessTime
	// Allocations and AllocatedBytes are those of the workers, Collections their runs of the garbage collector.
	Allocations, AllocatedBytes, Collections int64
	// PeakBytes is the highest resident size of a worker so far.
	PeakBytes   int64
	Checkpoints []workflows.CheckpointView
}

// ProcessTime is the CPU time of a process.
type ProcessTime struct {
	Name string
	CPU  time.Duration
}

// Run runs the job to its end and returns what it took. The job must read everything that it is meant to: one that
// fails or restarts is an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Name == "" {
		o.Name = o.Plan.Job.Name
	}
	if o.ProfileFor == 0 {
		o.ProfileFor = 20 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	cl, err := o.Stack.Temporal.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	before, err := sample(ctx, o.Stack.Workers, o.Beside)
	if err != nil {
		return nil, err
	}
	wall, err := o.job(ctx, cl)
	if err != nil {
		return nil, err
	}
	after, err := sample(ctx, o.Stack.Workers, o.Beside)
	if err != nil {
		return nil, err
	}
	r := after.since(before, o.Beside)
	r.Job, r.Wall = o.Name, wall
	if o.Allocs != nil {
		if err := o.profile(ctx, "allocs", o.Allocs); err != nil {
			return nil, err
		}
	}
	return r, o.ask(ctx, cl, r)
}

// job starts the job and waits for its end.
func (o *Options) job(ctx context.Context, cl client.Client) (time.Duration, error) {
	start := time.Now()
	run, err := cl.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: o.Name, TaskQueue: activities.ControlQueue, StaticSummary: "benchmark " + o.Name,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, "StreamJob", json.RawMessage(o.Plan.Job.JSON()), workflows.StartOptions{})
	if err != nil {
		return 0, fmt.Errorf("start job %s: %w", o.Name, err)
	}
	watching, stop := context.WithCancel(ctx)
	var beside errgroup.Group
	beside.Go(func() error { o.watch(watching, start); return nil })
	if o.Profile != nil {
		beside.Go(func() error {
			return o.profile(ctx, fmt.Sprintf("profile?seconds=%.0f", o.ProfileFor.Seconds()), o.Profile)
		})
	}
	err = run.Get(ctx, nil)
	wall := time.Since(start)
	stop()
	if err != nil {
		return 0, fmt.Errorf("job %s: %w", o.Name, err)
	}
	return wall, beside.Wait()
}

// watch tells every second how far the workers are.
func (o *Options) watch(ctx context.Context, start time.Time) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		read, lag := int64(0), int64(0)
		for _, w := range o.Stack.Workers {
			figures, err := w.Figures(ctx)
			if err != nil {
				continue // a busy worker answers the next time
			}
			for _, a := range figures {
				for _, s := range a.Subtasks {
					if s.Source {
						read, lag = read+s.Records, lag+max(s.Lag, 0)
					}
				}
			}
		}
		if read > 0 {
			o.Progress(fmt.Sprintf("%5.1fs  %s records, %s to go", time.Since(start).Seconds(), grouped(read), grouped(lag)))
		}
	}
}

// profile copies a profile of the first worker.
func (o *Options) profile(ctx context.Context, what string, to io.Writer) error {
	return fetch(ctx, o.Stack.Workers[0].HTTP()+"/debug/pprof/"+what, to)
}

// ask completes r with what the job's workflow knows.
func (o *Options) ask(ctx context.Context, cl client.Client, r *Result) error {
	var st workflows.Status
	for _, q := range []struct {
		name string
		into any
	}{{workflows.QueryStatus, &st}, {workflows.QueryCheckpoints, &r.Checkpoints}} {
		v, err := cl.QueryWorkflow(ctx, o.Name, "", q.name)
		if err == nil {
			err = v.Get(q.into)
		}
		if err != nil {
			return fmt.Errorf("query %s of job %s: %w", q.name, o.Name, err)
		}
	}
	if st.Restarts > 0 {
		return fmt.Errorf("job %s was restarted %d times, which spoils the figures: %s", o.Name, st.Restarts, st.LastFailure)
	}
	r.Records = st.Records
	return nil
}
