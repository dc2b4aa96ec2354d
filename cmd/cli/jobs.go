package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/plan"
	"github.com/weirstream/weir/workflows"
)

// connect dials Temporal, saying within seconds what is wrong.
func connect(ctx context.Context) (client.Client, client.Options, error) {
	opts, err := temporalOptions()
	if err != nil {
		return nil, opts, err
	}
	opts.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, opts)
	if err != nil {
		return nil, opts, fmt.Errorf("cannot reach Temporal at %s (set TEMPORAL_ADDRESS): %w", opts.HostPort, err)
	}
	return c, opts, nil
}

func startCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "start FILE", Short: "Check a job spec and start it as a workflow", Args: exactly(1, "one file"),
		Long: `Check a job spec and start it. The workflow id, which is the job's name, is the spec's name unless --name is given.
A name whose last run left checkpoints and did not finish is refused unless --from says what to do with them.`,
	}
	params := paramFlag(c)
	name := c.Flags().String("name", "", "name of the job: the workflow's id (default: the spec's name)")
	from := c.Flags().String("from", "", "latest: go on from the newest checkpoint of this name; fresh: leave them and begin again")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *from != "" && *from != activities.FromLatest && *from != activities.FromFresh {
			return usageError{fmt.Errorf("--from %s: write latest or fresh", *from)}
		}
		p, err := readSpec(s, args[0], *params)
		if err != nil {
			return err
		}
		for _, w := range p.Warnings {
			fmt.Fprintln(s.err, w)
		}
		if *name == "" {
			*name = p.Job.Name
		}
		cl, _, err := connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		run, err := submit(c.Context(), cl, p, *name, *from)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "started %s (run %s)\nsee: weir job status %s\n", *name, run.GetRunID(), *name)
		return nil
	}
	return c
}

// taskTimeout is how long a decision of a job may take. When the process that makes it freezes, the job waits for
// that long; the server's default is twice it.
const taskTimeout = 5 * time.Second

// submit starts a planned job as the workflow name. from is an activities.From… word, or empty.
func submit(ctx context.Context, cl client.Client, p *plan.Plan, name, from string) (client.WorkflowRun, error) {
	run, err := cl.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: name, TaskQueue: activities.ControlQueue, StaticSummary: "Weir job " + p.Job.Name,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowTaskTimeout:                      taskTimeout,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}, "StreamJob", json.RawMessage(p.Job.JSON()), workflows.StartOptions{From: from})
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &running) {
		return nil, fmt.Errorf("job %s is running already; see: weir job status %s", name, name)
	}
	if err != nil {
		return nil, fmt.Errorf("start job %s: %w", name, err)
	}
	return run, nil
}

func listCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the jobs", Args: exactly(0, "no arguments")}
	all := c.Flags().Bool("all", false, "also those that have ended")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cl, opts, err := connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		query := `WorkflowType = "StreamJob"`
		if !*all {
			query += ` and ExecutionStatus = "Running"`
		}
		return listJobs(c.Context(), s.out, cl, opts.Namespace, query)
	}
	return c
}

func listJobs(ctx context.Context, out io.Writer, cl client.Client, namespace, query string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tSTATUS\tSTARTED\tENDED")
	var page []byte
	for {
		r, err := cl.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace, Query: query, NextPageToken: page})
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		for _, e := range r.Executions {
			if e.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Execution.WorkflowId, statusWord(e), timeOf(e.StartTime.AsTime()), closedAt(e))
		}
		if page = r.NextPageToken; len(page) == 0 {
			return w.Flush()
		}
	}
}

func statusWord(e *workflowpb.WorkflowExecutionInfo) string {
	return strings.ToLower(e.Status.String())
}

func closedAt(e *workflowpb.WorkflowExecutionInfo) string {
	if e.CloseTime == nil {
		return ""
	}
	return timeOf(e.CloseTime.AsTime())
}

func timeOf(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func statusCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "status JOB", Short: "Show a job and its recent checkpoints", Args: exactly(1, "one job")}
	asJSON := c.Flags().Bool("json", false, "print the answer as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		cl, _, err := connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		var st workflows.Status
		if err := query(c.Context(), cl, args[0], workflows.QueryStatus, &st); err != nil {
			return err
		}
		if *asJSON {
			e := json.NewEncoder(s.out)
			e.SetIndent("", "  ")
			return e.Encode(st)
		}
		var cps []workflows.CheckpointView
		if err := query(c.Context(), cl, args[0], workflows.QueryCheckpoints, &cps); err != nil {
			return err
		}
		return printStatus(s.out, st, cps)
	}
	return c
}

// query asks a job's workflow, which needs a living worker to answer.
func query(ctx context.Context, cl client.Client, name, what string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, err := cl.QueryWorkflow(ctx, name, "", what)
	var absent *serviceerror.NotFound
	switch {
	case errors.As(err, &absent):
		return fmt.Errorf("no job %s; see: weir job list --all", name)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("job %s does not answer: is any worker running?", name)
	case err != nil:
		return fmt.Errorf("query %s of job %s: %w", what, name, err)
	}
	return v.Get(into)
}

func printStatus(out io.Writer, st workflows.Status, cps []workflows.CheckpointView) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(k, format string, args ...any) {
		if v := fmt.Sprintf(format, args...); v != "" {
			fmt.Fprintf(w, "%s\t%s\n", k, v)
		}
	}
	row("job", "%s", st.Job)
	row("state", "%s", st.State)
	row("waiting for", "%s", st.WaitingFor)
	row("what", "%s", st.Summary)
	if st.Attempt > 0 {
		row("attempt", "%d on %s, %s", st.Attempt, plural(len(st.Nodes), "node"), plural(st.Restarts, "restart"))
	}
	row("last failure", "%s", st.LastFailure)
	if st.Succeeded+st.Failed > 0 {
		row("checkpoint", "%d %s, %d succeeded, %d failed", st.Durable, st.DurableAt, st.Succeeded, st.Failed)
	}
	row("records", "%d read, %d to go", st.Records, st.Lag)
	row("storage", "%s", st.Storage)
	for _, warn := range st.Warnings {
		row("warning", "%s", warn)
	}
	if len(cps) > 0 {
		fmt.Fprintln(w, "\nCHECKPOINT\tRESULT\tAT\tTOOK\tSTATE\tUPLOADED\tRECORDS\tREASON")
	}
	for _, c := range cps {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", c.ID, c.Result, c.At, c.Took, c.State, c.Uploaded, c.Records, c.Reason)
	}
	return w.Flush()
}

func cancelCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "cancel JOB", Short: "Stop a job cleanly; its checkpoints stay", Args: exactly(1, "one job"),
		Long: "Stop a job cleanly: its tasks end, its open transactions are aborted, its checkpoints stay. Same as: temporal workflow cancel.",
	}
	wait := c.Flags().Bool("wait", true, "wait until it has ended")
	c.RunE = func(c *cobra.Command, args []string) error {
		cl, _, err := connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		err = cl.CancelWorkflow(c.Context(), args[0], "")
		var absent *serviceerror.NotFound
		if errors.As(err, &absent) {
			return fmt.Errorf("no running job %s; see: weir job list --all", args[0])
		}
		if err != nil {
			return fmt.Errorf("cancel job %s: %w", args[0], err)
		}
		if !*wait {
			fmt.Fprintf(s.out, "asked %s to stop\n", args[0])
			return nil
		}
		if err := cl.GetWorkflow(c.Context(), args[0], "").Get(c.Context(), nil); c.Context().Err() != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s has ended\n", args[0])
		return nil
	}
	return c
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
