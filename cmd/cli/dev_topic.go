package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicCommand are the few things with topics that one needs to try a job: tools of Kafka do more.
func topicCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "topic", Short: "Create, write and read Kafka topics, to try a job",
		Long: "Create, write and read Kafka topics, to try a job. Without TLS and SASL; Kafka's own tools do more.",
	}
	group(c)
	c.AddCommand(topicCreate(), topicWrite(s), topicRead(s))
	return c
}

// brokersFlag is the bootstrap addresses: --brokers, KAFKA, or the standard port.
func brokersFlag(f *pflag.FlagSet) func() []string {
	v := f.StringSlice("brokers", nil, "bootstrap brokers (default: the environment variable KAFKA, else 127.0.0.1:9092)")
	return func() []string {
		switch {
		case len(*v) > 0:
			return *v
		case os.Getenv("KAFKA") != "":
			return strings.Split(os.Getenv("KAFKA"), ",")
		}
		return []string{"127.0.0.1:9092"}
	}
}

func topicCreate() *cobra.Command {
	c := &cobra.Command{Use: "create NAME[:PARTITIONS]…", Short: "Create topics; those that exist are left alone"}
	brokers := brokersFlag(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		topics, err := parseTopics(args)
		if err != nil {
			return err
		}
		if len(topics) == 0 {
			return usageError{errors.New("weir topic create takes names of topics")}
		}
		ctx, cancel := context.WithTimeout(c.Context(), 15*time.Second)
		defer cancel()
		return createTopics(ctx, brokers(), topics)
	}
	return c
}

func topicWrite(s streams) *cobra.Command {
	c := &cobra.Command{Use: "write TOPIC", Short: "Write the lines of standard input as records", Args: exactly(1, "one topic")}
	brokers := brokersFlag(c.Flags())
	key := c.Flags().String("key", "", "field of the JSON in a line that becomes the record's key")
	c.RunE = func(c *cobra.Command, args []string) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(brokers()...), kgo.DefaultProduceTopic(args[0]), kgo.RecordDeliveryTimeout(15*time.Second))
		if err != nil {
			return err
		}
		defer cl.Close()
		n, err := writeLines(c.Context(), s, cl, *key)
		if err != nil {
			return fmt.Errorf("write topic %s after %d records: %w", args[0], n, err)
		}
		fmt.Fprintf(s.err, "wrote %d records\n", n)
		return nil
	}
	return c
}

func writeLines(ctx context.Context, s streams, cl *kgo.Client, key string) (n int, err error) {
	var failed kgo.FirstErrPromise
	lines := bufio.NewScanner(s.in)
	lines.Buffer(nil, 1<<20)
	for ; lines.Scan(); n++ {
		rec := &kgo.Record{Value: []byte(lines.Text())}
		if key != "" {
			if rec.Key, err = fieldOf(rec.Value, key); err != nil {
				return n, err
			}
		}
		cl.Produce(ctx, rec, failed.Promise())
	}
	return n, errors.Join(lines.Err(), failed.Err())
}

// fieldOf is a field of a JSON object as a record's key: text without its quotes, else as it is written.
func fieldOf(value []byte, name string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return nil, fmt.Errorf("line %q: %w", value, err)
	}
	raw, ok := fields[name]
	if !ok {
		return nil, fmt.Errorf("line %q has no field %q", value, name)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text), nil
	}
	return raw, nil
}

func topicRead(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "read TOPIC", Short: "Print the values of a topic's records, read-committed", Args: exactly(1, "one topic"),
		Long: "Print the values of a topic's records from the beginning, read-committed, until nothing has come for a while or Ctrl-C.",
	}
	brokers := brokersFlag(c.Flags())
	follow := c.Flags().Bool("follow", false, "go on until Ctrl-C")
	idle := c.Flags().Duration("idle", 3*time.Second, "end after this time without a record")
	c.RunE = func(c *cobra.Command, args []string) error {
		cl, err := kgo.NewClient(
			kgo.SeedBrokers(brokers()...), kgo.ConsumeTopics(args[0]), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		)
		if err != nil {
			return err
		}
		defer cl.Close()
		if *follow {
			*idle = 0
		}
		return readValues(c.Context(), s, cl, *idle)
	}
	return c
}

// readValues prints values until ctx ends, or idle passes without one if it is not 0.
func readValues(ctx context.Context, s streams, cl *kgo.Client, idle time.Duration) error {
	for {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if idle > 0 {
			poll, cancel = context.WithTimeout(ctx, idle)
		}
		f := cl.PollFetches(poll)
		ended := poll.Err() != nil
		cancel()
		f.EachRecord(func(r *kgo.Record) { fmt.Fprintf(s.out, "%s\n", r.Value) })
		if ended && f.NumRecords() == 0 {
			return nil
		}
		for _, e := range f.Errors() {
			if poll.Err() == nil || !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
				return fmt.Errorf("read topic %s partition %d: %w", e.Topic, e.Partition, e.Err)
			}
		}
	}
}
