package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/tests/real"
)

// badRecord is what the tests spoil a topic with: partition 1, offset 2.
const badRecord = `{"id":"seven","k":"k1"}`

func spoil(d day, topic string) {
	d.Helper()
	kafkatest.CreateTopic(d.T, d.Brokers, topic+"-in", 2)
	kafkatest.CreateTopic(d.T, d.Brokers, topic+"-out", 1)
	good := numbered(0, 10, 3)
	good[5] = badRecord
	produce(d.T, d.Brokers, topic+"-in", 2, good...)
}

// badRecordFails: the job restarts with back-off, saying which record stops it and why.
func badRecordFails(d day) {
	spoil(d, "spoiled")
	d.start(passThrough("spoiled", "restart: {backoff: {initial: 1s, max: 4s}}"))
	d.says("spoiled", 30*time.Second, "spoiled-in/1 offset 2", "type bigint", "2 restarts")
	d.cancel("spoiled")
}

// badRecordEnds: without restarts the workflow fails with the cause.
func badRecordEnds(d day) {
	spoil(d, "ended")
	d.start(passThrough("ended", "restart: none"))
	err := d.AwaitClosed("ended", 30*time.Second)
	d.Log(err)
	for _, want := range []string{"ended-in/1 offset 2", "type bigint", `"none"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			d.Errorf("the failure does not say %q: %v", want, err)
		}
	}
	d.idle()
	mustBeReadable(d.T, d.Brokers, "ended-out")
}

// badRecordSkipped: it is counted, the others pass, here at least once.
func badRecordSkipped(d day) {
	spoil(d, "skipped")
	spec := strings.NewReplacer("    format: {json: {timestamps", "    on_error: skip\n    format: {json: {timestamps",
		"skipped-out}", "skipped-out}, delivery: at_least_once", "500ms", "500ms, mode: at_least_once").Replace(passThrough("skipped", ""))
	d.start(spec)
	follow(d.T, d.Brokers, "skipped-out").await(9, 30*time.Second)
	metrics := ""
	for _, w := range d.Workers {
		_, body := real.Get(d.Ctx, w.HTTP()+"/metrics")
		metrics += body
	}
	if n := sumOf(metrics, `weir_skipped_total{job="skipped"[^}]*}`); n != 1 {
		d.Errorf("weir_skipped_total counts %d records, want 1", n)
	}
	d.cancel("skipped")
}

// badRecordDiverted: the record goes to the errors output as it was read.
func badRecordDiverted(d day) {
	spoil(d, "diverted")
	kafkatest.CreateTopic(d.T, d.Brokers, "diverted-dead", 1)
	spec := strings.Replace(passThrough("diverted", ""), "    format: {json: {timestamps: epoch_ms}}", "    on_error: divert\n    format: {json: {timestamps: epoch_ms}}", 1)
	spec = strings.Replace(spec, "sinks:\n", "sinks:\n  dead: {from: in.errors, kafka: {topic: diverted-dead}, format: json}\n", 1)
	d.start(spec)
	follow(d.T, d.Brokers, "diverted-out").await(9, 30*time.Second)
	dead := string(follow(d.T, d.Brokers, "diverted-dead").await(1, 30*time.Second)[0].Value)
	d.Log(dead)
	for _, want := range []string{"diverted-in", `"error":`} {
		if !strings.Contains(dead, want) {
			d.Errorf("the diverted record does not hold %s: %s", want, dead)
		}
	}
	d.cancel("diverted")
}

// sinksSpec uses the sources and sinks that the other tests do not. %q are the paths of its input and output.
const sinksSpec = `
name: sinks
parallelism: 2
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  lines:
    files: {path: %q}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, k: string, v: bigint, at: timestamp(3)}
  events: {nexmark: {events: 5000}}
steps:
  bid: {from: events, where: event_type = 2, select: [bid.auction, bid.price]}
  count: {from: lines, key_by: [k], aggregate: {n: count(*)}, ttl: none}
sinks:
  copy: {from: lines, files: {path: %q}, format: json}
  bids: {from: bid, kafka: {topic: sinks-bids}, format: json, delivery: at_least_once}
  counts: {from: count, upsert: [k], kafka: {topic: sinks-counts}, format: json}
  show: {from: count, print: {}}
checkpoint: {interval: 500ms}
`

// otherSinks: delivery at least once, upsert by key, files and print, fed by nexmark and files, end by themselves.
func otherSinks(d day) {
	dir := d.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(strings.Join(numbered(0, 300, 3), "\n")+"\n"), 0o600); err != nil {
		d.Fatal(err)
	}
	kafkatest.CreateTopic(d.T, d.Brokers, "sinks-bids", 2)
	kafkatest.CreateTopic(d.T, d.Brokers, "sinks-counts", 1)
	d.start(fmt.Sprintf(sinksSpec, in, out))
	if err := d.AwaitClosed("sinks", time.Minute); err != nil {
		d.Fatal(err)
	}
	follow(d.T, d.Brokers, "sinks-bids").exactly(4600) // 46 of 50 events are bids
	counts := follow(d.T, d.Brokers, "sinks-counts")
	counts.poll(1_000, 2*time.Second) // changes of waiting rows are folded: at least one a key
	latest := map[string]string{}
	for _, r := range counts.got {
		latest[string(r.Key)] = string(r.Value)
	}
	for _, k := range []string{"k0", "k1", "k2"} {
		if got, want := latest[fmt.Sprintf(`{"k":%q}`, k)], fmt.Sprintf(`{"k":%q,"n":100}`, k); got != want || len(latest) != 3 {
			d.Errorf("count of %s is %s, want %s; all: %v", k, got, want, latest)
		}
	}
	if n := d.committedLines(out); n != 300 {
		d.Errorf("%d lines in committed files, want 300", n)
	}
	if !strings.Contains(d.logs(), `{"k":"k0","n":100}`) {
		d.Error("the count of k0 was not printed")
	}
}

// committedLines counts the lines of a files sink that readers see.
func (d day) committedLines(dir string) (lines int) {
	d.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		d.Fatal(err)
	}
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			d.Fatal(err)
		}
		lines += strings.Count(string(b), "\n")
	}
	return lines
}
