package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/file"
	"github.com/weirstream/weir/dataplane/transaction"
)

// abandoned is a cluster on which a job died: transactions are open, and of one a checkpoint is durable.
type abandoned struct {
	t              *testing.T
	brokers, topic string
	storage        string
	store          snapshot.Store
}

const deadJob, deadUID = "pay ments", job.UID("0a1b2c")

func abandon(t *testing.T, brokers []string) *abandoned {
	t.Helper()
	topic := strings.NewReplacer("/", "-").Replace(t.Name())
	kafkatest.CreateTopic(t, brokers, topic, 1)
	dir := t.TempDir()
	store, err := file.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context(), snapshot.JobUID(deadJob, deadUID), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	return &abandoned{t: t, brokers: strings.Join(brokers, ","), topic: topic, storage: "file://" + dir, store: store}
}

// TestTransactionsByHand runs on the in-process Kafka and, not with -short, on a real broker.
func TestTransactionsByHand(t *testing.T) {
	run := func(t *testing.T, brokers []string) {
		t.Run("kept", func(t *testing.T) { endsByHand(t, abandon(t, brokers)) })
		t.Run("forced", func(t *testing.T) { endsByForce(t, abandon(t, brokers)) })
	}
	t.Run("kfake", func(t *testing.T) { run(t, kafkatest.Fake(t).ListenAddrs()) })
	t.Run("kafka", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a broker; not with -short")
		}
		run(t, []string{kafkatest.StartT(t, kafkatest.Options{}).Addr()})
	})
}

// leave writes records in a transaction and goes, as a killed worker does.
func (a *abandoned) leave(attempt job.Attempt, slot, records int) checkpoint.Transaction {
	a.t.Helper()
	id := transaction.ID{Prefix: "weir", UID: deadUID, Sink: "out", Attempt: attempt, Slot: slot}
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.brokers), kgo.TransactionalID(id.String()), kgo.DefaultProduceTopic(a.topic))
	if err != nil {
		a.t.Fatal(err)
	}
	defer cl.Close() // does not end the transaction
	if err := cl.BeginTransaction(); err != nil {
		a.t.Fatal(err)
	}
	for i := range records {
		rec := &kgo.Record{Value: fmt.Appendf(nil, "%d-%d-%d", attempt, slot, i)}
		if err := cl.ProduceSync(a.t.Context(), rec).FirstErr(); err != nil {
			a.t.Fatal(err)
		}
	}
	pid, epoch, err := cl.ProducerID(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return checkpoint.Transaction{
		Sink: "out", Connector: "kafka", Resource: "out", ID: id.String(), ProducerID: pid, ProducerEpoch: epoch,
		Protocol: 2, Checkpoint: 7, BeginUnixMs: 1, TimeoutMs: 60_000, Records: int64(records),
	}
}

// promise makes a checkpoint durable that lists transactions.
func (a *abandoned) promise(ts ...checkpoint.Transaction) {
	a.t.Helper()
	g := job.Graph{MaxParallelism: 128, Vertices: []job.Vertex{{UID: "v", Parallelism: 1, Operators: []job.Operator{{UID: "out"}}}}}
	_, err := snapshot.Decide(a.t.Context(), a.store, checkpoint.Manifest{
		Version: checkpoint.FormatVersion, Kind: checkpoint.Durable, UID: deadUID, Attempt: 3, ID: 7, MaxParallelism: 128, Graph: &g, Transactions: ts,
	})
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *abandoned) weir(in string, args ...string) result {
	a.t.Helper()
	return weir(a.t, in, append([]string{"transaction"}, append(args, "--brokers", a.brokers)...)...)
}

func (a *abandoned) list() (rows []transactionRow) {
	a.t.Helper()
	got := a.weir("", "list", "--json", "--storage", a.storage)
	if err := json.Unmarshal([]byte(got.out), &rows); err != nil || got.status != 0 {
		a.t.Fatalf("list: %+v, %v", got, err)
	}
	return rows
}

// visible reads what a read-committed reader is shown, up to a record of our own behind it.
func (a *abandoned) visible() (values []string) {
	a.t.Helper()
	cl := kafkatest.Client(a.t, strings.Split(a.brokers, ","), kgo.ConsumeTopics(a.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DefaultProduceTopic(a.topic))
	if err := cl.ProduceSync(a.t.Context(), &kgo.Record{Value: []byte("end")}).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
	for {
		f := cl.PollFetches(a.t.Context())
		if err := f.Err(); err != nil {
			a.t.Fatal(err)
		}
		for _, r := range f.Records() {
			if string(r.Value) == "end" {
				return values
			}
			values = append(values, string(r.Value))
		}
	}
}

// endsByHand: what keeps the promise of a checkpoint can be done, what breaks it is refused.
func endsByHand(t *testing.T, a *abandoned) {
	if got := a.weir("", "list"); got.status != 0 || !strings.Contains(got.out, "no transaction of Weir is open on the brokers given") {
		t.Errorf("an empty list: %+v", got)
	}
	promised := a.leave(3, 0, 4)
	open := a.leave(3, 1, 2)
	a.promise(promised)

	rows := a.list()
	if len(rows) != 2 || rows[0].ID != promised.ID || !rows[0].Blocks || rows[1].ID != open.ID || rows[1].Blocks {
		t.Fatalf("got %+v, want %s, which blocks, before %s", rows, promised.ID, open.ID)
	}
	if r := rows[0]; r.Job != deadJob || r.Sink != "out" || r.Attempt != 3 || r.Promised != "checkpoint 7" || r.State != "Ongoing" || r.TimeLeft == "over" {
		t.Errorf("got %+v, want what the id and the checkpoint say", r)
	}
	if p := rows[0].Partitions; len(p) != 1 || p[0].Topic != a.topic || p[0].Waiting != 6 || !p[0].Blocks {
		t.Errorf("partitions %+v, want partition 0 with 6 offsets waiting", p)
	}
	if rows[1].Promised != "none" {
		t.Errorf("the second is promised by %q, want none", rows[1].Promised)
	}
	if got := a.weir("", "list"); !strings.Contains(got.out, a.topic+"/0 (6)") || !strings.Contains(got.out, "unknown") {
		t.Errorf("without a storage: %+v, want the blocked partition, and that promises are unknown", got)
	}

	// What would lose or double records is refused.
	if got := a.weir("", "abort", promised.ID, "--yes", "--storage", a.storage); got.status != 1 || !strings.Contains(got.err, "checkpoint 7 promises to commit it: its 4 records would be lost") {
		t.Errorf("abort of what is promised: %+v", got)
	}
	if got := a.weir("", "abort", open.ID, "--yes"); got.status != 1 || !strings.Contains(got.err, "give --storage") {
		t.Errorf("abort without a storage: %+v", got)
	}
	if got := a.weir("", "commit", open.ID, "--yes", "--storage", a.storage); got.status != 1 || !strings.Contains(got.err, "shown them twice") {
		t.Errorf("commit of what is not promised: %+v", got)
	}
	// Nothing happens without a confirmation.
	if got := a.weir("no\n", "commit", promised.ID, "--storage", a.storage); got.status != 2 || !strings.Contains(got.err, "nothing was done") {
		t.Errorf("commit, not confirmed: %+v", got)
	}
	if n := len(a.list()); n != 2 {
		t.Fatalf("%d transactions are open after refusals, want 2", n)
	}

	if got := a.weir("commit\n", "commit", promised.ID, "--storage", a.storage); got.status != 0 || got.out != "committed "+promised.ID+"\n" {
		t.Fatalf("commit: %+v", got)
	}
	if got := a.weir("", "abort", open.ID, "--yes", "--storage", a.storage); got.status != 0 || got.out != "aborted "+open.ID+"\n" || !strings.Contains(got.err, "is the newest of its job") {
		t.Fatalf("abort: %+v", got)
	}
	for _, r := range a.list() {
		if r.State == "Ongoing" { // the coordinator may still be writing the markers of the committed one
			t.Errorf("still open: %+v", r)
		}
	}
	if got := a.visible(); strings.Join(got, " ") != "3-0-0 3-0-1 3-0-2 3-0-3" {
		t.Errorf("readers are shown %v, want the four records of the committed transaction", got)
	}
	if got := a.weir("", "commit", promised.ID, "--yes", "--storage", a.storage); got.status != 1 || !strings.Contains(got.err, "no open transaction") {
		t.Errorf("commit again: %+v", got)
	}
}

// endsByForce: the job never runs again, and whoever says so may overrule.
func endsByForce(t *testing.T, a *abandoned) {
	first, second := a.leave(3, 0, 1), a.leave(3, 1, 1)
	a.promise(first)
	if got := a.weir("", "abort", first.ID, "--yes", "--force", "--storage", a.storage); got.status != 0 || !strings.Contains(got.err, "Its 1 records are lost") {
		t.Errorf("forced abort: %+v", got)
	}
	if got := a.weir("", "commit", second.ID, "--yes", "--force"); got.status != 0 || !strings.Contains(got.err, "doubled") {
		t.Errorf("forced commit: %+v", got)
	}
	if got := a.visible(); strings.Join(got, " ") != "3-1-0" {
		t.Errorf("readers are shown %v, want the record of the committed transaction", got)
	}
}

func TestTransactionMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"transaction", "abort", "their-id"}, 2, "only transactions of Weir are touched"},
		{[]string{"transaction", "commit"}, 2, "one transactional id"},
		{[]string{"transaction", "lits"}, 2, "did you mean list?"},
		{[]string{"transaction", "list", "--spec", "x.yaml", "--brokers", "b:1"}, 2, "not both"},
		{[]string{"transaction", "list", "--spec", "missing.yaml"}, 2, "missing.yaml"},
		{[]string{"transaction", "list", "--storage", "ftp://x"}, 2, "storage"},
	} {
		if got := weir(t, "", tc.args...); got.status != tc.status || !strings.Contains(got.err, tc.want) {
			t.Errorf("%v: got %+v, want status %d and %q", tc.args, got, tc.status, tc.want)
		}
	}
}

// TestTransactionsOfASpec: the spec names the cluster and the storage.
func TestTransactionsOfASpec(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	t.Setenv("KAFKA", brokers[0])
	kafkatest.CreateTopic(t, brokers, "out", 1)
	a := &abandoned{t: t, brokers: brokers[0], topic: "out"}
	left := a.leave(1, 0, 3)
	spec := specFile(t, goodSpec+"checkpoint: {storage: \"file://"+t.TempDir()+"\"}\n")
	got := weir(t, "", "transaction", "list", "--spec", spec)
	if got.status != 0 || !strings.Contains(got.out, left.ID) || !strings.Contains(got.out, "none (no checkpoint)") {
		t.Errorf("got %+v, want %s, and that no checkpoint promises it", got, left.ID)
	}
	plain := specFile(t, strings.Replace(goodSpec, "upsert: [account], kafka: {topic: out}, format: json", "print: {}", 1))
	if got := weir(t, "", "transaction", "list", "--spec", plain); got.status != 1 || !strings.Contains(got.err, "no sink writes to Kafka") {
		t.Errorf("a spec without a Kafka sink: %+v", got)
	}
}
