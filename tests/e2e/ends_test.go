package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/tests/real"
)

// boundedSpec reads what is in a topic when it starts, passes it through and sums v by k in windows of ten seconds.
const boundedSpec = `
name: bounded
parallelism: 3
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  in:
    kafka: {topic: bounded-in, bounded: latest}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, k: string, v: bigint, at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 5s}
steps:
  windows: {from: in, key_by: [k], window: {tumble: 10s}, aggregate: {n: count(*), total: sum(v)}}
sinks:
  out: {from: in, kafka: {topic: bounded-out}, format: json}
  sums: {from: windows, kafka: {topic: bounded-sums}, format: json}
checkpoint: {interval: 500ms}
restart: {fixed: {delay: 100ms, attempts: 5}}
`

// boundedJob is a job over the first records of a topic, which ends by itself: every record once, every window
// once, also when a worker dies in the middle and when more records have been written since.
func boundedJob(d day) {
	const n, parts = 20_000, 4
	kafkatest.CreateTopic(d.T, d.Brokers, "bounded-in", parts)
	kafkatest.CreateTopic(d.T, d.Brokers, "bounded-out", 2)
	kafkatest.CreateTopic(d.T, d.Brokers, "bounded-sums", 2)
	produce(d.T, d.Brokers, "bounded-in", parts, numbered(0, n, 10)...)
	d.start(boundedSpec)
	d.AwaitState("bounded", "running", 30*time.Second)
	produce(d.T, d.Brokers, "bounded-in", parts, numbered(n, 1000, 10)...) // after its end
	d.KillAndRestart(d.Workers[1])
	if err := d.AwaitClosed("bounded", time.Minute); err != nil {
		d.Fatal(err)
	}
	described := d.CLI("workflow", "describe", "--workflow-id", "bounded")
	for _, want := range []string{"COMPLETED", `"latest_checkpoint":`, fmt.Sprintf(`"records":%d`, n)} {
		if !strings.Contains(described, want) {
			d.Errorf("temporal workflow describe does not say %s:\n%s", want, described)
		}
	}
	d.idle()
	d.restful("bounded")
	d.once("bounded", n)
	sums := map[string]bool{}
	for _, v := range values(follow(d.T, d.Brokers, "bounded-sums").exactly(n)) { // a record a key and window
		sums[v] = true
	}
	if len(sums) != n {
		d.Errorf("%d different windows, want %d: some came twice", len(sums), n)
	}
}

// cancelled: temporal workflow cancel ends a job cleanly.
func cancelled(d day) {
	name := d.flowing("stopped")
	if len(d.dirs(name)) == 0 {
		d.Error("the job has no local state while it runs")
	}
	began := time.Now()
	d.CLI("workflow", "cancel", "--workflow-id", name)
	err := d.AwaitClosed(name, 30*time.Second)
	if !temporal.IsCanceledError(err) {
		d.Errorf("the workflow ended with %v, want cancelled", err)
	}
	d.Logf("cancelled after %s", time.Since(began).Round(10*time.Millisecond))
	d.idle()
	d.restful(name)
	d.says(name, 10*time.Second, "cancelled")
}

// restful fails unless nothing of an ended job is left: no open transaction, no local state.
func (d day) restful(name string) {
	d.Helper()
	if open := d.OpenTransactions(); len(open) > 0 {
		d.Errorf("transactions are open after the job's end: %v", open)
	}
	mustBeReadable(d.T, d.Brokers, name+"-out")
	if left := d.dirs(name); len(left) > 0 {
		d.Errorf("local state is left: %v", left)
	}
}

// dirs lists the local directories of a job's attempts.
func (d day) dirs(name string) (dirs []string) {
	d.Helper()
	st, err := d.Cluster.Status(name)
	if err != nil {
		d.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(d.Dir, "data"), func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.Contains(e.Name(), string(st.UID)) {
			dirs = append(dirs, path)
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return dirs
}

// flowing starts a job that passes records through and sums them, and returns when its first output is
// committed. It is fed 1000 records.
func (d day) flowing(name string) string {
	d.Helper()
	kafkatest.CreateTopic(d.T, d.Brokers, name+"-in", 3)
	kafkatest.CreateTopic(d.T, d.Brokers, name+"-out", 2)
	d.start(flowSpec(name))
	produce(d.T, d.Brokers, name+"-in", 3, numbered(0, 1000, 10)...)
	follow(d.T, d.Brokers, name+"-out").await(1000, 60*time.Second)
	return name
}

func flowSpec(name string) string {
	return fmt.Sprintf(`
name: %[1]s
parallelism: 3
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  in:
    kafka: {topic: %[1]s-in}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, k: string, v: bigint, at: timestamp(3)}
steps:
  totals: {from: in, key_by: [k], aggregate: {n: count(*), total: sum(v)}, ttl: none}
sinks:
  out: {from: in, kafka: {topic: %[1]s-out}, format: json}
  sum: {from: totals, discard: {}}
checkpoint: {interval: 500ms}
`, name)
}

// once fails unless the output is each of the records 0…n-1 exactly once.
func (d day) once(name string, n int) {
	d.Helper()
	seen := make([]int, n)
	for _, r := range follow(d.T, d.Brokers, name+"-out").exactly(n) {
		var row struct{ ID int }
		if err := json.Unmarshal(r.Value, &row); err != nil || row.ID < 0 || row.ID >= n {
			d.Fatalf("output %s is none of %d records: %v", r.Value, n, err)
		}
		seen[row.ID]++
	}
	if i := slices.IndexFunc(seen, func(c int) bool { return c != 1 }); i >= 0 {
		d.Errorf("record %d came %d times", i, seen[i])
	}
}

// terminated: behind a StreamJob that was terminated its Attempt cleans up; the name is not started again by
// mistake, goes on from its latest checkpoint, and begins again when asked to.
func terminated(d day) {
	name := d.flowing("felled")
	began := time.Now()
	d.CLI("workflow", "terminate", "--workflow-id", name, "--reason", "a bad day")
	d.Cluster.Await("its tasks stop", 30*time.Second, func() bool {
		for _, w := range d.Workers {
			if f, err := w.Figures(d.Ctx); err != nil || len(f) > 0 {
				return false
			}
		}
		return true
	})
	d.Logf("stopped after %s", time.Since(began).Round(10*time.Millisecond))
	d.Cluster.Await("no transaction is open", 30*time.Second, func() bool { return len(d.OpenTransactions()) == 0 })
	d.Cluster.Await("no workflow of it runs", 30*time.Second, func() bool {
		return !strings.Contains(d.CLI("workflow", "list", "--query", `ExecutionStatus = "Running"`), name)
	})
	mustBeReadable(d.T, d.Brokers, name+"-out")
	d.again(name)
}

// again starts the name of a job that was terminated with 1000 records done.
func (d day) again(name string) {
	d.Helper()
	spec := flowSpec(name)
	d.start(spec)
	err := d.AwaitClosed(name, 20*time.Second)
	d.Logf("again: %v", err)
	for _, want := range []string{"unfinished run", `"latest"`, `"fresh"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			d.Errorf("starting the name again: %v; want %q", err, want)
		}
	}

	d.start(spec, "--from", "latest")
	produce(d.T, d.Brokers, name+"-in", 3, numbered(1000, 500, 10)...)
	follow(d.T, d.Brokers, name+"-out").await(1500, 30*time.Second)
	d.cancel(name)
	d.once(name, 1500)

	d.start(spec, "--from", "fresh")
	follow(d.T, d.Brokers, name+"-out").await(3000, 30*time.Second) // all of the input, again
	d.cancel(name)
	d.restful(name)
}

// leaving: a worker that gets SIGTERM leaves within ten seconds with exit status 0, and its jobs go on elsewhere.
func leaving(d day) {
	p := d.StartProcess(real.ProcessOptions{Name: "leaving", Slots: 4}) // most slots: it is used
	d.Cluster.Await("it is ready", 30*time.Second, func() bool { code, _ := real.Get(d.Ctx, p.HTTP()+"/readyz"); return code == 200 })
	d.Cluster.Await("every worker knows it", 30*time.Second, func() bool {
		for _, w := range d.Workers {
			if _, members := real.Get(d.Ctx, w.HTTP()+"/members"); !strings.Contains(members, strings.TrimPrefix(p.HTTP(), "http://")) {
				return false
			}
		}
		return true
	})
	name := d.flowing("moving")
	_, body := real.Get(d.Ctx, p.HTTP()+"/attempts")
	if !strings.Contains(body, name) {
		d.Fatalf("the job is not on the worker that will leave: %s", body)
	}
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	produce(d.T, d.Brokers, name+"-in", 3, numbered(1000, 500, 10)...)
	code, err := p.Exit(12 * time.Second)
	d.Logf("exit status %d after %s", code, time.Since(began).Round(10*time.Millisecond))
	if err != nil || code != 0 {
		d.Errorf("exit status %d, %v\n%s", code, err, p.Log())
	}
	follow(d.T, d.Brokers, name+"-out").await(1500, 30*time.Second)
	d.Logf("all there after %s", time.Since(began).Round(10*time.Millisecond))
	d.says(name, 10*time.Second, "1 restart", "leaving")
	d.cancel(name)
	d.once(name, 1500)
}
