package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// tick is the resolution of the virtual clock.
const tick = 250 * time.Millisecond

// stepsPerTick is how many steps all coroutines together take in a tick: they compete for them, so that
// everything can be late.
const stepsPerTick = 4

// ticks converts a duration of the production code to ticks, at least one.
func ticks(d time.Duration) int { return max(int(d/tick), 1) }

// killed unwinds a coroutine whose host is gone.
type killed struct{}

// proc is a coroutine. Each of its steps is a point at which its host may crash, freeze or be overtaken.
type proc struct {
	w    *world
	name string
	// host is the operating system process that it runs in; nil for workflows, which outlive every process
	// and stand still while Temporal is away.
	host *process
	// ready is what it waits for; nil: it can run.
	ready func() bool
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
	dead  bool
	// brief: an execution of an activity that is not a long one.
	brief bool
	// slow makes it take a step only once in so many chances.
	slow int
}

// spawn starts a coroutine; it takes its first step in a later tick.
func (w *world) spawn(name string, host *process, body func(p *proc)) *proc {
	p := &proc{w: w, name: name, host: host}
	if w.slowness > 0 && w.rng.IntN(6) == 0 {
		p.slow = 2 + w.rng.IntN(w.slowness)
	}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer p.recovered()
		body(p)
	})
	w.procs = append(w.procs, p)
	return p
}

// recovered ends the coroutine. A panic of the production code is a violation like any other.
func (p *proc) recovered() {
	switch r := recover().(type) {
	case nil, killed:
	default:
		p.w.tracef("%s", debug.Stack())
		p.w.fail("PANIC", "%s: %v", p.name, r)
	}
}

func (p *proc) pause() {
	if !p.yield(struct{}{}) || p.dead {
		panic(killed{})
	}
}

// step lets the others run: whatever the process did before is done, whatever comes after may never be.
func (p *proc) step() { p.ready = nil; p.pause() }

// await pauses until the condition holds; at once if it does.
func (p *proc) await(cond func() bool) {
	for !cond() {
		p.ready = cond
		p.pause()
	}
	p.ready = nil
}

func (p *proc) sleep(n int) {
	until := p.w.now + n
	p.await(func() bool { return p.w.now >= until })
}

// world is one run of the simulation.
type world struct {
	cfg   Config
	rng   *rand.Rand
	now   int
	steps int
	procs []*proc
	// slowness is the highest proc.slow; 0: all are equally fast.
	slowness  int
	trace     []string
	violation *Violation
	counts    map[string]int

	faults   faults
	machines []*process // the current process of each machine
	zombies  []*process // frozen ones that were replaced
	workers  []*process // control workers
	started  int        // node processes so far
	// cutUntil is until when two machines cannot reach each other.
	cutUntil [maxMachines][maxMachines]int

	s3       *bucket
	kafka    *broker
	temporal *temporal
	reader   *reader
	input    *input
	audit    audit
	outcome  string
	endedAt  int
}

// Violation is what a run found.
type Violation struct {
	// Kind is one word: LOST, DOUBLE, TORN, …; see the table in the package documentation.
	Kind string
	Text string
	Tick int
}

// Error implements error.
func (v *Violation) Error() string { return fmt.Sprintf("%s at %d: %s", v.Kind, v.Tick, v.Text) }

func (w *world) fail(kind, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Kind: kind, Text: fmt.Sprintf(format, args...), Tick: w.now}
		w.tracef("VIOLATION %s", w.violation)
	}
}

func (w *world) tracef(format string, args ...any) {
	if w.cfg.Trace {
		w.trace = append(w.trace, fmt.Sprintf("%6d  %s", w.now, fmt.Sprintf(format, args...)))
	}
}

func (w *world) count(what string)        { w.counts[what]++ }
func (w *world) chance(percent int) bool  { return w.rng.IntN(100) < percent }
func (w *world) broken(r string) bool     { return w.cfg.Broken[r] }
func (w *world) clock() time.Time         { return epoch.Add(time.Duration(w.now) * tick) }
func (w *world) between(low, top int) int { return low + w.rng.IntN(top-low) }

// epoch is the wall clock at tick 0.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// tick moves the clock, lets faults and late requests happen, and runs one step of one process.
func (w *world) tick() {
	w.now++
	w.injectFaults()
	w.deliverLate()
	w.kafka.tick()
	for range stepsPerTick {
		if !w.runAny() {
			break
		}
	}
	w.checkTimeliness()
	if w.now%4 == 0 {
		w.reap()
	}
}

// runAny runs one step of one coroutine that can; false if there is none.
func (w *world) runAny() bool {
	n := len(w.procs)
	if n == 0 {
		return false
	}
	for range 6 {
		if p := w.procs[w.rng.IntN(n)]; w.runnable(p) {
			w.run(p)
			return true
		}
	}
	for i, from := 0, w.rng.IntN(n); i < n; i++ {
		if p := w.procs[(from+i)%n]; w.runnable(p) {
			w.run(p)
			return true
		}
	}
	return false
}

func (w *world) runnable(p *proc) bool {
	switch {
	case p.dead, p.host == nil && w.temporal.down, p.host != nil && !p.host.live():
		return false
	case p.slow > 0 && w.faults.on && w.rng.IntN(p.slow) != 0:
		return false
	}
	return p.ready == nil || p.ready()
}

func (w *world) run(p *proc) {
	w.steps++
	if _, more := p.next(); !more {
		p.dead = true
	}
}

// reap unwinds the dead.
func (w *world) reap() {
	kept := w.procs[:0]
	for _, p := range w.procs {
		if p.dead {
			p.stop()
		} else {
			kept = append(kept, p)
		}
	}
	clear(w.procs[len(kept):])
	w.procs = kept
}
