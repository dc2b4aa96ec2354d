// Package weir is the public face of Weir, a streaming platform: exactly-once, event-at-a-time, stateful
// stream processing over Kafka, whose JobManager is a durable Temporal workflow.
//
// Most people use the weir command (cmd/weir). Whoever builds a binary of their own calls Main from it.
package weir

import (
	"os"

	"github.com/weirstream/weir/cmd/cli"
)

// Main runs the weir command with the process's arguments and exits with its status: 0 success, 1 a
// failure, 2 a mistake in the call.
func Main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
