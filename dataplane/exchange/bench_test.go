package exchange

import (
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// benchmarkChannel sends batches of rows rows from one goroutine to another.
func benchmarkChannel(b *testing.B, to job.NodeID, rows int) {
	n := newNetwork(b, DefaultTimings(), "a", "b")
	n.channel("a", to, testChannel)
	n.attach("a")
	n.attach("b")
	o, g := n.output("a", testChannel), n.gate(to, testChannel)
	n.start()
	data := numbers(0, rows)
	b.SetBytes(int64(batch.EncodedSize(data)))
	b.ReportAllocs()
	read := make(chan error, 1)
	b.ResetTimer()
	go func() {
		for range b.N {
			if _, _, err := g.Next(b.Context()); err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	for range b.N {
		if err := o.Send(b.Context(), batch.Element{Kind: batch.BatchElement, Batch: data}); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-read; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func BenchmarkChannel(b *testing.B) {
	for name, to := range map[string]job.NodeID{"local": "a", "tcp": "b"} {
		b.Run(name+"/rows=1", func(b *testing.B) { benchmarkChannel(b, to, 1) })
		b.Run(name+"/rows=2048", func(b *testing.B) { benchmarkChannel(b, to, 2048) })
	}
}

// BenchmarkGate is a push and a read without another goroutine.
func BenchmarkGate(b *testing.B) {
	g, queues := localGate(4, 8)
	it := numbered(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		g.push(queues[i%4], it)
		if _, _, err := g.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPartitioner(b *testing.B) {
	f := newFanOut(b, job.Hash, 4, 2048)
	const rows = 2048
	data := numbers(0, rows)
	data.Schema, data.Time = timedSchema, make([]int64, rows)
	for i := range data.Time {
		data.Time[i] = rows
	}
	data.Watermark = batch.NoWatermark
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Send(b.Context(), data); err != nil {
			b.Fatal(err)
		}
		for i := range f.gates {
			f.drain(b, i)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
