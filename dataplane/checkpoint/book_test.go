package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

func bookBarrier(n, decided job.CheckpointID) Barrier {
	return Barrier{Ref: testRef, ID: n, Decided: decided, Aligned: true}
}

func newBook() *NodeBook {
	return NewNodeBook(testRef, "a", []job.SubtaskID{{Vertex: "sum"}, {Vertex: "in"}}, 6)
}

func shareOf(n job.CheckpointID, vertex string, running bool) BookEvent {
	return BookEvent{Kind: Snapshotted, Share: Share{
		ID: n, Subtask: job.SubtaskID{Vertex: vertex}, Running: running,
		States: []OperatorState{{Operator: vertex}}, Stats: Stats{Files: 1},
	}}
}

// showBook writes effects as "inject 6, store 6, ready 6, …".
func showBook(effects []BookEffect) string {
	words := map[BookEffectKind]string{Inject: "inject", StorePart: "store", Ready: "ready", Decline: "decline", Refuse: "refuse", Release: "release", Drop: "drop", Tell: "tell"}
	var out []string
	for _, e := range effects {
		out = append(out, fmt.Sprintf("%s %d", words[e.Kind], e.ID))
	}
	return strings.Join(out, ", ")
}

func TestBook(t *testing.T) {
	heard := func(n, decided job.CheckpointID) BookEvent {
		return BookEvent{Kind: Heard, Barrier: bookBarrier(n, decided)}
	}
	peerDeclined := func(n, decided job.CheckpointID) BookEvent {
		return BookEvent{Kind: PeerDeclined, Barrier: bookBarrier(n, decided), Reason: "upload"}
	}
	type step struct {
		e    BookEvent
		want string
	}
	foreign := heard(6, 5)
	foreign.Barrier.Attempt = 2
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a peer's barrier comes before the node's own order; both, and a retried order, get one checkpoint", []step{
			{heard(6, 5), "inject 6"},
			{heard(6, 5), ""},
			{shareOf(6, "in", true), ""},
			{shareOf(6, "in", true), ""},
			{shareOf(6, "sum", false), "store 6"},
			{BookEvent{Kind: PartStored, ID: 6}, "ready 6"},
			{heard(6, 5), "ready 6"},
			{heard(7, 6), "drop 6, inject 7"},
			{heard(6, 5), "refuse 6"},
		}},
		{"an id not above the newest heard is refused, one below the attempt's first too", []step{
			{heard(5, 4), "refuse 5"},
			{heard(8, 7), "inject 8"},
			{heard(7, 6), "refuse 7"},
		}},
		{"another attempt's barrier is refused and changes nothing", []step{
			{foreign, "refuse 6"},
			{heard(6, 5), "inject 6"},
		}},
		{"the deadline declines; the retried order hears it again; late shares are ignored; the next one works", []step{
			{heard(6, 5), "inject 6"},
			{shareOf(6, "in", true), ""},
			{BookEvent{Kind: DeadlineOver, ID: 6}, "decline 6, release 6, drop 6, tell 6"},
			{heard(6, 5), "decline 6"},
			{shareOf(6, "sum", false), ""},
			{BookEvent{Kind: DeadlineOver, ID: 6}, ""},
			{heard(7, 6), "inject 7"},
			{shareOf(7, "sum", false), ""},
			{shareOf(7, "in", false), "store 7"},
		}},
		{"a newer checkpoint ends an older one", []step{
			{heard(6, 5), "inject 6"},
			{heard(7, 5), "decline 6, release 6, drop 6, inject 7"},
		}},
		{"the deadline passes while the part is being written: too late to take part", []step{
			{heard(6, 5), "inject 6"},
			{shareOf(6, "in", false), ""},
			{shareOf(6, "sum", false), "store 6"},
			{BookEvent{Kind: DeadlineOver, ID: 6}, "decline 6, release 6, drop 6, tell 6"},
			{BookEvent{Kind: PartStored, ID: 6}, ""},
		}},
		{"a part that is durable is never taken back", []step{
			{heard(6, 5), "inject 6"},
			{shareOf(6, "in", false), ""},
			{shareOf(6, "sum", false), "store 6"},
			{BookEvent{Kind: PartStored, ID: 6}, "ready 6"},
			{BookEvent{Kind: DeadlineOver, ID: 6}, ""},
			{BookEvent{Kind: Failed, ID: 6, Reason: "x"}, ""},
			{BookEvent{Kind: Decided, ID: 6}, "drop 6"},
		}},
		{"decided elsewhere before this node heard of it: the barrier that comes later blocks nothing", []step{
			{BookEvent{Kind: Decided, ID: 6}, ""},
			{heard(6, 5), "refuse 6"},
			{heard(7, 6), "inject 7"},
			{BookEvent{Kind: Decided, ID: 7}, "decline 7, release 7, drop 7"},
		}},
		{"a subtask that declines", []step{
			{heard(6, 5), "inject 6"},
			{BookEvent{Kind: Failed, ID: 6, Reason: "upload"}, "decline 6, release 6, drop 6, tell 6"},
			{BookEvent{Kind: Failed, ID: 6, Reason: "other"}, ""},
		}},
		{"a peer that declines: nobody here waits for what cannot succeed, and nobody is told again", []step{
			{heard(6, 5), "inject 6"},
			{shareOf(6, "in", true), ""},
			{peerDeclined(6, 5), "decline 6, release 6, drop 6"},
			{peerDeclined(6, 5), "decline 6"},
			{BookEvent{Kind: Failed, ID: 6, Reason: "upload was cut"}, ""},
			{shareOf(6, "sum", true), ""},
			{heard(7, 6), "inject 7"},
		}},
		{"a peer declines before its barrier comes: what comes later blocks nothing", []step{
			{peerDeclined(6, 5), "inject 6, decline 6, release 6, drop 6"},
			{heard(6, 5), "decline 6"},
			{heard(7, 6), "inject 7"},
		}},
		{"a peer declines what this node has passed, or has taken its share of", []step{
			{heard(7, 6), "inject 7"},
			{peerDeclined(6, 5), "refuse 6"},
			{shareOf(7, "in", false), ""},
			{shareOf(7, "sum", false), "store 7"},
			{BookEvent{Kind: PartStored, ID: 7}, "ready 7"},
			{peerDeclined(7, 6), "ready 7"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook()
			for i, s := range c.steps {
				if got := showBook(b.Step(s.e)); got != s.want {
					t.Fatalf("step %d: got %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

// Ensure that the part proves who acked, in one order whatever the order of the shares, and is ended only when
// no source was running.
func TestBookPart(t *testing.T) {
	parts := map[string]Part{}
	for _, order := range []string{"in sum", "sum in"} {
		b := newBook()
		b.Step(BookEvent{Kind: Heard, Barrier: bookBarrier(6, 5)})
		for v := range strings.FieldsSeq(order) {
			for _, e := range b.Step(shareOf(6, v, v == "in")) {
				parts[order] = e.Part
			}
		}
	}
	p := parts["in sum"]
	if p.Ended || p.Stats.Files != 2 || !slices.Equal(p.Subtasks, []job.SubtaskID{{Vertex: "in"}, {Vertex: "sum"}}) {
		t.Errorf("part: ended %v, %d files, subtasks %v", p.Ended, p.Stats.Files, p.Subtasks)
	}
	a, err := EncodePart(p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := EncodePart(parts["sum in"])
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("bytes depend on the order of shares:\n%s\n%s", a, b)
	}
}

func TestReuseSet(t *testing.T) {
	restored := testFile(2, 4, "a")
	r := NewReuseSet(Manifest{ID: 4, States: []OperatorState{{Files: []File{restored}}}})
	find := func(f File) bool {
		got, ok := r.Find(f.SHA256, f.Size)
		return ok && got.Name == f.Name
	}
	if !find(restored) {
		t.Error("a file of the restored manifest must be named again")
	}
	if _, ok := r.Find(restored.SHA256, restored.Size+1); ok {
		t.Error("another size is another file")
	}
	six, seven := testFile(3, 6, "b"), testFile(3, 7, "c")
	r.Named(6, six)
	r.Named(7, seven)
	if find(six) {
		t.Error("a file of a checkpoint that is not known to be durable must not be named again: if 6 aborts, retention may delete it")
	}
	r.Advance(4)
	if !find(restored) {
		t.Error("the base is lost although no later checkpoint is durable")
	}
	r.Advance(7) // 6 was aborted
	if !find(seven) || find(six) || find(restored) {
		t.Errorf("after 7 is durable: 7 %v (want true), 6 %v, restored %v (want false)", find(seven), find(six), find(restored))
	}
	r.Named(8, testFile(3, 8, "d"))
	r.Advance(9) // durable without this node's share: another deployment's
	if find(seven) || r.Base() != 9 {
		t.Error("files of a base that may be retired are still named")
	}
}
