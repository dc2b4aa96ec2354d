package sim

import (
	"time"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// attemptRun is one Attempt workflow; it follows workflows/attempt.go.
type attemptRun struct {
	w          *world
	n          job.Attempt
	nodes      []job.NodeSlot
	proc       *proc
	began      int
	activities []*future
	cancel     bool
	closed     bool
	terminated bool
	lost       job.NodeID
	// orphaned: its StreamJob is closed; over: nothing more is to be watched.
	orphaned, over bool
}

var (
	stopStart = ticks(5 * time.Second)
	stopWait  = ticks(3 * time.Second)
	rewatch   = ticks(10 * time.Second)
	askEvery  = ticks(5 * time.Second)
)

func (w *world) startAttempt(a job.Attempt, nodes []job.NodeSlot) {
	r := &attemptRun{w: w, n: a, nodes: nodes, began: w.now}
	w.temporal.attempts[a] = r
	w.audit.newestAttempt = max(w.audit.newestAttempt, a)
	w.audit.atRest = false
	r.proc = w.spawn("Attempt", nil, r.run)
}

// start schedules an activity of this workflow.
func (r *attemptRun) start(name string, o options, body activity) *future {
	f := r.w.start(name, o, body)
	r.activities = append(r.activities, f)
	return f
}

func (r *attemptRun) run(p *proc) {
	w := r.w
	var runs []*future
	for _, s := range r.nodes {
		h := w.node(s.Node)
		if h == nil { // gone for good: its queue is polled by nobody
			h = &process{w: w, id: s.Node}
		}
		runs = append(runs, r.start("RunTasks", options{on: h, long: true}, func(q *proc, x *execution) (any, error) {
			return nil, w.runTasks(q, x, h, r.n)
		}))
	}
	for range 2 {
		w.spawn("watch", nil, r.keepWatching)
	}
	ended := func() bool {
		for _, f := range runs {
			if f.done {
				return true
			}
		}
		return false
	}
	p.await(func() bool { return r.cancel || r.orphaned || r.lost != "" || ended() })
	w.tracef("Attempt %d ends (cancelled %v, orphaned %v, lost %q, tasks ended %v)", r.n, r.cancel, r.orphaned, r.lost, ended())
	if !r.cancel && !r.orphaned && r.lost == "" {
		r.checkNeedless()
	}
	r.obligeStops()
	r.stop(p)
	r.over = true
	for _, f := range runs {
		f.cancel = true
	}
	p.step()
	told := w.temporal.job != nil
	if told {
		w.temporal.signals = append(w.temporal.signals, r.n)
	}
	if (!told || r.orphaned) && !w.broken(NoTerminalRecover) {
		r.cleanUp(p)
	}
	r.closed = true
}

// keepWatching keeps one WatchNodes going, on another node when one fails.
func (r *attemptRun) keepWatching(p *proc) {
	for {
		f := r.watch()
		p.await(func() bool { return f.done || r.over })
		if r.over || f.err == nil {
			f.cancel = true
			return
		}
		p.sleep(rewatch)
	}
}

// watch is WatchNodes on some node.
func (r *attemptRun) watch() *future {
	w := r.w
	h := w.machines[w.rng.IntN(len(w.machines))]
	return r.start("WatchNodes", options{on: h, long: true}, func(q *proc, x *execution) (any, error) {
		q.await(func() bool {
			if x.forgotten || x.cancelled {
				return true
			}
			for _, s := range r.nodes {
				if w.lost(s.Node) {
					r.lost = s.Node
					return true
				}
			}
			if h.reachesTemporal() && w.temporal.job == nil && w.outcome != "" {
				r.orphaned = true
			}
			return r.orphaned
		})
		return nil, nil
	})
}

// stop asks every node to stop, best effort.
func (r *attemptRun) stop(p *proc) {
	w := r.w
	if w.broken(NoStopTasks) {
		return
	}
	var stops []*future
	for _, s := range r.nodes {
		h := w.node(s.Node)
		if h == nil {
			continue
		}
		o := options{on: h, startWithin: stopStart, attempts: 1}
		stops = append(stops, r.start("StopTasks", o, func(q *proc, _ *execution) (any, error) {
			w.stopTasks(q, h, r.n)
			return nil, nil
		}))
	}
	until := w.now + stopWait
	p.await(func() bool {
		for _, f := range stops {
			if !f.done {
				return w.now >= until
			}
		}
		return true
	})
}

// cleanUp brings the sinks to rest behind a StreamJob that was terminated, unless somebody has planned since.
func (r *attemptRun) cleanUp(p *proc) {
	w := r.w
	for above := r.n; ; p.sleep(w.between(4, 20)) {
		c, err := result[claim](p, r.start("ClaimAttempt", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
			return w.claimAttempt(q, above, true)
		}))
		if err != nil {
			continue
		}
		if c.superseded {
			return
		}
		above = c.attempt
		v, err := result[recovery](p, r.start("RecoverSinks", options{attempts: 1}, func(q *proc, _ *execution) (any, error) {
			return w.recoverSinks(q, c.attempt, c.newest, true)
		}))
		if err == nil && !v.again && v.verdict != transaction.Pending {
			w.count("cleaned up behind a closed job")
			return
		}
	}
}
