package bench

import (
	"flag"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/bench"
	"github.com/weirstream/weir/cmd/proof"
)

var (
	idleFor      = flag.Duration("idle-for", time.Minute, "how long BenchmarkIdle looks")
	idleInterval = flag.Duration("idle-interval", 10*time.Second, "interval of the checkpoints of its idle job")
)

// BenchmarkIdle is what a worker costs that has nothing to do: its share of a core and its resident memory, of the worker
// that takes most, in a cluster of three. With "no-job" there is none; with "idle-job" the workers run the double charge
// of cmd/proof with a checkpoint every -idle-interval, and no record comes.
func BenchmarkIdle(b *testing.B) {
	b.Run("no-job", func(b *testing.B) {
		r := start(b, 3, 2)
		r.idle(func() {})
	})
	b.Run("idle-job", func(b *testing.B) {
		r := start(b, 3, 2)
		r.paymentTopics(6)
		name := "payments_" + r.tag
		r.startJob(name, string(proof.Spec(proof.SpecOptions{Parallelism: 6, Interval: *idleInterval})))
		r.idle(func() {
			for _, w := range r.Workers {
				if r.runs(w, name) == 0 {
					b.Fatalf("worker %d runs no part of the job", w.Index)
				}
			}
			if st := r.unbroken(name); st.Succeeded < int(*idleFor / *idleInterval)*3/4 {
				b.Fatalf("only %d checkpoints", st.Succeeded)
			}
		})
	})
}

// idleSettle is how long after its start a worker is let to come to rest.
const idleSettle = 15 * time.Second

// idle measures the workers, then checks.
func (r *rig) idle(check func()) {
	r.Helper()
	r.wait(idleSettle)
	var share, size float64
	for r.Loop() {
		began, before := time.Now(), r.cpuTimes()
		r.profiled(*idleFor, func() { r.wait(*idleFor) })
		took := time.Since(began)
		for i, after := range r.cpuTimes() {
			share = max(share, (after-before[i]).Seconds()/took.Seconds()*100)
		}
		for _, w := range r.Workers {
			n, err := bench.ResidentBytes(w.Pid())
			if err != nil {
				r.Fatal(err)
			}
			size = max(size, float64(n)/(1<<20))
		}
	}
	check()
	r.ReportMetric(share, "%core")
	r.ReportMetric(size, "MiB")
	r.ReportMetric(0, "ns/op")
}

// cpuTimes is what each worker has used so far.
func (r *rig) cpuTimes() []time.Duration {
	r.Helper()
	out := make([]time.Duration, len(r.Workers))
	for i, w := range r.Workers {
		var err error
		if out[i], err = bench.CPUTime(w.Pid()); err != nil {
			r.Fatal(err)
		}
	}
	return out
}
