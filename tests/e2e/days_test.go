package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/real"
)

// day is a subtest's view of the shared cluster.
type day struct {
	*real.Cluster
	*testing.T
}

// TestDays is what users meet on good and on bad days: every part of it looks at what they read, and at what is
// left behind. They share one cluster.
func TestDays(t *testing.T) {
	c := real.Start(t, 3, 2, canaryEnv...)
	for _, d := range []struct {
		name string
		run  func(day)
	}{
		{"three mistakes", threeMistakes},
		{"unreachable broker", unreachableBroker},
		{"missing topic", missingTopic},
		{"wrong storage", wrongStorage},
		{"too few slots", tooFewSlots},
		{"no rights", noRights},
		{"late temporal", lateTemporal},
		{"bounded", boundedJob},
		{"cancelled", cancelled},
		{"terminated", terminated},
		{"rewound", rewound},
		{"leaving", leaving},
		{"bad record fails", badRecordFails},
		{"bad record ends", badRecordEnds},
		{"bad record skipped", badRecordSkipped},
		{"bad record diverted", badRecordDiverted},
		{"other sinks", otherSinks},
		{"views", views},
		{"noise", noise},
		{"damage", damage},
		{"locked out", lockedOut},
		{"secrets", secrets},
	} {
		t.Run(d.name, func(t *testing.T) {
			began := time.Now()
			sub := day{c.For(t), t}
			t.Cleanup(sub.cancelAll)
			d.run(sub)
			t.Logf("took %s", time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// Passwords that must never be seen anywhere.
const (
	canarySASL  = "canary-sasl-4711"
	canaryWrong = "canary-wrong-0815"
)

var canaryEnv = []string{"CANARY_SASL=" + canarySASL, "CANARY_WRONG=" + canaryWrong}

// passThrough is a job that copies topic in to topic out, which share the job's name.
func passThrough(name string, more string) string {
	return fmt.Sprintf(`
name: %[1]s
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  in:
    kafka: {topic: %[1]s-in}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, k: string, v: bigint, at: timestamp(3)}
sinks:
  out: {from: in, kafka: {topic: %[1]s-out}, format: json}
%[2]s
checkpoint: {interval: 500ms}
`, name, more)
}

// start starts a job with weir job start and fails if that does.
func (d day) start(spec string, flags ...string) {
	d.Helper()
	if out, err := d.Weir(append([]string{"job", "start", d.file(spec)}, flags...)...); err != nil {
		d.Fatalf("weir job start: %v\n%s", err, out)
	}
}

// file writes a spec to a file.
func (d day) file(spec string) string {
	d.Helper()
	name := filepath.Join(d.TempDir(), "job.yaml")
	if err := os.WriteFile(name, []byte(spec), 0o600); err != nil {
		d.Fatal(err)
	}
	return name
}

// status is what weir job status prints.
func (d day) status(name string) string {
	d.Helper()
	out, err := d.Weir("job", "status", name)
	if err != nil {
		d.Fatalf("weir job status %s: %v\n%s", name, err, out)
	}
	return out
}

// says waits until the job's status and its details both hold all the texts, and logs how long that took.
func (d day) says(name string, within time.Duration, texts ...string) {
	d.Helper()
	began := time.Now()
	var status, details string
	defer func() {
		if d.Failed() {
			d.Logf("status:\n%s\ndetails:\n%s", status, details)
		}
	}()
	d.Cluster.Await(fmt.Sprintf("job %s says %q", name, texts), within, func() bool {
		status, details = d.status(name), d.Details(name)
		for _, t := range texts {
			if !strings.Contains(status, t) || !strings.Contains(details, t) {
				return false
			}
		}
		return true
	})
	d.Logf("after %s:\n%s\n%s", time.Since(began).Round(100*time.Millisecond), status, details)
}

// cancel ends a job and looks that nothing of it is left.
func (d day) cancel(name string) {
	d.Helper()
	d.CLI("workflow", "cancel", "--workflow-id", name)
	_ = d.AwaitClosed(name, 30*time.Second)
	d.idle()
}

// cancelAll ends what a failed test has left, so that the next one has slots.
func (d day) cancelAll() {
	if d.Failed() {
		out, err := d.Weir("job", "list")
		d.Logf("jobs that run: %v\n%s", err, out)
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 1 && f[1] == "running" {
				out, err := d.Weir("job", "cancel", f[0])
				d.Logf("%s %v", out, err)
			}
		}
	}
}

// logs are what the workers have printed.
func (d day) logs() string {
	d.Helper()
	var all strings.Builder
	for _, w := range d.Workers {
		b, err := os.ReadFile(w.Log())
		if err != nil {
			d.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// idle fails unless no worker holds anything of any job, soon.
func (d day) idle() {
	d.Helper()
	d.Cluster.Await("the workers' slots are free", 15*time.Second, func() bool {
		for _, w := range d.Workers {
			f, err := w.Figures(d.Ctx)
			if err != nil || len(f) > 0 {
				return false
			}
		}
		return true
	})
}
