package barrier

import (
	"testing"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"pgregory.net/rapid"
)

// element is one item of a channel: record number rec of its channel (1, 2, …), a barrier, or the end.
type element struct {
	rec     int
	barrier job.CheckpointID
	end     bool
}

// TestModel feeds random channels through a reader that obeys the effects, and checks what alignment is for:
// a snapshot of n holds, of every channel, exactly the records before its barrier n (or all of a channel that
// ended before n). It also checks that nothing stays blocked without a way out.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		aligned := rapid.Bool().Draw(t, "aligned")
		channels := drawChannels(t)
		r := &reader{a: New(testRef, len(channels), 0), read: make([]int, len(channels)), blocked: make([]bool, len(channels))}
		pos := make([]int, len(channels))
		for step := 0; ; step++ {
			ready := readable(channels, pos, r.blocked)
			n, pending := r.a.Pending()
			if len(ready) == 0 {
				if !pending {
					break
				}
				r.apply(t, r.a.Step(Expire(n)), channels)
				continue
			}
			if pending && rapid.IntRange(0, 9).Draw(t, "fault") == 0 {
				r.apply(t, r.a.Step(GiveUp(n)), channels)
				continue
			}
			ch := rapid.SampledFrom(ready).Draw(t, "channel")
			e := channels[ch][pos[ch]]
			pos[ch]++
			switch {
			case e.end:
				r.apply(t, r.a.Step(End(ch)), channels)
			case e.barrier > 0:
				b := checkpoint.Barrier{Ref: testRef, ID: e.barrier, Aligned: aligned}
				r.apply(t, r.a.Step(Arrive(ch, b)), channels)
			default:
				r.read[ch] = e.rec
			}
			for c := range channels {
				if got, want := r.a.Blocked(c), r.blocked[c]; got != want {
					t.Fatalf("Blocked(%d): got %v, effects say %v", c, got, want)
				}
			}
		}
		for c, l := range channels {
			if pos[c] != len(l) {
				t.Fatalf("channel %d stuck at %d of %d", c, pos[c], len(l))
			}
		}
		if !r.ended {
			t.Fatal("all channels ended and no EndOfInput")
		}
	})
}

// drawChannels makes channels with records, an increasing subset of the barriers 1…4, and an end somewhere.
func drawChannels(t *rapid.T) [][]element {
	out := make([][]element, rapid.IntRange(1, 4).Draw(t, "channels"))
	for c := range out {
		rec, over := 0, false
		for n := job.CheckpointID(1); n <= 4; n++ {
			for range rapid.IntRange(0, 2).Draw(t, "records") {
				if rec++; !over {
					out[c] = append(out[c], element{rec: rec})
				}
			}
			if !over && rapid.IntRange(0, 5).Draw(t, "end") == 0 {
				over = true
				out[c] = append(out[c], element{end: true})
			}
			if rapid.IntRange(0, 4).Draw(t, "skip") > 0 {
				out[c] = append(out[c], element{barrier: n})
			}
		}
		if !over {
			out[c] = append(out[c], element{end: true})
		}
	}
	return out
}

func readable(channels [][]element, pos []int, blocked []bool) []int {
	var out []int
	for c := range channels {
		if !blocked[c] && pos[c] < len(channels[c]) {
			out = append(out, c)
		}
	}
	return out
}

// reader is a subtask whose state is the last record it read of each channel.
type reader struct {
	a       *Aligner
	read    []int
	blocked []bool
	newest  job.CheckpointID // announced
	settled job.CheckpointID // taken or declined
	ended   bool
}

func (r *reader) apply(t *rapid.T, effects []Effect, channels [][]element) {
	for _, e := range effects {
		switch e.Kind {
		case Announce:
			if e.ID <= r.newest {
				t.Fatalf("announce %d after %d", e.ID, r.newest)
			}
			r.newest = e.ID
		case Block:
			if !r.anyAligned() {
				t.Fatalf("block %d in at-least-once mode", e.Channel)
			}
			r.blocked[e.Channel] = true
		case Unblock:
			clear(r.blocked)
		case Decline, Snapshot:
			if e.ID <= r.settled {
				t.Fatalf("%d settled twice, or after %d", e.ID, r.settled)
			}
			r.settled = e.ID
			if e.Kind == Snapshot && e.Barrier.Aligned {
				r.checkCut(t, e.ID, channels)
			}
		case EndOfInput:
			if r.ended {
				t.Fatal("EndOfInput twice")
			}
			r.ended = true
		}
	}
}

func (r *reader) anyAligned() bool { return r.a.pending.Aligned }

func (r *reader) checkCut(t *rapid.T, n job.CheckpointID, channels [][]element) {
	allEnded := true // before their barriers
	defer func() {
		if allEnded && !r.ended {
			t.Fatalf("snapshot %d comes after every end, and before EndOfInput", n)
		}
	}()
	for c, l := range channels {
		want := 0
		for _, e := range l {
			if e.barrier == n || e.end {
				allEnded = allEnded && e.end
				break
			}
			if e.rec > 0 {
				want = e.rec
			}
		}
		if got := r.read[c]; got != want {
			t.Fatalf("snapshot %d holds channel %d up to record %d, want %d", n, c, got, want)
		}
	}
}
