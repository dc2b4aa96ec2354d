package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/weirstream/weir/cmd/worker"
	"github.com/weirstream/weir/dataplane/failpoint"
)

func workerCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker of the cluster until SIGTERM",
		Long: `Run a worker: it joins the cluster, takes tasks of jobs on its slots, and works on the task queue weir.

Temporal's address, namespace, TLS and API key come from where the temporal CLI takes them: the
environment (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE, …) and its configuration file.
SIGTERM and Ctrl-C leave cleanly.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := loadSettings(c.Flags())
			if err != nil {
				return err
			}
			opts, err := temporalOptions()
			if err != nil {
				return err
			}
			armed, err := failpoint.Arm(os.Getenv)
			if err != nil {
				return usageError{err}
			}
			log := newLogger(s.err, set.Log)
			if armed {
				worker.FailAtCompletions(&opts)
				log.Warn("fail points are armed: this worker is in a crash test", "points", os.Getenv(failpoint.EnvPoints))
			}
			return worker.Run(c.Context(), worker.Config{
				Settings: set, Temporal: opts, Version: Version(), Log: log,
			})
		},
	}
	settingsFlags(c.Flags())
	return c
}

// temporalOptions are the client's options from Temporal's own environment configuration.
func temporalOptions() (client.Options, error) {
	opts, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return opts, usageError{fmt.Errorf("temporal configuration: %w", err)}
	}
	if opts.HostPort == "" {
		opts.HostPort = client.DefaultHostPort
	}
	if opts.Namespace == "" {
		opts.Namespace = client.DefaultNamespace
	}
	return opts, nil
}
