package chaos

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// The bounds that a frozen worker is held to. They are wide: the machines that run this test may be busy.
const (
	// detection is how long a frozen worker goes unnoticed at most: no byte from it, no answer to probes.
	detection = 10 * time.Second
	// recovery is from the detection until a reader is shown something new.
	recovery = 20 * time.Second
	// thaw is how long a worker that wakes up may block readers: one checkpoint ends what it has left open.
	thaw = 10 * time.Second
)

// TestZombies freezes a worker with SIGSTOP past every timeout, at a random moment, and wakes it up when another
// attempt has its work: nothing of what it then does may reach a reader, it must not block one, and it must
// serve again.
func TestZombies(t *testing.T) {
	frozen, rounds := 15*time.Second, 2
	if *long {
		frozen, rounds = time.Minute, 6
	}
	// Records for the whole test: a round is a freeze, its recoveries and a kill.
	r := start(t, *seed, int(time.Duration(rounds)*(frozen+10*time.Second)/time.Second)*perSecond)
	moments := rand.New(rand.NewPCG(*seed, 0x7a6f6d))
	for i := range rounds {
		r.flows(0)
		// Somewhere in a checkpoint, or between two.
		moment := time.Duration(moments.Int64N(int64(interval)))
		if err := pause(r.Ctx, moment); err != nil {
			t.Fatal(err)
		}
		r.zombie(r.Workers[i%workers], r.Workers[(i+1)%workers], frozen)
	}
	r.finish(3 * time.Minute)
}

// flows waits until an attempt above n has read records and the reader is shown new output.
func (r *rig) flows(n job.Attempt) {
	r.Helper()
	begin := time.Now()
	r.Await("records flow", time.Minute, func() bool {
		at, ok := r.flow.Resumed(n, time.Time{})
		if !ok || at.Before(begin) {
			at = begin
		}
		_, shown := r.flow.Shown(at)
		return ok && shown
	})
}

// zombie freezes a worker of the running attempt, wakes it up after the given time, and has it prove that it is
// well: another worker dies, and without the first one there are not enough slots.
func (r *rig) zombie(w, other *local.Worker, frozen time.Duration) {
	r.Helper()
	before := r.flow.Attempt()
	stopped := time.Now()
	r.Logf("worker %d frozen in attempt %d", w.Index, before)
	w.Signal(syscall.SIGSTOP)
	r.flows(before)
	back, _ := r.flow.Resumed(before, stopped)
	shown, _ := r.flow.Shown(back)
	r.Logf("records flow again after %.1fs, new output after %.1fs", back.Sub(stopped).Seconds(), shown.Sub(stopped).Seconds())
	if gap := r.flow.LongestSilence(stopped, shown); gap > detection+recovery {
		r.Errorf("the frozen worker blocked readers for %v, want at most %v", gap, detection+recovery)
	}
	if err := pause(r.Ctx, time.Until(stopped.Add(frozen))); err != nil {
		r.Fatal(err)
	}
	woken := time.Now()
	w.Signal(syscall.SIGCONT)
	r.Await("the zombie's attempt has ended", 30*time.Second, func() bool {
		figures, err := w.Figures(r.Ctx)
		for _, a := range figures {
			if a.Ref.Attempt <= before {
				return false
			}
		}
		return err == nil
	})
	r.Logf("the zombie let go of attempt %d after %.1fs", before, time.Since(woken).Seconds())
	r.Await("no transaction of the zombie is open", thaw, func() bool { return r.noneBelow(before) })
	if err := pause(r.Ctx, time.Until(woken.Add(thaw))); err != nil {
		r.Fatal(err)
	}
	if gap := r.flow.LongestSilence(woken, time.Now()); gap > thaw-time.Second {
		r.Errorf("readers were shown nothing for %v after the zombie woke up", gap)
	}
	r.rejoin(w, other)
}

// noneBelow reports whether every open transaction is of an attempt above n.
func (r *rig) noneBelow(n job.Attempt) bool {
	for _, id := range r.OpenTransactions() {
		p, err := transaction.Parse(id)
		if err != nil || p.Attempt <= n {
			return false
		}
	}
	return true
}

// rejoin kills another worker, so that the next attempt needs w.
func (r *rig) rejoin(w, other *local.Worker) {
	r.Helper()
	before := r.flow.Attempt()
	killed := time.Now()
	other.Kill()
	r.Await("the worker that was frozen takes part in the next attempt", time.Minute, func() bool { return r.flow.On(w) > before })
	r.flows(before)
	r.Logf("attempt %d runs with worker %d, %.1fs after worker %d was killed", r.flow.On(w), w.Index, time.Since(killed).Seconds(), other.Index)
	if err := other.Start(r.Ctx); err != nil {
		r.Fatal(err)
	}
}
