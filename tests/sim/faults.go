package sim

import (
	"sort"
	"time"
)

// faults is what goes wrong in one run, all of it drawn from the seed.
type faults struct {
	on bool
	// until is when they stop, so that progress can be demanded.
	until int
	// flaky is the share of requests, in percent, that the network spoils.
	flaky int
	late  []lateRequest
	// timed happen at their time; traps when their label is reached for the n-th time.
	timed  []fault
	traps  map[string]trap
	seen   map[string]int
	alarms []alarm
	// hit counts what happened, by kind; failures is the sum.
	failures int
}

type fault struct {
	at, a, b, length int
	kind             string
}

type trap struct {
	nth  int
	kind string
	// length is for how long a freeze or an outage lasts.
	length int
}

type alarm struct {
	at  int
	act func()
}

// faultKinds are the timed ones.
var faultKinds = []string{
	"crash", "crash", "freeze", "freeze", "crash all", "worker crash", "worker freeze", "partition",
	"temporal away", "cut from temporal", "kafka away", "s3 away", "database lost", "job reset", "attempt terminated",
	"a day passes", "snapshots fail",
}

// trapLabels are the points at which a process can be made to crash or freeze; world.at panics on others, so
// the list is complete.
var trapLabels = []string{
	"create manifest", "create manifest, done", "put manifest", "put manifest, done", "get manifest", "get manifest, done",
	"put committed", "put committed, done", "get committed", "get committed, done", "create part", "create part, done",
	"get part", "get part, done", "upload", "upload, done", "get shared", "get shared, done", "list", "list, done",
	"create attempt", "create attempt, done", "get attempt", "get attempt, done", "create retention", "create retention, done",
	"get retention", "get retention, done", "delete manifest", "delete manifest, done", "delete shared", "delete shared, done",
	"delete part", "delete part, done", "delete committed", "delete committed, done", "delete attempt", "delete attempt, done",
	"delete retention", "delete retention, done",
	"InitProducerID", "InitProducerID, done", "Produce", "Produce, done", "EndTxn commit", "EndTxn commit, done",
	"EndTxn abort", "EndTxn abort, done", "DescribeTransactions", "DescribeTransactions, done", "ListTransactions",
	"ListTransactions, done", "fence", "fence, done",
	"deploy", "restored", "inject", "freeze state", "flushed", "listed", "acked", "barrier sent", "record sent",
	"RunTasks reports", "StopTasks reports", "Snapshot reports", "WatchNodes reports", "AwaitAttempt reports",
	"StartPosition reports", "ClaimAttempt reports", "RecoverSinks reports", "FallBack reports", "PlaceAttempt reports",
	"CommitCheckpoint reports", "AbortCheckpoint reports", "CommitSinks reports", "Retain reports",
}

var knownLabels = func() map[string]bool {
	m := map[string]bool{}
	for _, l := range trapLabels {
		m[l] = true
	}
	return m
}()

// drawFaults plans a run: at least minFailures of them, half of them at exact points of the protocol.
func (w *world) drawFaults() {
	f, r := &w.faults, w.rng
	f.on, f.until = true, w.between(1100, 2200)
	f.traps, f.seen = map[string]trap{}, map[string]int{}
	if r.IntN(2) == 0 {
		f.flaky = []int{1, 3, 8}[r.IntN(3)]
	}
	for range w.between(minFailures, minFailures+5) {
		if r.IntN(2) == 0 {
			t := trap{nth: 1 + r.IntN(1+r.IntN(12)), kind: "freeze", length: w.duration()}
			switch r.IntN(9) {
			case 0, 1, 2:
				t.kind = "crash"
			case 3:
				t.kind = []string{"temporal away", "kafka away", "s3 away", "crash all"}[r.IntN(4)]
			}
			f.traps[trapLabels[r.IntN(len(trapLabels))]] = t
		}
		f.timed = append(f.timed, w.drawFault(r.IntN(f.until)))
	}
	sort.SliceStable(f.timed, func(i, j int) bool { return f.timed[i].at < f.timed[j].at })
	for range len(f.traps) { // traps are extra where they are hit at all
		f.timed = f.timed[:max(len(f.timed)-1, minFailures)]
	}
}

func (w *world) drawFault(at int) fault {
	r := w.rng
	kind := faultKinds[r.IntN(len(faultKinds))]
	if w.cfg.Remembers && (kind == "database lost" || kind == "job reset") {
		kind = "crash"
	}
	return fault{at: at, kind: kind, a: r.IntN(6), b: r.IntN(6), length: w.duration()}
}

func (w *world) duration() int {
	return []int{15, 40, 80, 150, 300, 600}[w.rng.IntN(6)] + w.rng.IntN(30)
}

// at is called where something can go wrong inside a process.
func (p *proc) at(label string) {
	w := p.w
	if p.host == nil {
		return
	}
	if !knownLabels[label] {
		w.fail("LABEL", "%q is not in the table of points", label)
	}
	f := &w.faults
	f.seen[label]++
	t := f.traps[label]
	if !f.on || t.nth == 0 || t.nth != f.seen[label] {
		return
	}
	w.tracef("trap at %q in %s: %s", label, p.name, t.kind)
	if t.kind == "crash" || t.kind == "freeze" {
		w.hit(p.host, t.kind, t.length)
		return
	}
	w.inject(fault{kind: t.kind, length: t.length})
}

// after runs act n ticks from now.
func (w *world) after(n int, act func()) {
	w.faults.alarms = append(w.faults.alarms, alarm{w.now + n, act})
}

// hit crashes or freezes a process. A crashed one is started again; a frozen one goes on some time later, and
// half of the frozen nodes are replaced meanwhile, so that they wake up as zombies.
func (w *world) hit(h *process, kind string, length int) {
	if !h.live() {
		return
	}
	w.faults.failures++
	w.count("fault: " + kind)
	w.trouble(max(length, minTrouble))
	if kind == "crash" {
		w.crash(h)
		w.after(w.between(10, 60), func() { w.restart(h) })
		return
	}
	h.frozen, h.hitAt = true, w.now
	w.tracef("FREEZE of %s for %d", h.id, length)
	w.after(length, func() {
		w.tracef("THAW of %s", h.id)
		h.frozen, h.hitAt = false, w.now
		if w.machines[h.machine] != h && !h.control && w.chance(30) { // a zombie that wakes up and dies
			w.trouble(2 * minTrouble)
			w.after(w.between(1, 20), func() { w.crash(h) })
		}
	})
	if !h.control && w.machines[h.machine] == h && w.chance(50) {
		w.after(w.between(20, 60), func() {
			if w.machines[h.machine] == h {
				w.newNode(h.machine)
			}
		})
	}
}

func (w *world) injectFaults() {
	f := &w.faults
	for i := 0; i < len(f.alarms); i++ {
		if a := f.alarms[i]; a.at <= w.now {
			f.alarms = append(f.alarms[:i], f.alarms[i+1:]...)
			i--
			a.act()
		}
	}
	if !f.on {
		return
	}
	if w.now > f.until && f.failures < minFailures && w.now%64 == 0 { // some of the plan found nobody to hit
		f.timed = append(f.timed, w.drawFault(w.now))
	}
	if w.outcome != "" || w.now > f.until && f.failures >= minFailures {
		f.on = false
		w.tracef("faults stop")
		for i := range f.alarms {
			f.alarms[i].at = min(f.alarms[i].at, w.now+w.between(50, 300))
		}
		return
	}
	for len(f.timed) > 0 && f.timed[0].at <= w.now {
		next := f.timed[0]
		f.timed = f.timed[1:]
		w.inject(next)
	}
}

func (w *world) inject(f fault) {
	h := w.machines[f.a%len(w.machines)]
	switch f.kind {
	case "crash", "freeze":
		w.hit(h, f.kind, f.length)
		return
	case "worker crash":
		w.hit(w.workers[f.a%len(w.workers)], "crash", f.length)
		return
	case "worker freeze":
		w.hit(w.workers[f.a%len(w.workers)], "freeze", f.length)
		return
	}
	if w.injectElsewhere(f, h) {
		if f.kind != "a day passes" { // nothing fails in it
			w.faults.failures++
		}
		w.count("fault: " + f.kind)
	}
}

// passDay makes everything in the store a day older. Nobody can be in the middle of something for so long, so
// it happens only while nobody is.
func (w *world) passDay() bool {
	for _, h := range append(append(append([]*process(nil), w.machines...), w.zombies...), w.workers...) {
		if h.up && h.frozen {
			return false
		}
	}
	for _, p := range w.procs {
		if p.brief && !p.dead {
			return false
		}
	}
	if w.temporal.job == nil || w.temporal.job.flight != nil {
		return false
	}
	for len(w.faults.late) > 0 {
		r := w.faults.late[0]
		w.faults.late = w.faults.late[1:]
		r.apply()
	}
	w.s3.age += 25 * time.Hour
	return true
}

// injectElsewhere carries out what does not befall a single process; false if there was nothing to befall.
func (w *world) injectElsewhere(f fault, h *process) bool {
	w.tracef("fault: %s (%d)", f.kind, f.length)
	if f.kind != "temporal away" {
		w.trouble(max(f.length, minTrouble))
	}
	switch f.kind {
	case "a day passes":
		return w.passDay()
	case "crash all":
		for _, h := range w.machines {
			if h.live() {
				w.crash(h)
				w.after(w.between(10, 60), func() { w.restart(h) })
			}
		}
	case "partition":
		o := f.b % len(w.machines)
		if o == h.machine {
			return false
		}
		w.cutUntil[h.machine][o], w.cutUntil[o][h.machine] = w.now+f.length, w.now+f.length
	case "temporal away":
		w.temporal.down = true
		w.after(f.length, func() { w.temporal.down = false; w.tracef("Temporal is back") })
	case "snapshots fail":
		h.failsUntil = w.now + f.length
	case "cut from temporal":
		h.cut = true
		w.after(f.length, func() { h.cut = false })
	case "kafka away":
		w.kafka.down = true
		w.after(f.length, func() { w.kafka.down = false })
	case "s3 away":
		w.s3.down = true
		w.after(f.length, func() { w.s3.down = false })
	case "database lost":
		w.loseDatabase()
	case "job reset":
		return w.resetJob()
	case "attempt terminated":
		return w.terminateAttempt(f.b)
	}
	return true
}
