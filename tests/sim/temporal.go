package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// The timeouts of activities, as package workflows sets them, in ticks.
var (
	heartbeat       = ticks(10 * time.Second)
	scheduleToStart = ticks(30 * time.Second)
	startToClose    = ticks(60 * time.Second)
)

// temporal is the model of Temporal: workflows are coroutines that no crash of ours reaches; activities are
// retried until they answer, and an execution whose worker was silent for too long goes on as a zombie.
type temporal struct {
	down bool
	// executions of activities that the server waits for.
	executions []*execution
	// attempts and checkpoints are the child workflows, by number. A workflow id is used once.
	attempts    map[job.Attempt]*attemptRun
	checkpoints map[job.CheckpointID]*checkpointRun
	// job is the open run of the StreamJob; nil when it is closed.
	job *streamJob
	// signals are the unread attempt-ended signals to the StreamJob.
	signals []job.Attempt
	// history are the states of the StreamJob to which it can be reset.
	history []jobState
}

func newTemporal() *temporal {
	return &temporal{attempts: map[job.Attempt]*attemptRun{}, checkpoints: map[job.CheckpointID]*checkpointRun{}}
}

// permanent marks an error that is not retried.
type permanent struct{ error }

func (e permanent) Unwrap() error { return e.error }

var (
	errTimeout     = errors.New("activity timed out")
	errUnscheduled = errors.New("no worker took the activity in time")
)

// options of an activity. The zero value runs on any control worker and is repeated until it succeeds.
type options struct {
	on   *process
	long bool // it may take for ever; only its heartbeats tell that it lives
	// startWithin is the schedule-to-start timeout; 0: the usual one, for activities of a node.
	startWithin int
	attempts    int
}

// execution is one try of an activity. forgotten: the server has given it up, its heartbeats answer NOT_FOUND
// and its result is refused. cancelled: its workflow asked it to end.
type execution struct {
	scheduled            int
	forgotten, cancelled bool
	done                 bool
	value                any
	err                  error
}

// future is an activity as its workflow sees it. closed: the workflow is closed, so the server knows the
// activity no more.
type future struct {
	done, cancel, closed bool
	value                any
	err                  error
}

// result waits for an activity.
func result[T any](p *proc, f *future) (T, error) {
	p.await(func() bool { return f.done })
	return valueOf[T](f)
}

func valueOf[T any](f *future) (T, error) {
	v, _ := f.value.(T)
	return v, f.err
}

type activity func(p *proc, x *execution) (any, error)

// start schedules an activity and returns at once.
func (w *world) start(name string, o options, body activity) *future {
	f := &future{}
	scheduled := w.now
	w.spawn("activity "+name, nil, func(p *proc) {
		for try := 1; ; try++ {
			host := w.place(p, f, o)
			if f.cancel || f.closed {
				f.done, f.err = true, permanent{errors.New("cancelled")}
				return
			}
			if host == nil {
				f.done, f.err = true, permanent{fmt.Errorf("%s: %w", name, errUnscheduled)}
				return
			}
			if try > 1 {
				w.count("activities retried")
			}
			x := &execution{scheduled: scheduled}
			w.execute(name, host, x, o, body)
			w.supervise(p, f, host, x, o)
			stop := permanent{}
			if x.err == nil || f.cancel || errors.As(x.err, &stop) || try == o.attempts {
				f.value, f.err, f.done = x.value, x.err, true
				return
			}
			p.sleep(2 + w.rng.IntN(6)) // back-off
		}
	})
	return f
}

// place waits for a process that takes the activity; nil: none came in time.
func (w *world) place(p *proc, f *future, o options) *process {
	if o.on != nil {
		within := o.startWithin
		if within == 0 {
			within = scheduleToStart
		}
		until := w.now + within
		p.await(func() bool { return f.cancel || f.closed || o.on.reachesTemporal() || w.now > until })
		if !o.on.reachesTemporal() {
			return nil
		}
		return o.on
	}
	var host *process
	p.await(func() bool {
		host = w.workers[w.rng.IntN(len(w.workers))]
		return f.cancel || f.closed || host.reachesTemporal()
	})
	return host
}

// execute runs the activity's body in a process, which may die, freeze or be cut off meanwhile.
func (w *world) execute(name string, host *process, x *execution, o options, body activity) {
	t := w.temporal
	t.executions = append(t.executions, x)
	q := w.spawn(name+"@"+string(host.id), host, func(p *proc) {
		p.step()
		value, err := body(p, x)
		p.at(name + " reports")
		p.await(func() bool { return x.forgotten || !t.down && !host.cut })
		p.step()
		if !x.forgotten {
			x.value, x.err, x.done = value, err, true
		}
	})
	q.brief = !o.long
}

// supervise is the server's side of one execution. It returns when that has answered, was given up (then its
// error says so) or was cancelled.
func (w *world) supervise(p *proc, f *future, host *process, x *execution, o options) {
	began, seen, life := w.now, w.now, host.crashes
	p.await(func() bool {
		if host.reachesTemporal() && host.crashes == life && w.now-seen <= heartbeat {
			seen = w.now
		}
		return x.done || f.cancel || f.closed || w.now > seen+heartbeat || !o.long && w.now > began+startToClose
	})
	w.temporal.executions = without(w.temporal.executions, x)
	switch {
	case x.done:
	case f.closed:
		x.forgotten = true
		x.err = permanent{errors.New("the workflow is closed")}
	case f.cancel:
		x.cancelled = true
		x.forgotten = w.chance(50) // the workflow may be closed before the next heartbeat
		x.err = permanent{errors.New("cancelled")}
	default:
		x.forgotten = true
		x.err = errTimeout
	}
}

func without[T comparable](list []T, v T) []T {
	for i := range list {
		if list[i] == v {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// attemptOpen is what a node learns when it asks Temporal about its Attempt.
func (t *temporal) attemptOpen(a job.Attempt) bool {
	r := t.attempts[a]
	return r != nil && !r.closed
}

// loseDatabase empties Temporal; when it is back the job is started again, to go on from the store.
func (w *world) loseDatabase() {
	for _, p := range w.procs {
		if p.host == nil {
			p.dead = true
		}
	}
	for _, x := range w.temporal.executions {
		x.forgotten = true
	}
	*w.temporal = *newTemporal()
	w.temporal.down = true
	w.after(20+w.rng.IntN(200), func() {
		w.temporal.down = false
		w.tracef("Temporal is back, empty; the job is started again")
		if w.outcome == "" {
			w.startJob(jobState{parallelism: w.audit.parallelism})
		}
	})
}

// resetJob resets the StreamJob to a point in its past, as an operator can.
func (w *world) resetJob() bool {
	t := w.temporal
	if len(t.history) == 0 || t.job == nil || w.outcome != "" {
		return false
	}
	st := t.history[w.rng.IntN(len(t.history))]
	w.tracef("StreamJob is reset to attempt %d, next checkpoint %d", st.attempt, st.next)
	w.startJob(st)
	return true
}

// terminateAttempt terminates an Attempt: it ends without a word to anybody.
func (w *world) terminateAttempt(nth int) bool {
	var open []*attemptRun
	for a := job.Attempt(1); a <= w.audit.newestAttempt; a++ {
		if r := w.temporal.attempts[a]; r != nil && !r.closed {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return false
	}
	r := open[nth%len(open)]
	w.tracef("Attempt %d is terminated", r.n)
	r.proc.dead = true
	r.over, r.closed, r.terminated = true, true, true
	for _, f := range r.activities {
		f.closed = true
	}
	return true
}
