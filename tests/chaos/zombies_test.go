package chaos

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// The bounds that a frozen worker is held to. They are wide: the machines that run this test may be busy.
const (
	// blocked is how long a frozen worker may keep readers waiting: until it is noticed, and a recovery. The frozen
	// process may have taken with it a workflow task of the job (5 s, from its own queue and from the common one),
	// one of each child (4 s) and a control activity (6 s), until the server gives them to others.
	blocked = peerTimeout + 30*time.Second
	// thaw is how long it may do so when it wakes up: one checkpoint ends what it has left open.
	thaw = 10 * time.Second
)

type place struct{ name, point string }

// places are where a worker is frozen: at a fail point, or wherever it is at a random moment.
var places = []place{
	{"in a batch", ""},
	{"in the flush", "precommit.before-flush"},
	{"before the ack", "part.after-put"},
	{"before an upload", "upload.before"},
	{"in CommitSinks", "endtxn.before"},
}

// TestZombies freezes a worker with SIGSTOP past every timeout and wakes it up when another attempt has its work:
// nothing of what it then does may reach a reader, it must not block one, and it must serve again. The seed chooses
// one of the places; with -long it is frozen in each, and for longer.
func TestZombies(t *testing.T) {
	frozen, at := 15*time.Second, []place{places[*seed%uint64(len(places))]} // RunTasks is given up after 10 s
	if *long {
		frozen, at = 45*time.Second, places // what waits for a worker's queue, after 30 s
	}
	for _, p := range at {
		t.Run(p.name, func(t *testing.T) { zombieAt(t, p, frozen) })
	}
}

func zombieAt(t *testing.T, p place, frozen time.Duration) {
	r := start(t, *seed, endless)
	z := &zombie{rig: r, w: r.Workers[0], second: r.Workers[1], third: r.Workers[2]}
	r.flows(0)
	if p.point == "" {
		moments := rand.New(rand.NewPCG(*seed, 0x7a6f6d))
		r.wait(time.Duration(moments.Int64N(int64(interval)))) // somewhere in a checkpoint, or between two
		z.freeze()
	} else {
		z.freezeAt(p.point)
	}
	z.superseded()
	r.wait(time.Until(z.frozen.Add(frozen)))
	z.wake()
	z.rejoin(z.third)
	close(r.enough)
	r.finish(3 * time.Minute)
}

// zombie is a worker that is frozen, and those that go on.
type zombie struct {
	*rig
	w, second, third *local.Worker
	attempt          job.Attempt // of its life before
	frozen           time.Time
}

func (z *zombie) freeze() {
	z.attempt, z.frozen = z.flow.Attempt(), time.Now()
	z.w.Signal(syscall.SIGSTOP)
	z.Logf("frozen in attempt %d", z.attempt)
}

// freezeAt makes the worker a part of an attempt, and lets it freeze itself at a fail point.
func (z *zombie) freezeAt(point string) {
	z.Helper()
	dir := z.TempDir()
	log := filepath.Join(dir, "log")
	z.w.Kill()
	z.w.SetEnv(failpoint.EnvPoints+"="+point+"=stop", failpoint.EnvDir+"="+dir, failpoint.EnvLog+"="+log)
	if err := z.w.Start(z.Ctx); err != nil {
		z.Fatal(err)
	}
	z.w.SetEnv()
	z.rejoin(z.second)
	z.attempt = z.flow.Attempt()
	if err := os.WriteFile(filepath.Join(dir, failpoint.ArmedFile), nil, 0o600); err != nil {
		z.Fatal(err)
	}
	z.Await("point "+point, 30*time.Second, func() bool { _, err := os.Stat(log); return err == nil })
	z.frozen = time.Now()
	z.Logf("frozen in attempt %d", z.attempt)
}

// superseded waits for the attempt that goes on without the zombie.
func (z *zombie) superseded() {
	z.Helper()
	z.flows(z.attempt)
	back, _ := z.flow.Resumed(z.attempt, z.frozen)
	shown, _ := z.flow.Shown(back)
	z.Logf("records flow again after %.1fs, new output after %.1fs", back.Sub(z.frozen).Seconds(), shown.Sub(z.frozen).Seconds())
	if gap := z.flow.LongestSilence(z.frozen, shown); gap > blocked {
		z.Errorf("the frozen worker blocked readers for %v, want at most %v", gap, blocked)
	}
}

// wake lets the zombie go on, and watches what it is worth.
func (z *zombie) wake() {
	z.Helper()
	woken := time.Now()
	z.w.Signal(syscall.SIGCONT)
	z.Await("the zombie's attempt has ended", 30*time.Second, func() bool {
		figures, err := z.w.Figures(z.Ctx)
		for _, a := range figures {
			if a.Ref.Attempt <= z.attempt {
				return false
			}
		}
		return err == nil
	})
	z.Logf("the zombie let go of attempt %d after %.1fs", z.attempt, time.Since(woken).Seconds())
	z.Await("no transaction of the zombie is open", thaw, z.noneOpen)
	z.wait(time.Until(woken.Add(thaw)))
	if gap := z.flow.LongestSilence(woken, time.Now()); gap > thaw-time.Second {
		z.Errorf("readers were shown nothing for %v after the zombie woke up", gap)
	}
}

// noneOpen reports whether no transaction of the zombie's attempt is open.
func (z *zombie) noneOpen() bool {
	for _, id := range z.OpenTransactions() {
		p, err := transaction.Parse(id)
		if err != nil || p.Attempt <= z.attempt {
			return false
		}
	}
	return true
}

// rejoin kills another worker, so that the next attempt needs the zombie: two workers have just enough slots.
func (z *zombie) rejoin(other *local.Worker) {
	z.Helper()
	before, killed := z.flow.Attempt(), time.Now()
	other.Kill()
	z.Await("the worker takes part in the next attempt", time.Minute, func() bool { return z.flow.On(z.w) > before })
	z.flows(before)
	z.Logf("attempt %d runs with worker %d, %.1fs after worker %d was killed", z.flow.On(z.w), z.w.Index, time.Since(killed).Seconds(), other.Index)
	if err := other.Start(z.Ctx); err != nil {
		z.Fatal(err)
	}
}
