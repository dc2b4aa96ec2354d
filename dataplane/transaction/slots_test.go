package transaction

import (
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"pgregory.net/rapid"
)

var base = ID{Prefix: DefaultPrefix, UID: "0a", Sink: "out", Attempt: 3, Subtask: 1}

func TestSlots(t *testing.T) {
	p := NewSlotPool(base)
	expect := func(what string, want int) {
		t.Helper()
		if got := p.Acquire(); got.Slot != want || got.Attempt != 3 {
			t.Errorf("%s: got %s, want slot %d", what, got, want)
		}
	}
	expect("first", 0)
	p.Prepare(0, 6)
	expect("0 is prepared", 1)
	p.Prepare(1, 7)
	p.Covered(5)
	expect("6 and 7 may not be committed", 2)
	p.Covered(6)
	expect("6 is covered", 0)
	p.Abandon(0) // InitProducerID without an answer
	p.Covered(100)
	expect("0 is abandoned for good, 1 is covered", 1)
	p.Release(1)
	expect("nothing was written", 1)
	expect("2 is still in use", 3)
	if p.Len() != 4 {
		t.Errorf("slots: got %d, want 4", p.Len())
	}
}

func TestSlotMisuse(t *testing.T) {
	for name, f := range map[string]func(*SlotPool){
		"prepare a free slot":    func(p *SlotPool) { p.Prepare(0, 1) },
		"release it twice":       func(p *SlotPool) { s := p.Acquire().Slot; p.Release(s); p.Release(s) },
		"abandon a prepared one": func(p *SlotPool) { s := p.Acquire().Slot; p.Prepare(s, 1); p.Abandon(s) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(NewSlotPool(base))
		})
	}
}

func prep(id string, n job.CheckpointID, begin int64) checkpoint.Transaction {
	return checkpoint.Transaction{ID: id, Checkpoint: n, BeginUnixMs: begin, Sink: "out", Records: 10}
}

func ids(ts []checkpoint.Transaction) (s string) {
	for i, t := range ts {
		if i > 0 {
			s += " "
		}
		s += t.ID
	}
	return s
}

func TestLedger(t *testing.T) {
	var l Ledger
	l.Prepare(prep("b", 6, 20))
	l.Prepare(prep("a", 7, 10)) // 6 was aborted: its transaction stays listed
	if got := ids(l.List()); got != "a b" {
		t.Errorf("got %q, want both, sorted", got)
	}
	if begin, ok := l.Oldest(); !ok || begin != 10 {
		t.Errorf("oldest: got %d %v, want 10", begin, ok)
	}
	l.Learn(6)
	l.Learn(5) // a barrier never carries less than an earlier one; nothing comes back
	if got := ids(l.List()); got != "a" {
		t.Errorf("after 6 is committed: got %q, want a", got)
	}
	l.Learn(7)
	if _, ok := l.Oldest(); ok || len(l.List()) != 0 {
		t.Errorf("after 7 is committed: got %q, want nothing", ids(l.List()))
	}
	l.Prepare(prep("a", 8, 30))
	defer func() {
		if recover() == nil {
			t.Error("the same id prepared twice: no panic")
		}
	}()
	l.Prepare(prep("a", 9, 40))
}

// TestSlotAndLedgerModel runs a sink over random checkpoints. A slot must never be handed out while a manifest
// that may still have to be completed lists its transaction, and every snapshot must list everything prepared
// that the barrier does not call committed.
func TestSlotAndLedgerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, l := NewSlotPool(base), &Ledger{}
		prepared := map[string]job.CheckpointID{}
		committed := job.CheckpointID(0)
		cur, writing := ID{}, false
		for n := job.CheckpointID(1); n <= 20; n++ {
			if !writing && rapid.IntRange(0, 3).Draw(t, "write") > 0 {
				for cur, writing = p.Acquire(), true; rapid.IntRange(0, 4).Draw(t, "answer") == 0; cur = p.Acquire() {
					p.Abandon(cur.Slot)
				}
				if by, ok := prepared[cur.String()]; ok && by > committed {
					t.Fatalf("%s handed out, its transaction of %d is not known to be committed (only %d)", cur, by, committed)
				}
			}
			if rapid.Bool().Draw(t, "learn") { // durable and committed up to here
				committed = job.CheckpointID(rapid.IntRange(int(committed), int(n-1)).Draw(t, "committed"))
			}
			l.Learn(committed)
			p.Covered(committed)
			if writing {
				writing = false
				p.Prepare(cur.Slot, n)
				l.Prepare(prep(cur.String(), n, int64(n)))
				prepared[cur.String()] = n
			}
			want := 0
			for _, by := range prepared {
				if by > committed {
					want++
				}
			}
			if got := len(l.List()); got != want {
				t.Fatalf("snapshot %d lists %d transactions, want %d", n, got, want)
			}
		}
	})
}

func TestCheckTimeout(t *testing.T) {
	if err := CheckTimeout(10*time.Second, 10*time.Minute, 15*time.Minute); err == nil {
		t.Error("10 minutes of checkpoint timeout in a transaction of 15: accepted")
	}
	if err := CheckTimeout(10*time.Second, 2*time.Minute, 15*time.Minute); err != nil {
		t.Error(err)
	}
}
