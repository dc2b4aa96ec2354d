// Package cli holds the verbs of the weir command, a file each. It wires, others work.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// usageError is a mistake in the call, not a failure of the work.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Main runs one command line and returns the exit status: 0 success, 1 failure, 2 a mistake in the call.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	root := newRoot(streams{in, out, errOut})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(errOut, "weir: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Exactly-once stream processing over Kafka, with Temporal as the JobManager",
		Long: `Weir runs stateful streaming jobs: Kafka in, Kafka out, keyed state, event time, exactly once.
A job is a Temporal workflow; workers are processes that form a cluster.

  weir dev                      everything embedded, on this machine, to play with
  weir demo                     the proof: workers are killed, nothing is lost or doubled
  weir worker --join host:port  a worker of a real cluster
  weir job start payments.yaml  start a job`,
		SilenceUsage: true, SilenceErrors: true, Version: Version(),
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nsee: %s --help", err, c.CommandPath())}
	})
	group(root)
	root.AddCommand(devCommand(s), demoCommand(s), benchCommand(s), workerCommand(s), jobCommand(s), topicCommand(s), transactionCommand(s), settingsCommand(s))
	return root
}

// group makes a command that only has subcommands answer an unknown one as a mistake in the call, and none with
// its help.
func group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		msg := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			msg += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError{fmt.Errorf("%s\nsee: %s --help", msg, c.CommandPath())}
	}
}

// Version is the version that the binary was built as.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = "devel " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}

// exactly wraps cobra's check of the number of arguments as a mistake in the call.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s; see: %s --help", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}
