package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/tests/real"
)

// threeMistakes: a spec that the temporal CLI starts fails within seconds, with all its mistakes and their places;
// weir job validate says the same.
func threeMistakes(d day) {
	spec := `{
  "name": "wrong",
  "sources": {"in": {"nexmark": {"events": 10}, "event_tme": {"at": "bid.dateTime"}}},
  "steps": {"q": {"from": "in", "wher": "bid.price > 1"}},
  "sinks": {"out": {"from": "q", "discard": {}}},
  "checkpoint": {"interval": "10"}
}`
	file := filepath.Join(d.TempDir(), "wrong.json")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		d.Fatal(err)
	}
	want := []string{
		"sources.in.event_tme: unknown key; did you mean event_time?",
		"steps.q.wher: unknown key; did you mean where?",
		"checkpoint.interval: 10 has no unit; write 10s",
	}
	began := time.Now()
	d.CLI("workflow", "start", "--type", "StreamJob", "--task-queue", "weir", "--workflow-id", "wrong", "--input-file", file)
	err := d.AwaitClosed("wrong", 20*time.Second)
	d.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
	if err == nil {
		d.Fatal("a job with three mistakes runs")
	}
	out, verr := d.Weir("job", "validate", file)
	d.Log(out)
	if verr == nil {
		d.Error("weir job validate accepts it")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			d.Errorf("the workflow's failure does not say %q:\n%v", w, err)
		}
		if !strings.Contains(out, w) {
			d.Errorf("weir job validate does not say %q:\n%s", w, out)
		}
	}
}

// unreachableBroker: the job says so within seconds and waits; with a broker there it goes on by itself.
func unreachableBroker(d day) {
	addr := freeAddr(d.T)
	d.start(strings.ReplaceAll(passThrough("nobody", ""), "${env:KAFKA}", addr))
	d.says("nobody", 30*time.Second, "waiting", addr, "refused")
	kafkatest.Fake(d.T, kfake.Ports(portOf(d.T, addr)), kfake.SeedTopics(1, "nobody-in", "nobody-out"))
	produce(d.T, []string{addr}, "nobody-in", 1, numbered(0, 10, 1)...)
	follow(d.T, []string{addr}, "nobody-out").await(10, 60*time.Second)
	d.cancel("nobody")
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// fails starts a job that must fail within seconds and say all the texts.
func (d day) fails(name, spec string, texts ...string) {
	d.Helper()
	began := time.Now()
	d.start(spec)
	err := d.AwaitClosed(name, 30*time.Second)
	d.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
	if err == nil {
		d.Fatalf("job %s has not failed", name)
	}
	d.says(name, 10*time.Second, append(texts, "failed")...)
	for _, w := range texts {
		if !strings.Contains(err.Error(), w) {
			d.Errorf("the failure does not say %q:\n%v", w, err)
		}
	}
}

// missingTopic: a topic that does not exist is a mistake in the spec, like a misspelt column; with the topic the
// job starts.
func missingTopic(d day) {
	kafkatest.CreateTopic(d.T, d.Brokers, "absent-out", 1)
	d.fails("absent", passThrough("absent", ""), "source in", `"absent-in"`, "does not exist", "create it")
	kafkatest.CreateTopic(d.T, d.Brokers, "absent-in", 1)
	d.start(passThrough("absent", ""))
	d.AwaitState("absent", "running", 30*time.Second)
	d.cancel("absent")
}

// noRights: a user who may not read or write says so with the right and the topic, also one who is refused
// altogether. No message has the password.
func noRights(d day) {
	allow := func(name string, r kmsg.ACLResourceType, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: r, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	fake := kafkatest.Fake(d.T, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("SCRAM-SHA-256", "reader", canarySASL,
			allow("guarded-out", kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribe),
			allow("guarded-out", kmsg.ACLResourceTypeTopic, kmsg.ACLOperationWrite),
			allow("kafka-cluster", kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribeConfigs)),
		kfake.SeedTopics(1, "guarded-in", "guarded-out"))
	secured := func(name, password string) string {
		spec := strings.ReplaceAll(passThrough("guarded", ""), "name: guarded", "name: "+name)
		return strings.Replace(spec, `brokers: ["${env:KAFKA}"]`, fmt.Sprintf(
			`brokers: [%q], sasl: {mechanism: scram-sha-256, user: reader, password: "${env:%s}"}`, fake.ListenAddrs()[0], password), 1)
	}
	d.fails("guarded", secured("guarded", "CANARY_SASL"), "guarded-in", "right Describe", "missing")
	d.start(secured("stranger", "CANARY_WRONG"))
	d.says("stranger", 30*time.Second, "sasl")
	d.CLI("workflow", "cancel", "--workflow-id", "stranger")
}

// wrongStorage: a bucket that does not exist fails the job with the way out.
func wrongStorage(d day) {
	spec := strings.Replace(passThrough("homeless", ""), "interval: 500ms", `interval: 500ms, storage: "s3://nowhere/jobs"`, 1)
	d.fails("homeless", spec, "s3://nowhere/jobs", "bucket does not exist")
}

// tooFewSlots: the job waits, saying what it needs; another worker cures it.
func tooFewSlots(d day) {
	kafkatest.CreateTopic(d.T, d.Brokers, "wide-in", 8)
	kafkatest.CreateTopic(d.T, d.Brokers, "wide-out", 1)
	d.start(passThrough("wide", "parallelism: 8"))
	d.says("wide", 30*time.Second, "waiting", "too few slots: the job needs 8", "3 nodes have 6 free", "start more workers")
	p := d.StartProcess(real.ProcessOptions{Name: "extra", Slots: 2})
	d.AwaitState("wide", "running", 60*time.Second)
	d.cancel("wide")
	p.Signal(syscall.SIGTERM)
	if code, err := p.Exit(15 * time.Second); code != 0 || err != nil {
		d.Errorf("exit status %d, %v", code, err)
	}
}

// lateTemporal: a worker that cannot reach Temporal says so at once, in its log and at /readyz, and takes work as
// soon as the server comes.
func lateTemporal(d day) {
	temporal, ui := freeAddr(d.T), freeAddr(d.T)
	p := d.StartProcess(real.ProcessOptions{Name: "early", Slots: 1, Temporal: temporal, Alone: true})
	d.Cluster.Await("/readyz says why", 10*time.Second, func() bool {
		code, body := real.Get(d.Ctx, p.HTTP()+"/readyz")
		return code == 503 && strings.Contains(body, "cannot reach Temporal at "+temporal)
	})
	if log := p.Log(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "cannot reach Temporal at "+temporal) {
		d.Errorf("the log does not warn:\n%s", log)
	}
	if code, body := real.Get(d.Ctx, p.HTTP()+"/healthz"); code != 200 {
		d.Errorf("/healthz is %d %s, want 200: the process lives", code, body)
	}
	server, err := local.StartTemporal(d.Ctx, d.TempDir(), portOf(d.T, temporal), portOf(d.T, ui))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(server.Stop)
	d.Cluster.Await("the worker is ready", 30*time.Second, func() bool {
		code, _ := real.Get(d.Ctx, p.HTTP()+"/readyz")
		return code == 200
	})
	if n := strings.Count(p.Log(), "cannot reach Temporal"); n > 10 {
		d.Errorf("it tried %d times in seconds: no back-off", n)
	}
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
