package sim

import (
	"math/rand/v2"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

const (
	minFailures    = 5
	minCheckpoints = 8
	// settle is how long a run goes on after the job's end, so that zombies wake up and do their worst.
	settle = 700
	// liveness is how long a job may take to its end once the faults have stopped.
	liveness = 6000
	// commitMargin is the production's.
	commitMargin = 15 * time.Second
)

// Config is one run.
type Config struct {
	Seed uint64
	// Broken are the rules to break, by name (Rules).
	Broken map[string]bool
	// Remembers leaves out what makes the StreamJob lose its memory: a reset, a termination, the loss of Temporal's
	// database.
	Remembers bool
	// Trace keeps a line for everything that happens.
	Trace bool

	// keep is how many checkpoints are kept, every the longest pause between two of them, renew how likely the
	// StreamJob continues as new when it can, in percent.
	keep, every, renew int
}

func (c Config) interval() int          { return c.every }
func (c Config) timeout() time.Duration { return 60 * time.Second }

// Result is what came of a run.
type Result struct {
	Seed uint64
	// Violation is nil if every check held.
	Violation *Violation
	// Outcome is how the job ended: "done", "cancelled", "terminated", or "stopped" with a loud loss.
	Outcome string
	// Failures and Checkpoints (durable ones) are how much the run has seen; Steps how many steps its processes
	// took, Ticks how long it lasted.
	Failures, Checkpoints, Attempts, Steps, Ticks int
	// Counts are how often what happened.
	Counts map[string]int
	// Points are the places where a process could have been stopped, and how often it came by.
	Points map[string]int
	Trace  []string
}

// Run simulates one job from its start to its end and to the rest of every zombie. It is a pure function of
// its argument.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	w.startJob(jobState{parallelism: w.audit.parallelism})
	for w.violation == nil {
		w.tick()
		w.open()
		if w.outcome != "" && w.now > w.endedAt+settle && len(w.faults.alarms) == 0 {
			break
		}
		if !w.faults.on && w.outcome == "" && w.now > w.faults.until+liveness {
			w.fail("STUCK", "the job has not ended, %d ticks after the last fault", w.now-w.faults.until)
		}
	}
	w.checkEnd()
	for _, p := range w.procs {
		p.stop()
	}
	return Result{
		Seed: cfg.Seed, Violation: w.violation, Outcome: w.outcome, Failures: w.faults.failures,
		Checkpoints: w.counts["durable checkpoints"] - 1, Attempts: int(w.audit.newestAttempt), Steps: w.steps, Ticks: w.now, Counts: w.counts, Points: w.faults.seen, Trace: w.trace,
	}
}

// open lets the input come to its end once the run has seen enough.
func (w *world) open() {
	if w.input.shut && w.faults.failures >= minFailures && w.counts["durable checkpoints"] > minCheckpoints && w.now > w.faults.until/2 {
		w.input.shut = false
		w.tracef("the input ends")
	}
	if w.audit.terminate && !w.input.shut && w.outcome == "" && w.temporal.job != nil {
		w.terminateJob()
	}
}

// terminateJob terminates the StreamJob, at a moment when it has an Attempt that can clean up behind it.
func (w *world) terminateJob() {
	j := w.temporal.job
	if j.st.running == nil {
		return
	}
	if r := w.temporal.attempts[j.st.running.attempt]; r == nil || r.closed || r.cancel {
		return
	}
	w.tracef("StreamJob is terminated")
	j.proc.dead = true
	w.finish("terminated")
}

func newWorld(cfg Config) *world {
	r := rand.New(rand.NewPCG(cfg.Seed, 0x7765_6972))
	cfg.keep, cfg.every, cfg.renew = 1+r.IntN(3), []int{20, 40, 80}[r.IntN(3)], []int{2, 10, 40}[r.IntN(3)]
	w := &world{cfg: cfg, rng: r, counts: map[string]int{}, temporal: newTemporal()}
	w.audit = audit{
		w: w, parallelism: 2 + r.IntN(2), retired: map[job.CheckpointID]bool{}, fellBack: map[job.CheckpointID]bool{},
		judged: map[job.CheckpointID]int{}, messages: map[job.CheckpointID]checkpoint.Manifest{}, standing: map[job.CheckpointID]checkpoint.Manifest{},
	}
	w.s3 = &bucket{service: service{name: "S3"}, w: w, objects: map[string]object{}}
	w.kafka = &broker{service: service{name: "Kafka"}, w: w, ids: map[string]*producerID{}, protocol: 1 + r.IntN(2)}
	if r.IntN(4) == 0 {
		w.kafka.timeout = w.between(250, 800)
	}
	w.reader = &reader{w: w}
	w.slowness = []int{0, 8, 30}[r.IntN(3)]
	w.input = &input{w: w, shut: true, every: w.between(20, 60)}
	for q := range w.input.keys {
		for range w.between(30, 60) {
			w.input.keys[q] = append(w.input.keys[q], r.IntN(numKeys))
		}
	}
	w.machines = make([]*process, 2+r.IntN(maxMachines-1))
	for i := range w.machines {
		w.newNode(i)
	}
	for i := range 2 {
		w.workers = append(w.workers, &process{w: w, id: job.NodeID([]string{"w0", "w1"}[i]), machine: i, control: true, up: true})
	}
	w.drawFaults()
	for range r.IntN(3) {
		w.audit.commands = append(w.audit.commands, command{"rescale", 200 + r.IntN(w.faults.until)})
	}
	switch r.IntN(8) {
	case 0:
		w.audit.commands = append(w.audit.commands, command{"cancel", 0})
	case 1:
		w.audit.terminate = !cfg.Remembers
	}
	return w
}

// checkEnd holds a finished run against what must be true then.
func (w *world) checkEnd() {
	if w.violation != nil || w.outcome == "" {
		return
	}
	if w.outcome == "stopped" {
		if w.kafka.timeout == 0 {
			w.fail("FALSE ALARM", "the job stopped though nothing was lost")
		}
		return
	}
	if w.reader.gap {
		w.fail("SILENT LOSS", "the reader missed records and the job is %s", w.outcome)
	}
	for _, t := range w.kafka.all {
		if t.state.open() && !t.afterEnd {
			w.fail("OPEN", "%s is open %d ticks after the end", t, w.now-w.endedAt)
		}
	}
	w.checkTorn()
	w.checkOutput()
}

// checkTorn: a durable checkpoint's transactions are all committed, or all aborted and fallen back from.
func (w *world) checkTorn() {
	for _, m := range w.audit.durable {
		kept, gone := 0, 0
		for _, t := range m.Transactions {
			if x := w.kafka.find(t.ID, t.ProducerID, t.ProducerEpoch); x != nil && x.state == completeCommit {
				kept++
			} else {
				gone++
			}
		}
		if gone > 0 && !w.audit.fellBack[m.ID] {
			w.fail("TORN", "checkpoint %d was durable; %d of its transactions are committed, %d are not", m.ID, kept, gone)
		}
	}
}

// checkOutput: the output is that of the input, or of the newest checkpoint where the job ended before.
func (w *world) checkOutput() {
	want := w.input.final()
	if w.outcome != "done" {
		m := w.audit.durable[0]
		for _, d := range w.audit.durable {
			if d.ID > m.ID {
				m = d
			}
		}
		want = w.input.counts(positionsOf(m))
		if m.Final {
			want = w.input.final()
		}
	}
	if w.reader.last != want {
		w.fail("OUTPUT", "the output ends at %v, want %v (%s)", w.reader.last, want, w.outcome)
	}
}
