// Package chaos proves the promises on clusters of real parts that are killed, frozen and taken away at random
// moments.
package chaos

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/proof"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/tests/real"
)

const (
	workers     = 3
	slots       = 2 // of each: any two workers are enough
	parallelism = 4
	perSecond   = 3000
	interval    = time.Second // between checkpoints
	name        = "payments"
	// peerTimeout is longer than a worker's default: on two cores that run other tests too, a healthy process may
	// be silent for seconds, and here that would be a false alarm.
	peerTimeout = 6 * time.Second
	// endless is more than any test sends.
	endless = 10_000_000
)

// rig is a cluster that runs the double charge, with everything that watches it.
type rig struct {
	*testing.T
	*real.Cluster
	reader *proof.Reader
	flow   *real.Flow
	spec   []byte
	// enough is closed when no more records are needed.
	enough   chan struct{}
	produced chan produced
}

type produced struct {
	w   proof.Workload
	err error
}

// start starts a cluster and the job, and begins to send n records, or as many as are needed.
func start(t *testing.T, seed uint64, n int) *rig {
	t.Helper()
	r := &rig{
		T: t, Cluster: real.Start(t, workers, slots, "WEIR_FAILURE_PEER_TIMEOUT="+peerTimeout.String()),
		spec:   proof.Spec(proof.SpecOptions{Parallelism: parallelism, Interval: interval}),
		enough: make(chan struct{}), produced: make(chan produced, 1),
	}
	r.keepLogs()
	if err := proof.CreateTopics(r.Ctx, r.Brokers, parallelism); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.reader, err = proof.NewReader(r.Brokers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.reader.Close)
	r.flow = r.WatchFlow(r.reader)
	r.StartJob(name, r.spec)
	r.AwaitState(name, "running", time.Minute)
	w := proof.NewWorkload(seed, min(n, 200_000)) // for windows of a fair size
	w.Records = n
	go func() {
		sent, err := w.ProduceUntil(r.Ctx, r.Brokers, perSecond, nil, r.enough)
		r.produced <- produced{sent, err}
	}()
	return r
}

// keepLogs copies everything that the parts have written to WEIR_CHAOS_LOGS, whatever the verdict.
func (r *rig) keepLogs() {
	dir := os.Getenv("WEIR_CHAOS_LOGS")
	if dir == "" {
		return
	}
	r.Cleanup(func() {
		if err := os.CopyFS(filepath.Join(dir, r.Name()), os.DirFS(r.Dir)); err != nil {
			r.Log(err)
		}
	})
}

// finish waits for the whole output, cancels the job, and judges everything that a reader was ever shown.
func (r *rig) finish(within time.Duration) {
	r.Helper()
	sent := <-r.produced
	if sent.err != nil {
		r.Fatal(sent.err)
	}
	r.AwaitVerdict(r.reader, sent.w, within)
	if st, err := r.Status(name); err == nil {
		r.Logf("attempt %d, %d checkpoints succeeded, %d failed", st.Attempt, st.Succeeded, st.Failed)
	}
	r.CLI("workflow", "cancel", "--workflow-id", name)
	_ = r.AwaitClosed(name, time.Minute) // cancelled, as asked
	if open := r.OpenTransactions(); len(open) > 0 {
		r.Errorf("transactions are open after the job's end: %v", open)
	}
	ctx, cancel := context.WithTimeout(r.Ctx, time.Minute)
	defer cancel()
	if err := r.reader.AwaitQuiet(ctx, 2*time.Second); err != nil {
		r.Fatal(err)
	}
	if v := r.reader.Verdict(sent.w.Expect()); !v.ExactlyOnce() {
		r.Errorf("not exactly once after the job's end\n%s", v)
	}
}

// flows waits until an attempt above n has read records and the reader is shown output after that.
func (r *rig) flows(n job.Attempt) {
	r.Helper()
	begin := time.Now()
	r.Await("records flow", time.Minute, func() bool {
		at, ok := r.flow.Resumed(n, time.Time{})
		if !ok || at.Before(begin) {
			at = begin
		}
		_, shown := r.flow.Shown(at)
		return ok && shown
	})
}

// pause waits: chaos has no event to wait for.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wait is pause for the test's goroutine.
func (r *rig) wait(d time.Duration) {
	r.Helper()
	if err := pause(r.Ctx, d); err != nil {
		r.Fatal(err)
	}
}
