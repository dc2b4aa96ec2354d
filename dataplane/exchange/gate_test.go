package exchange

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// localGate returns a gate of n channels within the node, and their queues.
func localGate(n, queueLen int) (*Gate, []*queue) {
	g := newGate(n)
	queues := make([]*queue, n)
	for i := range queues {
		queues[i] = &queue{channel: job.Channel{From: i}, items: newRing[item](queueLen), space: make(chan struct{}, 1)}
		g.add(queues[i])
	}
	return g, queues
}

func numbered(n int) item {
	return item{element: batch.Element{Kind: batch.BatchElement, Batch: &batch.Batch{Watermark: int64(n)}}}
}

func TestGateTakesTurns(t *testing.T) {
	g, queues := localGate(3, 8)
	for i := range 3 {
		for n := range 2 + i {
			g.push(queues[i], numbered(n))
		}
	}
	var got []int
	for g.Ready() {
		ch, _ := next(t, g)
		got = append(got, ch)
	}
	want := []int{0, 1, 2, 0, 1, 2, 1, 2, 2}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("channels in turn = %v, want %v", got, want)
		}
	}
}

func TestBlockedChannelIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, queues := localGate(2, 8)
		g.push(queues[0], numbered(1))
		g.Block(0)
		if g.Ready() {
			t.Error("ready with nothing but a blocked channel")
		}
		got := make(chan int)
		read := func() {
			ch, _, err := g.Next(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- ch
		}
		go read()
		synctest.Wait() // the reader waits
		g.push(queues[1], numbered(2))
		if ch := <-got; ch != 1 {
			t.Errorf("read channel %d, want 1", ch)
		}
		g.Unblock()
		if !g.Ready() {
			t.Error("not ready after unblock")
		}
		go read()
		if ch := <-got; ch != 0 {
			t.Errorf("read channel %d, want 0", ch)
		}
	})
}

func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, queues := localGate(1, 8)
		g.push(queues[0], numbered(1))
		g.Wake()
		g.Wake()
		if _, _, err := g.Next(t.Context()); !errors.Is(err, ErrWoken) {
			t.Errorf("next after wake = %v, want %v", err, ErrWoken)
		}
		next(t, g) // two calls count once, and nothing was lost
		result := make(chan error)
		read := func() {
			_, _, err := g.Next(t.Context())
			result <- err
		}
		go read()
		synctest.Wait() // the reader waits
		g.Wake()
		if err := <-result; !errors.Is(err, ErrWoken) {
			t.Errorf("woken reader got %v, want %v", err, ErrWoken)
		}
		go read()
		synctest.Wait()
		failed := errors.New("over")
		g.fail(failed)
		if err := <-result; !errors.Is(err, failed) {
			t.Errorf("reader of a failed gate got %v, want %v", err, failed)
		}
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	g, _ := localGate(1, 1)
	cause := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, _, err := g.Next(ctx); !errors.Is(err, cause) {
		t.Errorf("next = %v, want %v", err, cause)
	}
}

// The gate against a plain model: what was pushed comes out in order, channel by channel, none starves, and
// Ready tells the truth.
func TestGateModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const queueLen = 4
		channels := rapid.IntRange(1, 5).Draw(t, "channels")
		g, queues := localGate(channels, queueLen)
		model := make([][]int64, channels)
		blocked := make([]bool, channels)
		passed := make([]int, channels) // reads of others since a channel became readable
		pushed := 0
		readable := func(i int) bool { return !blocked[i] && len(model[i]) > 0 }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				i := rapid.IntRange(0, channels-1).Draw(t, "channel")
				pushed++
				if got, want := g.push(queues[i], numbered(pushed)), len(model[i]) < queueLen; got != want {
					t.Fatalf("push into channel %d of %d elements = %v, want %v", i, len(model[i]), got, want)
				} else if got {
					model[i] = append(model[i], int64(pushed))
				}
			},
			"next": func(t *rapid.T) {
				if !g.Ready() {
					t.Skip("nothing to read")
				}
				i, e, err := g.Next(context.Background())
				if err != nil || !readable(i) || e.Batch.Watermark != model[i][0] {
					t.Fatalf("next = channel %d, %+v, %v; the model has %v, blocked %v", i, e.Batch, err, model, blocked)
				}
				model[i] = model[i][1:]
				for j := range passed {
					if j == i || !readable(j) {
						passed[j] = 0
					} else if passed[j]++; passed[j] > channels {
						t.Fatalf("channel %d was passed over %d times", j, passed[j])
					}
				}
			},
			"block": func(t *rapid.T) {
				i := rapid.IntRange(0, channels-1).Draw(t, "channel")
				g.Block(i)
				blocked[i], passed[i] = true, 0
			},
			"unblock": func(*rapid.T) {
				g.Unblock()
				clear(blocked)
			},
			"": func(t *rapid.T) {
				want := false
				for i := range model {
					want = want || readable(i)
				}
				if got := g.Ready(); got != want {
					t.Fatalf("ready = %v, want %v", got, want)
				}
			},
		})
	})
}

func TestGateDoesNotAllocate(t *testing.T) {
	g, queues := localGate(4, 8)
	it := numbered(1)
	allocs := testing.AllocsPerRun(1000, func() {
		for _, q := range queues {
			g.push(q, it)
		}
		for range queues {
			if _, _, err := g.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for 4 elements", allocs)
	}
}
