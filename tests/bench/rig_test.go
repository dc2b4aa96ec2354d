// Package bench measures what a cluster of processes does: how long a checkpoint takes, how soon records flow again
// after a kill, what a record alone waits, and what an idle worker costs. README.md says how each is run.
//
// These are benchmarks, not tests: they report figures and never fail because something is slow. They do fail if what
// they measure did not happen.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.temporal.io/sdk/client"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/tests/real"
	"github.com/weirstream/weir/workflows"
)

var (
	brokers = flag.String("brokers", os.Getenv("KAFKA"),
		`bootstrap brokers of a Kafka on this machine; "real" starts one (needs java); none embeds one, which is no Kafka to measure with`)
	profile = flag.String("profile", "", "file for a CPU profile of the first worker while it is measured; it costs CPU itself")
	keep    = flag.String("keep", "", "directory that logs are copied to")
)

// rig is a cluster on this machine: Temporal, an S3 server and workers as processes, and Kafka.
type rig struct {
	*testing.B
	*local.Stack
	ctx    context.Context
	client client.Client
	kafka  *kgo.Client
	// tag makes names unique on brokers that live on.
	tag string
}

// start starts a cluster for a benchmark, which is skipped without Temporal's command. env is added to the workers'
// environment.
func start(b *testing.B, workers, slots int, env ...string) *rig {
	b.Helper()
	if testing.Short() {
		b.Skip("starts processes; not with -short")
	}
	if _, err := local.FindTemporal(); err != nil {
		b.Skip(err)
	}
	r := &rig{B: b, ctx: b.Context(), tag: fmt.Sprint(time.Now().UnixMilli())}
	o := local.Options{Dir: b.TempDir(), Workers: workers, Slots: slots, Env: env, Brokers: r.brokers()}
	o.Binary = real.Binary(b)
	if *profile != "" {
		o.Env = append(o.Env, "WEIR_HTTP_PPROF=true")
	}
	r.storage(&o)
	var err error
	if r.Stack, err = local.Start(r.ctx, o); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Stack.Stop(); err != nil {
			b.Errorf("stop: %v", err)
		}
		if *keep != "" {
			_ = os.CopyFS(*keep, os.DirFS(o.Dir)) // a copy for whoever looks into it; it may exist already
		}
	})
	if r.client, err = r.Temporal.Dial(r.ctx); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.client.Close)
	if r.kafka, err = kgo.NewClient(kgo.SeedBrokers(r.Brokers...)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.kafka.Close)
	return r
}

// brokers are those of -brokers; none means an embedded Kafka.
func (r *rig) brokers() []string {
	r.Helper()
	switch *brokers {
	case "":
		return nil
	case "real":
		return []string{kafkatest.StartT(r.B, kafkatest.Options{Heap: "1g"}).Addr()}
	}
	return strings.Split(*brokers, ",")
}

// storage starts the S3 server in a process of its own, if there is one; else it is embedded.
func (r *rig) storage(o *local.Options) {
	r.Helper()
	g, err := local.StartGateway(r.ctx, o.Dir)
	if errors.Is(err, local.ErrNoGateway) {
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(g.Stop)
	o.Storage, o.S3Endpoint = "s3://"+local.Bucket+"/jobs", g.Endpoint()
	o.Env = append(o.Env, g.Env()...)
}

// topics creates topics for the benchmark.
func (r *rig) topics(partitions int32, names ...string) {
	r.Helper()
	adm := kadm.NewClient(r.kafka)
	made, err := adm.CreateTopics(r.ctx, partitions, 1, nil, names...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		r.Fatalf("create topics %v: %v", names, err)
	}
	r.dropLater(names...)
}

// dropLater deletes topics when the benchmark is over.
func (r *rig) dropLater(names ...string) {
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = kadm.NewClient(r.kafka).DeleteTopics(ctx, names...) // best effort: nobody reads them any more
	})
}

// startJob starts a job from a spec in YAML and waits until it runs.
func (r *rig) startJob(name, spec string) {
	r.Helper()
	j, err := config.ParseJob(name+".yaml", []byte(spec))
	if err != nil {
		r.Fatal(err)
	}
	_, err = r.client.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{
		ID: name, TaskQueue: activities.ControlQueue, WorkflowExecutionErrorWhenAlreadyStarted: true, WorkflowTaskTimeout: 5 * time.Second,
	}, "StreamJob", json.RawMessage(j.JSON()), workflows.StartOptions{})
	if err != nil {
		r.Fatalf("start job %s: %v", name, err)
	}
	r.await("job "+name+" runs", time.Minute, func() bool { return r.status(name).State == "running" && r.at(name) > 0 })
}

// status asks the job's workflow; the zero value if it does not answer at the moment.
func (r *rig) status(name string) (st workflows.Status) {
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel()
	if v, err := r.client.QueryWorkflow(ctx, name, "", workflows.QueryStatus); err == nil {
		_ = v.Get(&st) // what cannot be read is no answer
	}
	return st
}

// unbroken fails the benchmark if the job was restarted.
func (r *rig) unbroken(name string) workflows.Status {
	r.Helper()
	st := r.status(name)
	if st.State != "running" || st.Restarts > 0 {
		r.Fatalf("job %s is %q after %d restarts (%s), which spoils the figures", name, st.State, st.Restarts, st.LastFailure)
	}
	return st
}

// at is the attempt of the job that most workers agree to run; 0 for none.
func (r *rig) at(name string) (newest int64) {
	for _, w := range r.Workers {
		newest = max(newest, r.runs(w, name))
	}
	return newest
}

// runs is the attempt of the job that a worker runs; 0 for none, also if the worker does not answer.
func (r *rig) runs(w *local.Worker, name string) (attempt int64) {
	figures, err := w.Figures(r.ctx)
	if err != nil {
		return 0
	}
	for _, f := range figures {
		if f.Job == name {
			attempt = max(attempt, int64(f.Ref.Attempt))
		}
	}
	return attempt
}

// await polls until the condition holds. There is no event to await across processes.
func (r *rig) await(what string, within time.Duration, cond func() bool) {
	r.Helper()
	limit := time.Now().Add(within)
	for !cond() {
		if time.Now().After(limit) {
			r.Fatalf("%s: not within %s", what, within)
		}
		r.wait(50 * time.Millisecond)
	}
}

// wait lets time pass: there is none to wait for but time itself.
func (r *rig) wait(d time.Duration) {
	r.Helper()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
		r.Fatal(context.Cause(r.ctx))
	}
}

// profiled runs measure, with a CPU profile of the first worker for at most d if -profile asks for one.
func (r *rig) profiled(d time.Duration, measure func()) {
	r.Helper()
	if *profile == "" {
		measure()
		return
	}
	done := make(chan error, 1)
	go func() {
		done <- save(r.ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%.0f", r.Workers[0].HTTP(), d.Seconds()), *profile)
	}()
	measure()
	if err := <-done; err != nil {
		r.Errorf("profile: %v", err)
	}
}

// save copies what a URL answers into a file.
func save(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return errors.Join(err, os.WriteFile(file, b, 0o600))
}

// quantiles reports the median, the 99th percentile and the longest of some times, in ms, and takes the place of the
// time of an iteration.
func quantiles(b *testing.B, prefix string, ds []time.Duration) {
	b.Helper()
	if len(ds) == 0 {
		b.Fatalf("%s: nothing was measured", prefix)
	}
	slices.Sort(ds)
	at := func(q float64) float64 { return float64(ds[int(q*float64(len(ds)-1))].Microseconds()) / 1e3 }
	b.ReportMetric(at(0.5), prefix+"p50-ms")
	b.ReportMetric(at(0.99), prefix+"p99-ms")
	b.ReportMetric(at(1), prefix+"max-ms")
	b.ReportMetric(0, "ns/op")
}
