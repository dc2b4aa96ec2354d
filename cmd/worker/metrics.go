package worker

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/dataplane/node"
)

var (
	subtaskLabels = []string{"job", "vertex", "subtask"}
	recordsDesc   = prometheus.NewDesc("weir_records_total", "Records that a subtask read, in this attempt.", subtaskLabels, nil)
	bytesDesc     = prometheus.NewDesc("weir_bytes_total", "Bytes of the records that a source read, in this attempt.", subtaskLabels, nil)
	emittedDesc   = prometheus.NewDesc("weir_emitted_total", "Rows that a subtask's sinks took, in this attempt.", subtaskLabels, nil)
	lateDesc      = prometheus.NewDesc("weir_late_total", "Rows that came after their window had closed.", subtaskLabels, nil)
	skippedDesc   = prometheus.NewDesc("weir_skipped_total", "Bad rows that were skipped or diverted.", subtaskLabels, nil)
	lagDesc       = prometheus.NewDesc("weir_lag_records", "Records that a source has still to read; absent if unknown.", subtaskLabels, nil)
	stateDesc     = prometheus.NewDesc("weir_state_bytes", "Memory of a subtask's keyed state.", subtaskLabels, nil)

	jobLabels      = []string{"job"}
	attemptDesc    = prometheus.NewDesc("weir_attempt", "Number of the attempt that runs here; restarts are its growth less one.", jobLabels, nil)
	checkpointDesc = prometheus.NewDesc("weir_checkpoint_id", "Newest checkpoint that this node took its share of.", jobLabels, nil)
	ageDesc        = prometheus.NewDesc("weir_checkpoint_age_seconds", "Time since that share was durable.", jobLabels, nil)
	tookDesc       = prometheus.NewDesc("weir_checkpoint_duration_seconds", "Time that share took, from barrier to durable.", jobLabels, nil)
)

// figures collects a node's counters when they are asked for.
type figures struct{ n *node.Node }

// Describe implements prometheus.Collector.
func (figures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{recordsDesc, bytesDesc, emittedDesc, lateDesc, skippedDesc, lagDesc, stateDesc, attemptDesc, checkpointDesc, ageDesc, tookDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f figures) Collect(ch chan<- prometheus.Metric) {
	for _, a := range f.n.Figures() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}
		gauge(attemptDesc, float64(a.Ref.Attempt), a.Job)
		if !a.At.IsZero() {
			gauge(checkpointDesc, float64(a.Checkpoint), a.Job)
			gauge(ageDesc, time.Since(a.At).Seconds(), a.Job)
			gauge(tookDesc, a.Took.Seconds(), a.Job)
		}
		for _, s := range a.Subtasks {
			labels := []string{a.Job, s.ID.Vertex, strconv.Itoa(s.ID.Index)}
			count := func(d *prometheus.Desc, v int64) {
				ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
			}
			count(recordsDesc, s.Records)
			if s.Source {
				count(bytesDesc, s.Bytes)
			}
			count(emittedDesc, s.Emitted)
			count(lateDesc, s.Late)
			count(skippedDesc, s.Skipped)
			if s.Source && s.Lag >= 0 {
				gauge(lagDesc, float64(s.Lag), labels...)
			}
			gauge(stateDesc, float64(s.StateBytes), labels...)
		}
	}
}
