package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirstream/weir/cmd/engine"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/connector/kafka"
	"github.com/weirstream/weir/dataplane/snapshot"
)

func transactionCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "transaction", Short: "See and end Weir's open Kafka transactions by hand",
		Long: `See and end Weir's open Kafka transactions by hand.

A job ends its transactions itself, also after a crash: with the next checkpoint, or when it is restored,
cancelled or terminated. By hand is for the day when it cannot: the job is gone for good, or must not run now,
and read-committed readers of its output wait for a transaction that it left open.`,
	}
	group(c)
	c.AddCommand(transactionList(s), transactionEnd(s, commitByHand), transactionEnd(s, abortByHand))
	return c
}

// system is where transactions are looked for: Kafka clusters, and the snapshot store that says what is
// promised.
type system struct {
	clusters []*kafka.Committer
	// store is nil when none is named.
	store snapshot.Store
}

// askWithin bounds what a command asks of clusters and store.
const askWithin = time.Minute

// systemFlags registers the flags that name a system, and returns what opens it.
func systemFlags(s streams, c *cobra.Command) func(ctx context.Context) (*system, error) {
	fs := c.Flags()
	spec := fs.String("spec", "", "job spec whose sinks' clusters and checkpoint.storage are meant (instead of --brokers); - is standard input")
	params := paramFlag(c)
	brokers := brokersFlag(fs)
	storageFlags(fs)
	return func(ctx context.Context) (*system, error) {
		set, err := loadSettings(fs)
		if err != nil {
			return nil, err
		}
		at := set.Storage
		conns := []kafka.ConnConfig{{Brokers: brokers()}}
		if *spec != "" {
			if fs.Changed("brokers") {
				return nil, usageError{errors.New("give --spec or --brokers, not both")}
			}
			p, err := readSpec(s, *spec, *params)
			if err != nil {
				return nil, err
			}
			if conns, err = engine.SinkClusters(p.Job); err != nil {
				return nil, err
			}
			if len(conns) == 0 {
				return nil, fmt.Errorf("%s: no sink writes to Kafka", *spec)
			}
			if p.Job.Checkpoint.Storage != "" && !fs.Changed("storage") {
				at = p.Job.Checkpoint.Storage
			}
		}
		return openSystem(ctx, conns, at, set.S3)
	}
}

// storageFlags registers the settings of a worker that say where snapshots are.
func storageFlags(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	settingsFlags(all)
	for _, name := range []string{"config", "storage", "s3-endpoint", "s3-region", "s3-path-style"} {
		fs.AddFlag(all.Lookup(name))
	}
}

func openSystem(ctx context.Context, conns []kafka.ConnConfig, at string, s3 config.S3Settings) (_ *system, err error) {
	sys := &system{}
	defer func() {
		if err != nil {
			sys.close()
		}
	}()
	for _, conn := range conns {
		c, err := kafka.NewCommitter(conn, "")
		if err != nil {
			return nil, err
		}
		sys.clusters = append(sys.clusters, c)
	}
	if at != "" {
		if sys.store, err = (&engine.Stores{S3: s3}).Open(ctx, at); err != nil {
			return nil, err
		}
	}
	return sys, nil
}

func (s *system) close() {
	for _, c := range s.clusters {
		c.Close()
	}
}

// found is an open transaction with where it is and what the store says of it.
type found struct {
	kafka.Held
	cluster *kafka.Committer
	promise promise
}

// find lists the open transactions of all clusters, those that block readers first.
func (s *system) find(ctx context.Context) (all []found, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, c := range s.clusters {
		held, err := c.Held(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range held {
			all = append(all, found{Held: h, cluster: c})
		}
	}
	return all, s.promises(ctx, all)
}

// fromEnvironment says where the brokers came from, for a message.
func fromEnvironment(c *cobra.Command) string {
	switch {
	case c.Flags().Changed("spec"):
		return "the clusters of the spec's sinks"
	case c.Flags().Changed("brokers"):
		return "the brokers given"
	case os.Getenv("KAFKA") != "":
		return "the brokers of the environment variable KAFKA"
	}
	return "127.0.0.1:9092"
}
