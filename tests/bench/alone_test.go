package bench

import (
	"bytes"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var loadRate = flag.Int("load", 0, "records a second beside the probes of BenchmarkRecordAlone; 0: half of what the set-up manages")

const (
	alonePartitions = 2
	aloneKeys       = 5000 // of each partition
	probeEvery      = 5 * time.Millisecond
	// findFullFor is how long the job runs flat out to find its full load.
	findFullFor = 10 * time.Second
)

// BenchmarkRecordAlone is how long a record takes through a job that counts by key, from the moment at which it is
// handed to a Kafka client until another has read the row that it causes: two workers with a slot each, a sink at least
// once, a checkpoint every ten seconds, and beside the probes half of the load that the set-up manages. Its full load is
// found first, flat out, with the same writer and reader, which share the machine. Probes are sent by the clock, whether
// or not the one before has arrived, one an iteration. "kafka-" is the same for records that only go through Kafka, in
// the same seconds: the floor.
func BenchmarkRecordAlone(b *testing.B) {
	r := start(b, 2, 1)
	in, out, echo, name := "alone-in-"+r.tag, "alone-out-"+r.tag, "alone-echo-"+r.tag, "alone_"+r.tag
	r.topics(alonePartitions, in, out, echo)
	r.startJob(name, counting{name: name, in: in, out: out, delivery: "at_least_once", interval: 10 * time.Second}.spec())
	through, direct := newProbes(), newProbes()
	r.follow(out, through.arrived)
	r.follow(echo, direct.arrived)
	full := 2 * float64(*loadRate)
	if full == 0 {
		full = r.fullLoad(in)
	}
	l := &load{topic: in, partitions: alonePartitions, perSecond: int(full / 2), keys: aloneKeys}
	r.startLoad(l)
	r.wait(3 * time.Second)
	began, sent := time.Now(), l.sent.Load()

	cl, err := kgo.NewClient(kgo.SeedBrokers(r.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	var failed kgo.FirstErrPromise
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for n := 0; b.Loop(); n++ {
		<-tick.C
		for topic, p := range map[string]*probes{in: through, echo: direct} {
			now := p.send(n)
			cl.Produce(r.ctx, &kgo.Record{Topic: topic, Partition: int32(n % alonePartitions), Value: event(probeKey(n), now)}, failed.Promise())
		}
	}
	rate := float64(l.sent.Load()-sent) / time.Since(began).Seconds()
	r.await("every probe arrives", 30*time.Second, func() bool { return through.complete() && direct.complete() })
	l.stop()
	if err := failed.Err(); err != nil {
		b.Fatal(err)
	}
	r.unbroken(name)
	quantiles(b, "", through.times())
	quantiles(b, "kafka-", direct.times())
	b.ReportMetric(rate, "load-records/s")
	b.ReportMetric(full, "full-records/s")
}

// fullLoad is how many records a second the job reads while more are waiting. It returns when none is left.
func (r *rig) fullLoad(in string) float64 {
	r.Helper()
	l := &load{topic: in, partitions: alonePartitions, keys: aloneKeys}
	r.startLoad(l)
	r.wait(findFullFor / 3)
	began, before := time.Now(), r.read()
	r.wait(findFullFor)
	rate := float64(r.read()-before) / time.Since(began).Seconds()
	l.stop()
	r.await("the job has read what was written flat out", 5*time.Minute, func() bool { return r.read() >= l.sent.Load() })
	if rate <= 0 {
		r.Fatal("the job reads nothing")
	}
	return rate
}

// read is how many records the sources of all workers have read.
func (r *rig) read() (sum int64) {
	for _, w := range r.Workers {
		figures, err := w.Figures(r.ctx)
		if err != nil {
			r.Fatal(err)
		}
		for _, f := range figures {
			for _, s := range f.Subtasks {
				if s.Source {
					sum += s.Records
				}
			}
		}
	}
	return sum
}

const probePrefix = "probe-"

func probeKey(n int) string { return probePrefix + strconv.Itoa(n) }

// probes are records that are timed: probe n is the n-th sent. Safe for concurrent use.
type probes struct {
	mu   sync.Mutex
	sent []time.Time
	took []time.Duration // 0: under way
	left int
}

func newProbes() *probes { return &probes{} }

// send notes that probe n is sent now.
func (p *probes) send(n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != len(p.sent) {
		panic(fmt.Sprintf("probe %d is sent after %d others", n, len(p.sent)))
	}
	now := time.Now()
	p.sent, p.took, p.left = append(p.sent, now), append(p.took, 0), p.left+1
	return now
}

var probeStart = []byte(`{"k":"` + probePrefix)

// arrived takes a record; most are not probes. One that comes again after a restart does not count.
func (p *probes) arrived(rec *kgo.Record) {
	rest, ok := bytes.CutPrefix(rec.Value, probeStart)
	if !ok {
		return
	}
	number, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(number))
	if err != nil {
		panic(fmt.Sprintf("probe %s: %v", rec.Value, err))
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.took[n] == 0 {
		p.took[n] = now.Sub(p.sent[n])
		p.left--
	}
}

func (p *probes) complete() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left == 0
}

func (p *probes) times() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took
}
