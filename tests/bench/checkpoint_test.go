package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.temporal.io/sdk/client"

	"github.com/weirstream/weir/workflows"
)

// BenchmarkTriggerToCommitted is how long a checkpoint of a small job takes, from the moment at which somebody asks for
// it (the update "checkpoint") until the answer says that it is durable and that its transactions are committed: two
// subtasks on two workers count by key, exactly once from Kafka to Kafka. "took-" is what the job itself says, without the
// way from and to whoever asks. Every checkpoint has records to commit. They are two seconds apart: a development server
// takes twenty steps a second from the queue of its one shard, which checkpoints in a row would use up, and wait 50 ms
// for every step.
func BenchmarkTriggerToCommitted(b *testing.B) {
	r := start(b, 2, 1)
	in, out, name := "small-in-"+r.tag, "small-out-"+r.tag, "small_"+r.tag
	r.topics(2, in, out)
	// The interval is out of the way: only what is asked for is measured.
	r.startJob(name, counting{name: name, in: in, out: out, delivery: "exactly_once", interval: 5 * time.Minute}.spec())
	for range 3 { // the first ones meet cold caches
		r.produceFew(in)
		r.checkpoint(name)
	}
	var answered, took []time.Duration
	for b.Loop() {
		r.wait(2 * time.Second)
		r.produceFew(in)
		asked := time.Now()
		v := r.checkpoint(name)
		answered = append(answered, time.Since(asked))
		took = append(took, r.took(v))
	}
	if st := r.unbroken(name); st.Succeeded < b.N || st.Failed > 0 {
		b.Fatalf("%d checkpoints succeeded and %d failed, want %d", st.Succeeded, st.Failed, b.N)
	}
	quantiles(b, "", answered)
	quantiles(b, "took-", took)
}

// took reads how long a checkpoint took as the job says it.
func (r *rig) took(v workflows.CheckpointView) time.Duration {
	r.Helper()
	d, err := time.ParseDuration(strings.ReplaceAll(v.Took, " ", ""))
	if err != nil {
		r.Fatalf("checkpoint %s took %q: %v", v.ID, v.Took, err)
	}
	return d
}

// checkpoint asks for a checkpoint and waits for its end.
func (r *rig) checkpoint(name string) (v workflows.CheckpointView) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	h, err := r.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: name, UpdateName: workflows.UpdateCheckpoint, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, &v)
	}
	if err != nil || v.Result != workflows.Committed {
		r.Fatalf("checkpoint of %s: got %+v, %v, want it committed", name, v, err)
	}
	return v
}

// produceFew writes a hundred records, which the job has soon read.
func (r *rig) produceFew(topic string) {
	r.Helper()
	var few []*kgo.Record
	for i := range 100 {
		few = append(few, &kgo.Record{Topic: topic, Value: event(fmt.Sprintf("k%d", i), time.Now())})
	}
	if err := r.kafka.ProduceSync(r.ctx, few...).FirstErr(); err != nil {
		r.Fatal(err)
	}
}
