package activities_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/activities/activitiestest"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// The manifest decides; committing again finds the same bytes, and an abort comes too late.
func TestCommitDecides(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	acks := b.acks(c, 2, 0)
	for range 2 {
		if d := b.commit(c, 2, acks); d.Verdict != activities.Durable || d.Transactions != 2 || d.Stats.Records != 200 {
			t.Fatalf("decision %+v, want a durable checkpoint of two transactions", d)
		}
	}
	d := must[activities.Decision](b, b.control.AbortCheckpoint, activities.AbortInput{Job: b.job, Attempt: c.Attempt, ID: 2, Reason: "late"})
	if d.Verdict != activities.Durable {
		t.Errorf("a late abort answers %+v, want what stands: durable", d)
	}
}

// The first writer wins the other way round as well.
func TestAbortDecides(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	acks := b.acks(c, 2, 0)
	in := activities.AbortInput{Job: b.job, Attempt: c.Attempt, ID: 2, Reason: "node n2 declined"}
	for range 2 { // an activity that is retried finds its own decision
		if d := must[activities.Decision](b, b.control.AbortCheckpoint, in); d.Verdict != activities.Aborted || d.Foreign {
			t.Errorf("the abort answers %+v, want that it is its own", d)
		}
	}
	if d := b.commit(c, 2, acks); d.Verdict != activities.Aborted || d.Reason != in.Reason {
		t.Errorf("a late commit answers %+v, want the abort record", d)
	}
	if d := b.commit(c, 3, b.acks(c, 3, 0)); d.Verdict != activities.Durable {
		t.Fatalf("checkpoint 3 is %+v", d)
	}
	in.ID = 3
	if d := must[activities.Decision](b, b.control.AbortCheckpoint, in); d.Verdict != activities.Durable || !d.Foreign {
		t.Errorf("the abort of a durable checkpoint answers %+v, want the manifest, as somebody else's decision", d)
	}
	in.Attempt, in.ID = in.Attempt+1, 2
	if d := must[activities.Decision](b, b.control.AbortCheckpoint, in); d.Verdict != activities.Aborted || !d.Foreign {
		t.Errorf("another attempt's abort answers %+v, want what stands there, as somebody else's decision", d)
	}
}

func TestCommitRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*bench, []checkpoint.Ack) []checkpoint.Ack
		want string
	}{
		{"a share that is missing", func(_ *bench, a []checkpoint.Ack) []checkpoint.Ack { return a[:1] }, "no part of node n2"},
		{"a share that was acknowledged twice", func(_ *bench, a []checkpoint.Ack) []checkpoint.Ack { return append(a, a[0]) }, "two parts"},
		{"another digest", func(_ *bench, a []checkpoint.Ack) []checkpoint.Ack {
			a[0].SHA256 = strings.Repeat("0", 64)
			return a
		}, "digest"},
		{"a share that is gone", func(b *bench, a []checkpoint.Ack) []checkpoint.Ack {
			if err := b.store.Delete(b.Context(), string(b.job.UID)+"/"+a[1].Part); err != nil {
				b.Fatal(err)
			}
			return a
		}, "not found"},
		{"a transaction near its timeout", func(b *bench, a []checkpoint.Ack) []checkpoint.Ack {
			b.clock = b.clock.Add(activitiestest.TxTimeout - 10*time.Second)
			return a
		}, "timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.started()
			c := b.deployed(0)
			d := b.commit(c, 2, tc.edit(b, b.acks(c, 2, 0)))
			if d.Verdict != activities.Refused || !strings.Contains(d.Reason, tc.want) {
				t.Errorf("decision %+v, want a refusal with %q", d, tc.want)
			}
			m, err := snapshot.ReadManifest(t.Context(), b.store, b.job.UID, 2)
			if err != nil || m.Kind != checkpoint.Aborted {
				t.Errorf("in the store stands %+v (%v), want an abort record", m, err)
			}
		})
	}
}

// A damaged newest checkpoint stops planning; nothing falls back silently.
func TestDamagedManifestStops(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	b.commit(c, 2, b.acks(c, 2, 0))
	key := snapshot.Names{UID: b.job.UID}.Manifest(2)
	bytes, err := b.store.Get(t.Context(), key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	bytes[len(bytes)/2] ^= 1
	if err := b.store.Put(t.Context(), key, bytes); err != nil {
		t.Fatal(err)
	}
	_, err = do[activities.Claim](b, b.control.ClaimAttempt, activities.ClaimInput{Job: b.job, Above: 1})
	if typeOf(err) != activities.TypeDamaged || !strings.Contains(err.Error(), key) {
		t.Errorf("claim over a damaged checkpoint: %v, want %s and the object's key", err, activities.TypeDamaged)
	}
}

// CommitSinks commits what the manifest lists, marks it, and sweeps what lower attempts left open.
func TestCommitSinks(t *testing.T) {
	b := newBench(t)
	b.started()
	old := b.deployed(0)
	b.acks(old, 2, 0) // prepared, and its checkpoint never decided
	c := b.deployed(old.Attempt)
	b.commit(c, c.First, b.acks(c, c.First, 0))
	b.cluster.Sinks.SetDown(errors.New("broker down"))
	if _, err := do[activities.SinksResult](b, b.control.CommitSinks, activities.SinksInput{Job: b.job, Attempt: c.Attempt, ID: c.First}); err == nil || b.marked(c.First) {
		t.Fatalf("without a broker: %v, marked %v; want an error and no marker", err, b.marked(c.First))
	}
	b.cluster.Sinks.SetDown(nil)
	for range 2 {
		if r := b.sinks(c, c.First); !r.Committed || r.Count != 2 || !b.marked(c.First) {
			t.Fatalf("result %+v, marked %v; want both committed and marked", r, b.marked(c.First))
		}
	}
	for state, want := range map[activitiestest.TxState]int{activitiestest.Committed: 2, activitiestest.Aborted: 2, activitiestest.Ongoing: 0} {
		if got := b.cluster.Sinks.Count(b.job.UID, state); got != want {
			t.Errorf("%d transactions are %s, want %d", got, state, want)
		}
	}
}

// Transactions of a checkpoint that failed are listed by the next one and commit with it.
func TestAbortedCheckpointKeepsItsTransactions(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	b.acks(c, 2, 0)
	must[activities.Decision](b, b.control.AbortCheckpoint, activities.AbortInput{Job: b.job, Attempt: c.Attempt, ID: 2, Reason: "timeout"})
	if d := b.commit(c, 3, b.acks(c, 3, 0)); d.Transactions != 4 {
		t.Fatalf("decision %+v, want the four transactions of both", d)
	}
	if r := b.sinks(c, 3); !r.Committed || b.cluster.Sinks.Count(b.job.UID, activitiestest.Committed) != 4 {
		t.Errorf("result %+v, want all four committed", r)
	}
}

// What the broker has aborted is found out; all of it lost falls back under a new id, some of it stops.
func TestLostTransactions(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	b.commit(c, 2, b.acks(c, 2, 0))
	b.sinks(c, 2)
	b.commit(c, 3, b.acks(c, 3, 2))
	txs := b.transactions(3)
	b.cluster.Sinks.Expire(txs[0].ID)
	if r := b.sinks(c, 3); r.Committed || b.marked(3) || !strings.Contains(r.Stake, txs[0].ID) {
		t.Fatalf("result %+v, marked %v; want the lost transaction named and no marker", r, b.marked(3))
	}
	next := b.claim(c.Attempt)
	r := b.recover(next)
	if r.Verdict != activities.AllLost || r.Lost != 2 {
		t.Fatalf("recovery %+v, want all lost: the oldest was, so the rest is aborted", r)
	}
	in := activities.FallBackInput{Job: b.job, Attempt: next.Attempt, Lost: 3, ID: next.First}
	for range 2 {
		if f := must[activities.FellBack](b, b.control.FallBack, in); f.From != 2 || f.Taken {
			t.Fatalf("fell back %+v, want to 2", f)
		}
	}
	m, err := snapshot.ReadManifest(t.Context(), b.store, b.job.UID, next.First)
	if err != nil || m.Kind != checkpoint.Durable || len(m.Transactions) != 0 || m.Origin == nil || *m.Origin != 2 {
		t.Errorf("checkpoint %d is %+v (%v), want the content of 2 without transactions", next.First, m, err)
	}
	if after := b.claim(next.Attempt); after.Newest != next.First {
		t.Errorf("the next plan restores %d, want %d", after.Newest, next.First)
	}
}

func TestSomeLostIsSaid(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	b.commit(c, 2, b.acks(c, 2, 0))
	txs := b.transactions(2)
	b.cluster.Sinks.Expire(txs[len(txs)-1].ID)
	r := b.recover(b.claim(c.Attempt))
	if r.Verdict != activities.SomeLost || r.Committed != 1 || r.Lost != 1 || !strings.Contains(r.Stake, "10 records") {
		t.Errorf("recovery %+v, want one of two lost and the records at stake", r)
	}
}

// Recovery skips what the marker covers: a broker that knows the transactions no more says nothing about loss.
func TestRecoveryReadsTheMarker(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	b.commit(c, 2, b.acks(c, 2, 0))
	b.sinks(c, 2)
	b.cluster.Sinks.Forget()
	if r := b.recover(b.claim(c.Attempt)); r.Verdict != activities.Recovered {
		t.Errorf("recovery %+v, want recovered", r)
	}
	if r := must[activities.Recovery](b, b.control.RecoverSinks, activities.RecoverInput{Job: b.job, Attempt: 9, Manifest: 77}); r.Verdict != activities.Again {
		t.Errorf("recovery of a manifest that is not there: %+v", r)
	}
}

func TestRetain(t *testing.T) {
	b := newBench(t)
	b.started()
	c := b.deployed(0)
	for id := c.First; id < c.First+5; id++ {
		b.commit(c, id, b.acks(c, id, id-1))
		b.sinks(c, id)
	}
	in := activities.RetentionInput{Job: b.job, Keep: 2}
	r := must[activities.Retention](b, b.control.Retain, in)
	if r.Checkpoints != 4 || r.Floor != 5 {
		t.Errorf("retention %+v, want 0, 2, 3 and 4 retired and the floor at 5", r)
	}
	if again := must[activities.Retention](b, b.control.Retain, in); again.Checkpoints != 0 {
		t.Errorf("retired again: %+v", again)
	}
	for id, want := range map[job.CheckpointID]checkpoint.Kind{0: checkpoint.Retired, 4: checkpoint.Retired, 5: checkpoint.Durable, 6: checkpoint.Durable} {
		if m, err := snapshot.ReadManifest(t.Context(), b.store, b.job.UID, id); err != nil || m.Kind != want {
			t.Errorf("checkpoint %d is %q (%v), want %q", id, m.Kind, err, want)
		}
	}
}

func (b *bench) transactions(id job.CheckpointID) []checkpoint.Transaction {
	b.Helper()
	m, err := snapshot.ReadManifest(b.Context(), b.store, b.job.UID, id)
	if err != nil {
		b.Fatal(err)
	}
	return m.Transactions
}
