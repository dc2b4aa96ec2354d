package sim

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// running is the attempt that is deployed.
type running struct {
	attempt job.Attempt
	nodes   []job.NodeSlot
}

// jobState is what one run of the StreamJob hands to the next; workflows.State in brief.
type jobState struct {
	started                          bool
	attempt                          job.Attempt
	running                          *running
	next, decided, durable, complete job.CheckpointID
	floor                            job.CheckpointID
	unretired                        int
	parallelism                      int
}

// streamJob is one run of the StreamJob: it follows package workflows (streamjob.go, deploy.go, watch.go).
type streamJob struct {
	w    *world
	proc *proc
	st   jobState
	// ends are the attempts that are known to have ended.
	ends      map[job.Attempt]bool
	flight    *checkpointRun
	earlier   []*checkpointRun // undecided ones before it, by a broken rule
	retention *future
	nextAt    int
}

var (
	errDone      = errors.New("done")
	errCancelled = errors.New("cancelled")
	errContinue  = errors.New("continue as new")
	errLoss      = errors.New("records are lost")
)

// startJob starts a run of the StreamJob; one that is open ends, as Temporal has one open run per id.
func (w *world) startJob(st jobState) {
	if old := w.temporal.job; old != nil {
		old.proc.dead = true
	}
	j := &streamJob{w: w, st: st, ends: map[job.Attempt]bool{}}
	if st.running != nil {
		r := *st.running
		j.st.running = &r
	}
	w.temporal.job = j
	j.proc = w.spawn("StreamJob", nil, func(p *proc) {
		switch err := j.run(p); {
		case errors.Is(err, errContinue):
			w.count("continued as new")
			w.tracef("StreamJob continues as new")
			w.temporal.job = nil
			w.startJob(j.st)
		case errors.Is(err, errDone):
			w.finish("done")
		case errors.Is(err, errCancelled):
			w.finish("cancelled")
		default:
			w.tracef("StreamJob stops: %v", err)
			w.finish("stopped")
		}
	})
}

// finish closes the StreamJob.
func (w *world) finish(how string) {
	w.temporal.job = nil
	w.outcome, w.endedAt = how, w.now
	w.tracef("StreamJob: %s", how)
}

func (j *streamJob) run(p *proc) error {
	if !j.st.started {
		err := j.retrying(p, func() error {
			_, err := result[any](p, j.w.start("StartPosition", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
				return nil, j.w.startPosition(q, j.graph())
			}))
			return err
		})
		if err != nil {
			return err
		}
		j.st.started = true
	}
	for {
		if j.st.running == nil {
			if err := j.deploy(p); err != nil {
				return err
			}
		}
		if err := j.watch(p); err != nil {
			return err
		}
	}
}

func (j *streamJob) graph() job.Graph { return graphOf(j.st.parallelism) }

// retrying repeats a step until it succeeds or can never succeed.
func (j *streamJob) retrying(p *proc, step func() error) error {
	for {
		err := step()
		stop := permanent{}
		if err == nil || errors.As(err, &stop) {
			return err
		}
		j.w.tracef("StreamJob waits: %v", err)
		p.sleep(j.w.between(4, 20))
	}
}

// deploy plans and starts the next attempt.
func (j *streamJob) deploy(p *proc) error {
	for {
		c, err := j.recovered(p, false)
		if err != nil {
			return err
		}
		if c.final && !j.w.broken(FinalRedeploy) {
			return errDone
		}
		if j.w.broken(ResolveAgain) && c.newest == 0 {
			j.w.audit.resolveAgain()
		}
		var pl placed
		err = j.retrying(p, func() (err error) {
			pl, err = result[placed](p, j.w.start("PlaceAttempt", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
				return j.w.placeAttempt(q, c.attempt, c.newest, j.st.next, j.graph())
			}))
			return err
		})
		if err != nil {
			return err
		}
		if pl.taken || j.w.temporal.attempts[c.attempt] != nil {
			continue
		}
		j.w.startAttempt(c.attempt, pl.nodes)
		j.w.tracef("StreamJob: attempt %d from checkpoint %d, parallelism %d on %v", c.attempt, c.newest, j.st.parallelism, pl.nodes)
		if j.w.broken(LateRecover) {
			j.w.start("RecoverSinks", options{}, func(q *proc, _ *execution) (any, error) {
				return j.w.recoverSinks(q, c.attempt, c.newest, false)
			})
		}
		j.st.running = &running{c.attempt, pl.nodes}
		j.nextAt = j.w.now + j.w.between(5, j.w.cfg.interval())
		return nil
	}
}

// recovered claims the next attempt number and brings the sinks to the newest checkpoint under it.
func (j *streamJob) recovered(p *proc, terminal bool) (claim, error) {
	w := j.w
	for {
		var c claim
		err := j.retrying(p, func() (err error) {
			c, err = result[claim](p, w.start("ClaimAttempt", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
				return w.claimAttempt(q, j.st.attempt, false)
			}))
			return err
		})
		if err != nil {
			return c, err
		}
		j.st.attempt, j.st.next, j.st.decided, j.st.floor = c.attempt, c.first, c.first-1, c.floor
		if w.broken(NoRecover) && !terminal || w.broken(NoTerminalRecover) && terminal || w.broken(LateRecover) && !terminal {
			j.st.durable, j.st.complete = c.newest, 0
			return c, nil
		}
		var r recovery
		err = j.retrying(p, func() (err error) {
			r, err = result[recovery](p, w.start("RecoverSinks", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
				return w.recoverSinks(q, c.attempt, c.newest, terminal)
			}))
			return err
		})
		if err != nil {
			return c, err
		}
		switch {
		case r.again:
		case r.verdict == transaction.Complete:
			j.st.durable, j.st.complete = c.newest, c.newest
			return c, nil
		case r.verdict == transaction.SomeLost:
			return c, permanent{fmt.Errorf("checkpoint %d: %w", c.newest, errLoss)}
		case r.verdict == transaction.AllLost:
			taken, err := j.fallBack(p, &c)
			if err != nil {
				return c, err
			}
			if !taken {
				return c, nil
			}
		}
	}
}

// fallBack repeats the checkpoint before the lost one under the next id.
func (j *streamJob) fallBack(p *proc, c *claim) (taken bool, err error) {
	n := j.st.next
	j.st.next++
	err = j.retrying(p, func() (err error) {
		taken, err = result[bool](p, j.w.start("FallBack", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
			return j.w.fallBack(q, c.attempt, c.newest, n)
		}))
		return err
	})
	if errors.Is(err, errGone) {
		j.w.checkNoTarget(c.newest)
	}
	if err != nil || taken {
		return taken, err
	}
	c.newest, c.final = n, false
	j.st.decided, j.st.durable, j.st.complete = n, n, n
	return false, nil
}

// terminal does what every end of a job does: a new attempt number that is never deployed, and RecoverSinks
// under it.
func (j *streamJob) terminal(p *proc, end error) error {
	c, err := j.recovered(p, true)
	if err != nil {
		return err
	}
	if errors.Is(end, errDone) && !c.final {
		return nil
	}
	return end
}

// watch takes checkpoints of the running attempt until it ends. nil: plan the next attempt.
func (j *streamJob) watch(p *proc) error {
	w, attempt := j.w, j.st.running.attempt
	backstop := w.start("AwaitAttempt", options{long: true}, func(q *proc, x *execution) (any, error) {
		q.await(func() bool {
			return (x.cancelled || x.forgotten || !w.temporal.attemptOpen(attempt)) && !w.temporal.down
		})
		return nil, nil
	})
	defer func() { backstop.cancel = true }()
	over := func() bool { return j.over(attempt, backstop) }
	for {
		if j.flight == nil && len(w.temporal.history) < 60 {
			w.temporal.history = append(w.temporal.history, j.st)
		}
		if j.mayContinue() && w.chance(w.cfg.renew) {
			return errContinue
		}
		p.await(func() bool {
			return over() || j.flight != nil && j.flight.done || (j.flight == nil || w.broken(Overlap)) && (w.now >= j.nextAt || w.command() != "")
		})
		j.overlap(over())
		flying := j.flight != nil
		final, end := j.land(p, over())
		if w.broken(FinalRedeploy) {
			final, end = false, final || end
		}
		switch cmd := w.command(); {
		case final:
			j.stop(p, over)
			return j.terminal(p, errDone)
		case over() || end:
			j.stop(p, over)
			return nil
		case cmd != "" && j.flight == nil:
			w.obeyed(cmd)
			j.stop(p, over)
			if cmd == "cancel" {
				return j.terminal(p, errCancelled)
			}
			j.st.parallelism = w.audit.parallelism
			return nil
		case !flying && !j.launch():
			j.stop(p, over)
			return nil
		}
	}
}

// over reports whether an attempt is known to have ended: by its signal, or by the backstop.
func (j *streamJob) over(a job.Attempt, backstop *future) bool {
	t := j.w.temporal
	for _, ended := range t.signals {
		j.ends[ended] = true
	}
	t.signals = nil
	if backstop.done && !j.w.broken(NoBackstop) {
		j.ends[a] = true
	}
	return j.ends[a]
}

// mayContinue: nothing is lost when this run continues as new.
func (j *streamJob) mayContinue() bool {
	if j.w.broken(ContinueEarly) {
		return j.retention == nil || j.retention.done
	}
	return j.flight == nil && (j.retention == nil || j.retention.done)
}

// launch orders the next checkpoint; false when its workflow id is taken.
func (j *streamJob) launch() bool {
	n := j.st.next
	j.st.next++
	if j.w.temporal.checkpoints[n] != nil {
		return false
	}
	j.flight = j.w.startCheckpoint(checkpointOrder{
		barrier: checkpoint.Barrier{
			Ref: ref(j.st.running.attempt), ID: n, Remaining: j.w.cfg.timeout(),
			Decided: j.st.decided, Durable: j.st.durable, Committed: j.st.complete, Aligned: !j.w.broken(NoAlignment),
		},
		nodes: j.st.running.nodes, floor: j.st.floor, graph: j.graph(),
	})
	return true
}

// land takes the result of the checkpoint in flight. With force it must end now, since its attempt has.
func (j *streamJob) land(p *proc, force bool) (final, endAttempt bool) {
	f := j.flight
	if f == nil || !f.done && !force {
		return false, false
	}
	switch {
	case f.done:
	case j.w.broken(NoDecision):
		f.result = undecided
	default:
		f.cancel = true
		p.await(func() bool { return f.done })
	}
	j.flight, j.nextAt = nil, j.w.now+j.w.between(3, j.w.cfg.interval())
	final, endAttempt = j.st.after(f)
	j.retire()
	return final, endAttempt
}

// after applies a checkpoint's result to the state and says what follows; workflows.State.after.
func (s *jobState) after(f *checkpointRun) (final, endAttempt bool) {
	n := f.order.barrier.ID
	if f.result != undecided {
		s.decided = max(s.decided, n)
	}
	switch f.result {
	case committed:
		s.durable, s.complete = max(s.durable, n), max(s.complete, n)
		s.unretired++
		return f.final, false
	case durable:
		s.durable = max(s.durable, n)
		s.unretired++
		return false, f.final
	case lostTransactions:
		s.durable = max(s.durable, n)
		return false, true
	case refused, undecided:
		return false, true
	}
	return false, false
}

// retire runs retention in the background, one at a time.
func (j *streamJob) retire() {
	if j.retention != nil && j.retention.done {
		if floor, err := valueOf[job.CheckpointID](j.retention); err == nil {
			j.st.floor = max(j.st.floor, floor)
		}
		j.retention = nil
	}
	if j.retention == nil && j.st.unretired >= max(1, (j.w.cfg.keep+1)/2) {
		j.st.unretired = 0
		j.retention = j.w.start("Retain", options{}, func(q *proc, _ *execution) (any, error) { return j.w.retain(q) })
	}
}

// stop ends the running attempt, unless it has ended, and waits until it has.
func (j *streamJob) stop(p *proc, over func() bool) {
	if r := j.w.temporal.attempts[j.st.running.attempt]; !over() && r != nil && !r.closed {
		r.cancel = true
		p.await(over)
	}
	j.st.running = nil
}
