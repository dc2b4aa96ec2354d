// Command kafka runs a real Apache Kafka broker to measure with, until Ctrl-C:
//
//	go run ./tests/bench/kafka [DIRECTORY]
//
// It prints the arguments with which weir bench uses it. The directory keeps topics from run to run; without one
// they are gone in the end. It needs java, and Maven the first time.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var dir string
	if len(args) > 0 {
		dir = args[0]
	} else {
		tmp, err := os.MkdirTemp("", "weir-kafka-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(tmp) }() // what stays behind lies in the temporary directory
		dir = tmp
	}
	b, err := kafkatest.Start(ctx, kafkatest.Options{Dir: dir, Heap: "1g"})
	if err != nil {
		return err
	}
	defer b.Stop()
	fmt.Printf("--brokers %s --beside kafka=%d\n", b.Addr(), b.Pid())
	<-ctx.Done()
	return nil
}
