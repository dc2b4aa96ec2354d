package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/workflows"
)

func TestParseStat(t *testing.T) {
	const stat = "4711 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 1 0 100 200 300"
	if got, err := parseStat([]byte(stat)); err != nil || got != 1750*time.Millisecond {
		t.Errorf("got %v, %v, want 1.75s", got, err)
	}
	for _, bad := range []string{"", "4711 (a", "4711 (a) S 1 2", "1 (a) S 1 2 3 4 5 6 7 8 9 10 x 25"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

// The time of a process that works grows, and its memory is known.
func TestOwnUsage(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc")
	}
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for limit := time.Now().Add(20 * time.Second); after < before+2*tick; {
		if after, err = CPUTime(os.Getpid()); err != nil || time.Now().After(limit) {
			t.Fatalf("CPU time stays at %v: %v", after, err)
		}
	}
	if peak, err := peakBytes(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("peak memory: got %d, %v", peak, err)
	} else if now, err := ResidentBytes(os.Getpid()); err != nil || now < 1<<20 || now > 2*peak {
		t.Errorf("memory: got %d, %v, with a peak of %d before", now, err, peak)
	}
}

func TestSince(t *testing.T) {
	beside := []Process{{Name: "kafka"}}
	before := usage{weir: time.Second, beside: []time.Duration{2 * time.Second}, allocs: 10, bytes: 100, collections: 1, peak: 5}
	after := usage{weir: 4 * time.Second, beside: []time.Duration{7 * time.Second}, allocs: 30, bytes: 600, collections: 3, peak: 9}
	r := after.since(before, beside)
	if r.Weir != 3*time.Second || r.Beside[0] != (ProcessTime{"kafka", 5 * time.Second}) || r.Allocations != 20 ||
		r.AllocatedBytes != 500 || r.Collections != 2 || r.PeakBytes != 9 {
		t.Errorf("got %+v", r)
	}
}

func TestReport(t *testing.T) {
	r := Result{
		Job: "q0", Records: 2_000_000, Wall: 4 * time.Second, Weir: time.Second, Beside: []ProcessTime{{"Kafka", 500 * time.Millisecond}},
		Allocations: 20_000, AllocatedBytes: 1_000_000_000, Collections: 7, PeakBytes: 100 << 20,
		Checkpoints: []workflows.CheckpointView{{ID: 2, Result: "committed", Took: "54 ms", Sync: "2µs"}},
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2,000,000 in 4.00 s: 500,000 a second", "1.00 s, 500 ns a record", "Kafka", "0.50 s, 250 ns a record",
		"500 bytes in 0.0100 allocations a record; 7 collections", "100 MiB", "took 54 ms", "stopped for 2µs",
		"\nweir q0 records=2000000 wall=4.00 cpu=1.00\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -123456: "-123,456", -1234: "-1,234"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// Fill replaces what the topic holds, in partitions that share the events by turns.
func TestFill(t *testing.T) {
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	f := Fill{Brokers: kafka.ListenAddrs(), Topic: "nexmark", Partitions: 2, Events: 5001, Rate: 1000}
	for range 2 {
		if err := f.Nexmark(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.Brokers...), kgo.ConsumeTopics(f.Topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), f.Topic)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range []int64{2501, 2500} {
		if o, ok := ends.Lookup(f.Topic, int32(p)); !ok || o.Offset != want {
			t.Errorf("partition %d ends at %d, want %d", p, o.Offset, want)
		}
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seen := 0; seen < 5001; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen++
			event := 2*r.Offset + int64(r.Partition)
			if want := start.Add(time.Duration(event) * time.Millisecond); !r.Timestamp.Equal(want) || !strings.HasPrefix(string(r.Value), `{"event_type":`) {
				t.Fatalf("event %d: got %s at %s, want a time of %s", event, r.Value, r.Timestamp, want)
			}
		})
	}
}
