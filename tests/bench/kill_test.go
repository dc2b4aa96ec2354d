package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/cmd/local"
)

const killPartitions = 4

// BenchmarkKilled is how long records stand still after SIGKILL: from the kill until, of every partition of the input, a
// record that was made after the kill has come out at the end. Three workers with two slots each run a job with
// parallelism 4 and a checkpoint every second; its sink is at least once, so that what flows is seen at once. With "one"
// a worker that runs a part of the job is killed, the others go on, and it is started again afterwards; with "all" every
// worker is killed and started again at once.
func BenchmarkKilled(b *testing.B) {
	b.Run("one", func(b *testing.B) {
		benchmarkKilled(b, func(r *killRig) { r.killOne() })
	})
	b.Run("all", func(b *testing.B) {
		benchmarkKilled(b, func(r *killRig) { r.killAll() })
	})
}

type killRig struct {
	*rig
	name    string
	arrived *arrivals
	took    []time.Duration
	next    int // worker to look at first
}

func benchmarkKilled(b *testing.B, kill func(*killRig)) {
	r := &killRig{rig: start(b, 3, 2), arrived: newArrivals()}
	in, out := "killed-in-"+r.tag, "killed-out-"+r.tag
	r.name = "killed_" + r.tag
	r.topics(killPartitions, in, out)
	r.startJob(r.name, counting{
		name: r.name, in: in, out: out, delivery: "at_least_once", interval: time.Second, parallelism: 4,
		// Every loss is the first after a quiet time, which is answered at once.
		more: "restart: {backoff: {initial: 1s, reset_after: 2s}}",
	}.spec())
	r.follow(out, r.arrived.add)
	l := &load{topic: in, partitions: killPartitions, perSecond: 1000, keys: 25}
	r.startLoad(l)
	for b.Loop() {
		r.quiet()
		kill(r)
	}
	l.stop()
	if st := r.status(r.name); st.Restarts < b.N {
		b.Fatalf("the job was restarted %d times after %d kills", st.Restarts, b.N)
	}
	quantiles(b, "", r.took)
}

// quiet waits until the job runs undisturbed: all workers are there and know each other, and the attempt has taken
// three checkpoints.
func (r *killRig) quiet() {
	r.Helper()
	r.await("the workers know each other", time.Minute, func() bool {
		for _, w := range r.Workers {
			if alive(w) < len(r.Workers) {
				return false
			}
		}
		return true
	})
	done := 0
	r.await("the job takes checkpoints", time.Minute, func() bool {
		st := r.status(r.name)
		if done == 0 && st.State == "running" {
			done = st.Succeeded + 3
		}
		return done > 0 && st.Succeeded >= done
	})
}

// alive is how many members a worker believes to be alive.
func alive(w *local.Worker) int {
	resp, err := http.Get(w.HTTP() + "/members")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	var members []struct{ Status string }
	if json.Unmarshal(body, &members) != nil {
		return 0
	}
	n := 0
	for _, m := range members {
		if m.Status == "alive" {
			n++
		}
	}
	return n
}

// killOne kills the next worker that runs a part of the job, measures, and starts it again.
func (r *killRig) killOne() {
	r.Helper()
	for range r.Workers {
		w := r.Workers[r.next%len(r.Workers)]
		r.next++
		if r.runs(w, r.name) == 0 {
			continue
		}
		before, killed := r.at(r.name), time.Now()
		w.Kill()
		r.arrived.reset()
		r.measure(killed, before)
		if err := w.Start(r.ctx); err != nil {
			r.Fatal(err)
		}
		return
	}
	r.Fatal("no worker runs the job")
}

// killAll kills all workers, starts them again and measures.
func (r *killRig) killAll() {
	r.Helper()
	before, killed := r.at(r.name), time.Now()
	for _, w := range r.Workers {
		w.Kill()
	}
	r.arrived.reset()
	var g errgroup.Group
	for _, w := range r.Workers {
		g.Go(func() error { return w.Start(r.ctx) })
	}
	if err := g.Wait(); err != nil {
		r.Fatal(err)
	}
	r.measure(killed, before)
}

// measure waits until every partition flows again. That must be the work of a later attempt than before.
func (r *killRig) measure(killed time.Time, before int64) {
	r.Helper()
	var at time.Time
	r.await("records of every partition flow again", 2*time.Minute, func() (ok bool) {
		at, ok = r.arrived.all()
		return ok
	})
	if now := r.at(r.name); now <= before {
		r.Fatalf("records flow in attempt %d, which ran before the kill", now)
	}
	r.Logf("flow again after %v", at.Sub(killed).Round(time.Millisecond))
	r.took = append(r.took, at.Sub(killed))
}

// arrivals notes when, of each partition, a record comes out that was made after a given moment. Safe for concurrent use.
type arrivals struct {
	mu    sync.Mutex
	since int64 // µs
	first map[string]time.Time
}

func newArrivals() *arrivals { return &arrivals{since: 1 << 62, first: map[string]time.Time{}} }

// reset forgets what has come and looks for records that are made from now on: a worker that is dead by now has not
// read them.
func (a *arrivals) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = time.Now().UnixMicro()
	clear(a.first)
}

// all is the moment at which the last of the partitions was first heard of; false if one is silent.
func (a *arrivals) all() (last time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.first {
		if t.After(last) {
			last = t
		}
	}
	return last, len(a.first) == killPartitions
}

// add takes an output row.
func (a *arrivals) add(rec *kgo.Record) {
	var row struct {
		K    string
		Made int64
	}
	if err := json.Unmarshal(rec.Value, &row); err != nil {
		panic(fmt.Sprintf("output %s: %v", rec.Value, err))
	}
	p, _, _ := strings.Cut(row.K, "-")
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.first[p]; !known && row.Made > a.since {
		a.first[p] = time.Now()
	}
}
