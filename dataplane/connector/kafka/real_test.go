package kafka

import (
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// The broker and the writer die after the pre-commit; the transaction survives both and is committed
// from another process's client.
func TestCrashBetweenPrepareAndCommit(t *testing.T) {
	b := onReal(t)
	conn := ConnConfig{Brokers: []string{b.Addr()}}
	kafkatest.CreateTopic(t, conn.Brokers, "crash", 2)
	s := openSink(t, sinkConfig(conn, "crash"), 1, "out")
	for i := range 10 {
		s.write(i*1000, i*1000+1000)
	}
	list := s.prepare(1, 0)
	s.crash()
	b.Kill()
	must(t, b.Restart(t.Context()))
	if o := commit(t, openCommitter(t, conn), list[0]); o != connector.Committed {
		t.Fatalf("outcome %s, want committed", o)
	}
	wantVisible(t, conn, "crash", 0, 10_000)
	wantStable(t, conn, "crash")
}

// Ensure the source reads on through a broker's SIGKILL and restart.
func TestSourceSurvivesBrokerRestart(t *testing.T) {
	b := onReal(t)
	conn := ConnConfig{Brokers: []string{b.Addr()}}
	kafkatest.CreateTopic(t, conn.Brokers, "restart", 1)
	produce(t, conn.Brokers, "restart", 0, 0, 1000)
	s := NewSource(SourceConfig{Conn: conn, Topic: "restart"})
	l := openTail(t, s, 0, 1, resolve(t, s))
	l.until(func() bool { return len(l.values["0"]) >= 1000 })
	b.Kill()
	must(t, b.Restart(t.Context()))
	produce(t, conn.Brokers, "restart", 0, 1000, 1000)
	l.until(func() bool { return l.lastErr != nil || len(l.values["0"]) >= 2000 })
	must(t, l.lastErr)
	l.wantNumbers("0", 0, 2000)
}

// Ensure the walker and the client agree on what a real broker stores.
func TestWalkerOnRealBroker(t *testing.T) {
	b := onReal(t)
	brokers := []string{b.Addr()}
	kafkatest.CreateTopic(t, brokers, "walk", 1)
	produceMixed(t, brokers, "walk")
	rp := rawFetch(t, kafkatest.Client(t, brokers), "walk", 0)
	if len(rp.AbortedTransactions) == 0 {
		t.Fatal("the response names no aborted transaction: the test tests nothing")
	}
	compare(t, rp, 0, 1, 7, 150, 377, 1<<40)
}

// BenchmarkCheckpoint measures, on a real broker, what a barrier costs a sink: the flush of what is still on its
// way, the pre-commit, and the begin of the next transaction up to its first acknowledged record.
func BenchmarkCheckpoint(b *testing.B) {
	conn := ConnConfig{Brokers: []string{onReal(b).Addr()}}
	kafkatest.CreateTopic(b, conn.Brokers, "bench-checkpoint", 1)
	s, c := openSink(b, sinkConfig(conn, "bench-checkpoint"), 1, "out"), openCommitter(b, conn)
	n := 0
	for b.Loop() {
		n++
		s.write(n, n+1)
		for _, tx := range s.prepare(job.CheckpointID(n), job.CheckpointID(n-1)) {
			b.StopTimer()
			commit(b, c, tx)
			b.StartTimer()
		}
	}
}

// BenchmarkRead measures, on a real broker, reading 200-byte records through the reader. The time includes the
// broker's own work on the same machine; cpu-ns/record is this process alone.
func BenchmarkRead(b *testing.B) {
	conn := ConnConfig{Brokers: []string{onReal(b).Addr()}}
	kafkatest.CreateTopic(b, conn.Brokers, "bench-read", 1)
	cfg := SinkConfig{Conn: conn, Topic: "bench-read", AtLeastOnce: true, Values: func() format.Encoder { return fixedEncoder{make([]byte, 200)} }}
	w := openSink(b, cfg, 1, "out")
	const batches = 500
	for range batches {
		w.write(0, 1000)
	}
	w.prepare(1, 0)
	src := NewSource(SourceConfig{Conn: conn, Topic: "bench-read", Bounded: true})
	splits := resolve(b, src)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		r, err := src.Open(b.Context(), 0, 1, splits)
		must(b, err)
		n := 0
		for f := range r.Fetches() {
			must(b, f.Err)
			if f.Records != nil {
				n += f.Records.Len()
			}
		}
		must(b, r.Close())
		if n != batches*1000 {
			b.Fatalf("%d records, want %d", n, batches*1000)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batches*1000), "ns/record")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N*batches*1000), "cpu-ns/record")
}

// cpuTime is what this process has used so far.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
