package bench

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/bench"
	"github.com/weirstream/weir/cmd/proof"
)

var (
	memoryFor  = flag.Duration("memory-for", 10*time.Minute, "how long BenchmarkMemory runs the job, beside a minute before and the end")
	memoryRate = flag.Int("memory-rate", 3000, "records a second of BenchmarkMemory")
)

// BenchmarkMemory is how the resident memory of workers grows while a job of a constant load and state runs: the double
// charge of cmd/proof (two topics, running totals, windows, three sinks), exactly once with a checkpoint every second, on
// two workers. The figures are of the worker that grows most: the mean of the first and of the last minute, and the
// slope of a line through all samples. Its output must be exactly right in the end. It is one measurement, whatever
// -benchtime says.
func BenchmarkMemory(b *testing.B) {
	r := start(b, 2, 2)
	r.paymentTopics(2)
	reader, err := proof.NewReader(r.Brokers)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(reader.Close)
	name := "payments_" + r.tag
	r.startJob(name, string(proof.Spec(proof.SpecOptions{Parallelism: 2, Interval: time.Second})))
	w := proof.NewWorkload(1, int((*memoryFor+memoryWarm).Seconds())*(*memoryRate))
	produced := make(chan error, 1)
	go func() { produced <- w.Produce(r.ctx, r.Brokers, *memoryRate, nil) }()
	r.wait(memoryWarm)
	var sizes []trend
	r.profiled(*memoryFor, func() { sizes = r.sizes(*memoryFor) })
	if err := <-produced; err != nil {
		b.Fatal(err)
	}
	r.verify(reader, w)
	if st := r.unbroken(name); st.Succeeded < int(memoryFor.Seconds())/3 {
		b.Fatalf("only %d checkpoints", st.Succeeded)
	}
	reportGrowth(b, sizes)
	b.ReportMetric(0, "ns/op")
}

// paymentTopics creates the topics of the double charge.
func (r *rig) paymentTopics(partitions int32) {
	r.Helper()
	if err := proof.CreateTopics(r.ctx, r.Brokers, partitions); err != nil {
		r.Fatal(err)
	}
	r.dropLater(proof.Transfers, proof.Logins, proof.Passed, proof.Totals, proof.Alerts)
}

// memoryWarm is how long a job runs before its memory is looked at.
const memoryWarm = time.Minute

// verify waits for the whole output and judges it.
func (r *rig) verify(reader *proof.Reader, w proof.Workload) {
	r.Helper()
	want := w.Expect()
	r.await("the output is complete", 2*time.Minute, func() bool { return reader.Passed() >= w.Records })
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Minute)
	defer cancel()
	err := reader.Await(ctx, want)
	if v := reader.Verdict(want); err != nil || !v.ExactlyOnce() {
		r.Fatalf("not exactly once (%v):\n%s", err, v)
	}
}

// sizes samples the resident memory of every worker once a second.
func (r *rig) sizes(d time.Duration) []trend {
	r.Helper()
	out := make([]trend, len(r.Workers))
	begun := time.Now()
	for time.Since(begun) < d {
		r.wait(time.Second)
		for i, w := range r.Workers {
			n, err := bench.ResidentBytes(w.Pid())
			if err != nil {
				r.Fatal(err)
			}
			out[i].add(time.Since(begun), float64(n)/(1<<20))
		}
	}
	return out
}

func reportGrowth(b *testing.B, sizes []trend) {
	b.Helper()
	worst := sizes[0]
	for _, t := range sizes {
		b.Logf("resident: %.1f MiB in the first minute, %.1f in the last, %+.2f a minute", t.head(), t.tail(), t.slope())
		if t.slope() > worst.slope() {
			worst = t
		}
	}
	b.ReportMetric(worst.head(), "start-MiB")
	b.ReportMetric(worst.tail(), "end-MiB")
	b.ReportMetric(worst.slope(), "MiB/min")
}

// trend is a series of samples over time.
type trend struct {
	at    []time.Duration
	value []float64
}

func (t *trend) add(at time.Duration, v float64) {
	t.at, t.value = append(t.at, at), append(t.value, v)
}

// head and tail are the means of the first and of the last minute.
func (t *trend) head() float64 {
	return t.mean(func(at time.Duration) bool { return at <= time.Minute })
}

func (t *trend) tail() float64 {
	last := t.at[len(t.at)-1]
	return t.mean(func(at time.Duration) bool { return at > last-time.Minute })
}

func (t *trend) mean(in func(time.Duration) bool) float64 {
	sum, n := 0.0, 0
	for i, at := range t.at {
		if in(at) {
			sum, n = sum+t.value[i], n+1
		}
	}
	return sum / float64(n)
}

// slope is that of the line of least squares, a minute.
func (t *trend) slope() float64 {
	n := float64(len(t.at))
	var x, y, xx, xy float64
	for i, at := range t.at {
		m := at.Minutes()
		x, y, xx, xy = x+m, y+t.value[i], xx+m*m, xy+m*t.value[i]
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

func TestTrend(t *testing.T) {
	var s trend
	for i := range 300 { // five minutes of 100 + 2 a minute
		s.add(time.Duration(i)*time.Second, 100+2*float64(i)/60)
	}
	if got := s.slope(); got < 1.999 || got > 2.001 {
		t.Errorf("slope: got %v, want 2 a minute", got)
	}
	if head, tail := s.head(), s.tail(); head < 100.9 || head > 101.1 || tail < 108.9 || tail > 109.1 {
		t.Errorf("means of the first and the last minute: got %v and %v, want 101 and 109", head, tail)
	}
}
