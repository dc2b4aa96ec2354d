package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

const grace = 5 * time.Second

// watched is the result of a Watch and when it came, counted from the start.
type watched struct {
	id    job.NodeID
	err   error
	after time.Duration
}

func startWatch(ctx context.Context, r *registry, ids ...job.NodeID) <-chan watched {
	start := time.Now()
	out := make(chan watched, 1)
	go func() {
		id, err := r.watch(ctx, ids)
		out <- watched{id, err, time.Since(start)}
	}()
	return out
}

func TestWatchNeverSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry("self", grace)
		r.put("a", "127.0.0.1:1", metadata{})
		if got, want := <-startWatch(t.Context(), r, "a", "ghost"), (watched{id: "ghost", after: grace}); got != want {
			t.Errorf("watch = %+v, want %+v", got, want)
		}
		if got, want := <-startWatch(t.Context(), r, "ghost"), (watched{id: "ghost"}); got != want {
			t.Errorf("watch after the grace = %+v, want %+v", got, want)
		}
	})
}

// A node that appears within the grace is watched like any other.
func TestWatchSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry("self", grace)
		w := startWatch(t.Context(), r, "late")
		time.AfterFunc(grace-1, func() { r.put("late", "127.0.0.1:1", metadata{}) })
		time.AfterFunc(10*grace, func() { r.drop("late") })
		if got, want := <-w, (watched{id: "late", after: 10 * grace}); got != want {
			t.Errorf("watch = %+v, want %+v", got, want)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry("self", grace)
		r.put("a", "127.0.0.1:1", metadata{})
		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		w := startWatch(ctx, r, "a")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if got, want := <-w, (watched{err: cause, after: time.Second}); got != want {
			t.Errorf("watch = %+v, want %+v", got, want)
		}
		w = startWatch(t.Context(), r, "a")
		time.AfterFunc(time.Second, r.close)
		if got, want := <-w, (watched{err: ErrClosed, after: time.Second}); got != want {
			t.Errorf("watch = %+v, want %+v", got, want)
		}
	})
}

func TestStatusOfTheGone(t *testing.T) {
	r := newRegistry("self", grace)
	r.put("a", "127.0.0.1:1", metadata{})
	r.put("b", "127.0.0.1:2", metadata{})
	r.put("b", "127.0.0.1:2", metadata{Leaving: true})
	if got, _ := r.drop("a"); got != Lost {
		t.Errorf("drop of an alive member = %v, want %v", got, Lost)
	}
	if got, _ := r.drop("b"); got != Left {
		t.Errorf("drop of a leaving member = %v, want %v", got, Left)
	}
	if before, now := r.put("a", "127.0.0.1:1", metadata{}); before != Lost || now != Alive {
		t.Errorf("put of a lost member = %v → %v, want lost → alive", before, now)
	}
}

// Memberlist's timers fire after Shutdown; what they find then is only that this process hears nobody.
func TestNothingIsLostAfterClose(t *testing.T) {
	r := newRegistry("self", grace)
	r.put("a", "127.0.0.1:1", metadata{})
	r.close()
	if _, known := r.drop("a"); known {
		t.Error("a member was dropped after close")
	}
	if got := r.list()[0].Status; got != Alive {
		t.Errorf("status after close = %v, want %v", got, Alive)
	}
}

// Restarting workers for weeks must not grow the registry.
func TestGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry("self", grace)
		for i := range 2 * maxGone {
			id := job.NodeID(fmt.Sprintf("n%04d", i))
			r.put(id, "127.0.0.1:1", metadata{})
			r.drop(id)
			time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
		}
		members := r.list()
		if got, want := len(members), maxGone; got != want {
			t.Fatalf("%d members remembered, want %d", got, want)
		}
		if got, want := members[0].ID, job.NodeID("n0256"); got != want {
			t.Errorf("oldest remembered = %s, want %s", got, want)
		}
		time.Sleep(2 * rememberGone) //nolint:forbidigo // the bubble's clock
		r.put("last", "127.0.0.1:1", metadata{})
		r.drop("last")
		if got := len(r.list()); got != 1 {
			t.Errorf("%d members remembered after two hours, want 1", got)
		}
	})
}
