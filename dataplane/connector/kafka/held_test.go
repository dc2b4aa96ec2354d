package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// Ensure a listing shows what is open, with the transaction at which readers stop before the one behind it.
func TestHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		c := openCommitter(t, conn)
		s := openSink(t, sinkConfig(conn, topic), 3, "out")
		s.write(0, 100)
		first := s.prepare(1, 0)[0]
		s.write(100, 200)
		both := s.prepare(2, 0)
		s.crash()
		second := both[slices.IndexFunc(both, func(x checkpoint.Transaction) bool { return x.ID != first.ID })]

		held := heldOf(t, c, uidOf(t))
		if len(held) != 2 || held[0].ID.String() != first.ID || held[1].ID.String() != second.ID {
			t.Fatalf("got %+v, want %s before %s", held, first.ID, second.ID)
		}
		got := held[0]
		if got.ID.Sink != "out" || got.ID.Attempt != 3 || got.State != "Ongoing" || got.ProducerID != first.ProducerID || got.ProducerEpoch != first.ProducerEpoch {
			t.Errorf("got %+v, want sink out, attempt 3, ongoing, producer %d/%d", got, first.ProducerID, first.ProducerEpoch)
		}
		if left := got.Left(time.Now()); left <= 0 || left > got.Timeout || time.Since(got.Began) > time.Minute {
			t.Errorf("began %s, timeout %s, left %s: want a moment ago and almost all of it left", got.Began, got.Timeout, left)
		}
		if !held[0].Blocks() || held[1].Blocks() {
			t.Errorf("blocks: %v and %v, want the first alone", held[0].Blocks(), held[1].Blocks())
		}
		if o := commit(t, c, first); o != connector.Committed {
			t.Fatalf("outcome %s, want committed", o)
		}
		if held = heldOf(t, c, uidOf(t)); len(held) != 1 || held[0].ID.String() != second.ID || !held[0].Blocks() {
			t.Errorf("after the commit of the first: %+v, want the second, which blocks now", held)
		}
	})
}

// heldOf lists what a job holds, once nothing of it is being ended.
func heldOf(t *testing.T, c *Committer, uid job.UID) []Held {
	t.Helper()
	for {
		all, err := c.Held(t.Context())
		must(t, err)
		all = slices.DeleteFunc(all, func(h Held) bool { return h.ID.UID != uid })
		if !slices.ContainsFunc(all, func(h Held) bool { return h.State != stateOngoing }) {
			return all
		}
	}
}

// Ensure that only the transaction at the stable offset counts as blocking.
func TestHeldPartitionBlocks(t *testing.T) {
	for _, tc := range []struct {
		p    HeldPartition
		want bool
	}{
		{HeldPartition{First: 10, Stable: 10, End: 20}, true},
		{HeldPartition{First: 12, Stable: 10, End: 20}, false}, // behind another one
		{HeldPartition{First: -1, Stable: 10, End: 20}, false},
		{HeldPartition{First: 20, Stable: 20, End: 20}, false},
	} {
		if got := tc.p.Blocks(); got != tc.want {
			t.Errorf("%+v blocks: %v, want %v", tc.p, got, tc.want)
		}
	}
	if (Held{ID: transaction.ID{}}).Blocks() {
		t.Error("a transaction without partitions blocks")
	}
}
