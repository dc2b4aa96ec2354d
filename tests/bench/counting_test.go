package bench

import (
	"fmt"
	"time"
)

// counting is the job of most benchmarks: it counts by key, without windows, from one topic into another, with a row
// for every change. Its subtasks exchange the records by key.
type counting struct {
	name, in, out string
	delivery      string // of the sink
	interval      time.Duration
	parallelism   int // 2 if it is 0
	// more are further keys of the spec.
	more string
}

// spec is the job in YAML.
func (c counting) spec() string {
	return fmt.Sprintf(`
name: %s
parallelism: %d
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  events:
    kafka: {topic: %s}
    format: json
    schema: {k: string, made: bigint}
steps:
  count: {from: events, key_by: [k], aggregate: {n: count(*), made: max(made)}, ttl: none}
sinks:
  out: {from: count, upsert: [k], kafka: {topic: %s}, format: json, delivery: %s}
checkpoint: {interval: %s, timeout: 1m}
%s
`, c.name, max(c.parallelism, 2), c.in, c.out, c.delivery, c.interval, c.more)
}

// event is a record of its input: a key and when it was made, in µs.
func event(key string, made time.Time) []byte {
	return fmt.Appendf(nil, `{"k":%q,"made":%d}`, key, made.UnixMicro())
}
