package transaction

import (
	"testing"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

func TestLeftovers(t *testing.T) {
	tx := func(id string, pid int64, epoch int16) checkpoint.Transaction {
		return checkpoint.Transaction{ID: id, ProducerID: pid, ProducerEpoch: epoch}
	}
	m := checkpoint.Manifest{UID: "0a", Attempt: 3, Transactions: []checkpoint.Transaction{tx("weir/0a/out/3/0/0", 7, 4)}}
	for _, c := range []struct {
		name  string
		open  checkpoint.Transaction
		below job.Attempt
		abort bool
	}{
		{"the manifest's own", tx("weir/0a/out/3/0/0", 7, 4), 4, false},
		{"a newer epoch under a listed id: a zombie's", tx("weir/0a/out/3/0/0", 7, 5), 4, true},
		{"another producer under a listed id", tx("weir/0a/out/3/0/0", 8, 4), 4, true},
		{"opened by the ended attempt and never prepared", tx("weir/0a/out/3/0/1", 9, 0), 4, true},
		{"of an attempt long ago", tx("weir/0a/out/1/5/0", 9, 0), 4, true},
		{"of a sink that the job no longer has", tx("weir/0a/gone/2/0/0", 9, 0), 4, true},
		{"under another prefix, from before it was changed", tx("team/0a/out/2/0/0", 9, 0), 4, true},
		{"of the attempt that recovers", tx("weir/0a/out/4/0/0", 9, 0), 4, false},
		{"of a newer attempt: we are superseded", tx("weir/0a/out/5/0/0", 9, 0), 4, false},
		{"in CommitSinks: the running attempt's own", tx("weir/0a/out/3/0/1", 9, 0), 3, false},
		{"in CommitSinks: a zombie of a lower attempt", tx("weir/0a/out/2/0/1", 9, 0), 3, true},
		{"another job's", tx("weir/0b/out/1/0/0", 9, 0), 4, false},
		{"not ours at all", tx("payments-producer-1", 9, 0), 4, false},
		{"nearly ours", tx("weir/0a/out/01/0/0", 9, 0), 4, false},
	} {
		if got := len(Leftovers([]checkpoint.Transaction{c.open}, m, c.below)) == 1; got != c.abort {
			t.Errorf("%s: abort %v, want %v", c.name, got, c.abort)
		}
	}
}

func TestFallBackTarget(t *testing.T) {
	chk := func(n job.CheckpointID, ts ...checkpoint.Transaction) checkpoint.Manifest {
		return checkpoint.Manifest{Kind: checkpoint.Durable, ID: n, Transactions: ts}
	}
	abort := checkpoint.Manifest{Kind: checkpoint.Aborted, ID: 8}
	lost := []checkpoint.Transaction{prep("c", 9, 1)}
	for _, c := range []struct {
		name      string
		decisions []checkpoint.Manifest
		covered   []job.CheckpointID
		lost      []checkpoint.Transaction
		want      job.CheckpointID // -1: none
	}{
		{"the one before, committed", []checkpoint.Manifest{chk(6), chk(7, prep("b", 7, 1)), abort, chk(9)}, []job.CheckpointID{7}, lost, 7},
		{"the one before has no transactions", []checkpoint.Manifest{chk(7), abort, chk(9)}, nil, lost, 7},
		{"chk-0", []checkpoint.Manifest{chk(0), chk(9)}, nil, lost, 0},
		{"the one before listed what is lost now: its records would be missing", []checkpoint.Manifest{chk(6), chk(7, prep("b", 7, 1)), chk(9)}, nil,
			append([]checkpoint.Transaction{prep("b", 7, 1)}, lost...), 6},
		{"a transaction of an aborted checkpoint is lost: the one before it", []checkpoint.Manifest{chk(7), abort, chk(9)}, nil,
			append([]checkpoint.Transaction{prep("b", 8, 1)}, lost...), 7},
		{"its own transactions are not known to be committed", []checkpoint.Manifest{chk(7, prep("b", 7, 1)), chk(9)}, nil, lost, -1},
		{"everything before is retired", []checkpoint.Manifest{{Kind: checkpoint.Retired, ID: 7}, chk(9)}, nil, lost, -1},
		{"what is left is older than output that is visible", []checkpoint.Manifest{chk(5), {Kind: checkpoint.Retired, ID: 7}, chk(9)}, []job.CheckpointID{7}, lost, -1},
		{"what is left is void: a delayed PUT below the floor", []checkpoint.Manifest{chk(5), {Kind: checkpoint.Durable, ID: 9, Floor: 6}}, nil, lost, -1},
		{"nothing is lost", []checkpoint.Manifest{chk(7), chk(9)}, nil, nil, -1},
	} {
		m, ok := FallBackTarget(c.decisions, c.covered, c.lost)
		if ok != (c.want >= 0) || ok && m.ID != c.want {
			t.Errorf("%s: got %d %v, want %d", c.name, m.ID, ok, c.want)
		}
	}
}
