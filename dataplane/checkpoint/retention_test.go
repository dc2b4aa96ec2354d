package checkpoint

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/job"
	"pgregory.net/rapid"
)

var planTime = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// world is a job's prefix in the store.
type world struct {
	decisions map[job.CheckpointID]Manifest
	objects   map[string]Listed
}

func newWorld() *world {
	return &world{decisions: map[job.CheckpointID]Manifest{}, objects: map[string]Listed{}}
}

func (w *world) add(kind ObjectKind, name string, a job.Attempt, n job.CheckpointID) {
	w.objects[name] = Listed{Name: name, Kind: kind, Attempt: a, ID: n, Modified: planTime.Add(-time.Hour)}
}

func (w *world) decide(m Manifest) {
	w.decisions[m.ID] = m
	w.add(Decision, fmt.Sprintf("chk-%d/manifest", m.ID), 0, m.ID)
}

// durable adds checkpoint n of attempt a with its files, given as "attempt-n-fill", parts and, maybe, a marker.
func (w *world) durable(a job.Attempt, n, floor job.CheckpointID, committed bool, files ...string) Manifest {
	m := Manifest{Version: 1, Kind: Durable, UID: "0a1b", Attempt: a, ID: n, Floor: floor, Transactions: []Transaction{{ID: "t"}}}
	s := OperatorState{Operator: "sum"}
	for _, f := range files {
		var fa job.Attempt
		var fn job.CheckpointID
		var fill string
		fmt.Sscanf(strings.ReplaceAll(f, "-", " "), "%d %d %s", &fa, &fn, &fill)
		file := testFile(fa, fn, fill)
		s.Files = append(s.Files, file)
		w.add(SharedFile, file.Name, fa, fn)
	}
	m.States = []OperatorState{s}
	w.decide(m)
	w.add(NodePart, fmt.Sprintf("chk-%d/part-%d-node", n, a), a, n)
	w.add(AttemptPlan, fmt.Sprintf("attempt-%d", a), a, 0)
	if committed {
		w.add(CommittedMark, fmt.Sprintf("chk-%d/committed", n), 0, n)
	}
	return m
}

func (w *world) input(keep int, held ...job.CheckpointID) RetentionInput {
	in := RetentionInput{UID: "0a1b", Keep: keep, Held: held, Now: planTime}
	for _, m := range w.decisions {
		in.Decisions = append(in.Decisions, m)
	}
	for _, o := range w.objects {
		in.Listing = append(in.Listing, o)
	}
	return in
}

// short joins names, digests cut to their first digit.
func short(names []string) string {
	var out []string
	for _, n := range names {
		if strings.HasPrefix(n, "shared/") {
			n = n[:len(n)-63]
		}
		out = append(out, n)
	}
	return strings.Join(out, " ")
}

func retired(p RetentionPlan) (out []job.CheckpointID) {
	for _, m := range p.Retire {
		out = append(out, m.ID)
	}
	return out
}

func TestPlanRetention(t *testing.T) {
	w := newWorld()
	w.durable(1, 1, 0, true, "1-1-a")
	w.durable(1, 2, 0, true, "1-1-a", "1-2-b")
	w.decide(NewAbort(testRef, 3, 0, "deadline"))
	w.add(SharedFile, testFile(1, 3, "c").Name, 1, 3) // uploaded for the aborted 3
	w.add(NodePart, "chk-3/part-1-node", 1, 3)
	w.durable(2, 4, 0, true, "1-2-b", "2-4-d")
	w.durable(2, 5, 0, true, "2-4-d", "2-5-e")
	w.add(SharedFile, testFile(2, 6, "f").Name, 2, 6) // in flight
	w.add(NodePart, "chk-6/part-2-node", 2, 6)
	w.add(RetentionOrder, "retention-4", 0, 4)
	p, ok := PlanRetention(w.input(2))
	if !ok {
		t.Fatal("no plan")
	}
	if got, want := retired(p), []job.CheckpointID{1, 2}; !slices.Equal(got, want) {
		t.Errorf("retired: got %v, want %v", got, want)
	}
	// 1-2-b stays, since 4 names it. 2-6-f stays, since 6 may be in flight. The abort record stays, young or
	// not, since it is not below the floor that the newest manifest records.
	if got, want := short(p.Delete), "attempt-1 chk-1/part-1-node chk-2/part-1-node chk-3/part-1-node retention-4 shared/1-1-a shared/1-3-c"; got != want {
		t.Errorf("deleted:\ngot  %s\nwant %s", got, want)
	}
	if p.Floor != 4 || p.After != 5 {
		t.Errorf("floor %d after %d, want 4 after 5", p.Floor, p.After)
	}
	b, err := EncodeRetention(p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := DecodeRetention(b); err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("read back: %+v, %v, want %+v", again, err, p)
	}
}

// Ensure that the checkpoint before the newest is kept until the newest is committed: if the newest one's
// transactions turn out lost, it is what the job falls back to.
func TestRetainBeforeNewest(t *testing.T) {
	for _, committed := range []bool{false, true} {
		w := newWorld()
		w.durable(1, 1, 0, true, "1-1-a")
		w.durable(1, 2, 0, true, "1-2-b")
		w.durable(1, 3, 0, committed, "1-3-c")
		p, _ := PlanRetention(w.input(1))
		want := []job.CheckpointID{1}
		if committed {
			want = []job.CheckpointID{1, 2}
		}
		if got := retired(p); !slices.Equal(got, want) {
			t.Errorf("newest committed %v: retired %v, want %v", committed, got, want)
		}
	}
}

// Ensure that holds are honoured when planning, and again after the plan was persisted.
func TestHolds(t *testing.T) {
	w := newWorld()
	w.durable(1, 1, 0, true, "1-1-a")
	w.durable(1, 2, 0, true, "1-2-b")
	w.durable(1, 3, 0, true, "1-3-c")
	p, _ := PlanRetention(w.input(1, 2))
	if got, want := retired(p), []job.CheckpointID{1}; !slices.Equal(got, want) || p.Floor != 2 {
		t.Errorf("held when planning: retired %v floor %d, want %v floor 2", got, p.Floor, want)
	}
	p, _ = PlanRetention(w.input(1))
	in := w.input(1, 1)
	r := p.Revise(in.Decisions, in.Held)
	if got, want := retired(r), []job.CheckpointID{2}; !slices.Equal(got, want) || r.Floor != 1 {
		t.Errorf("held after planning: retired %v floor %d, want %v floor 1", got, r.Floor, want)
	}
	if strings.Contains(short(r.Delete), "shared/1-1-a") || !strings.Contains(short(r.Delete), "shared/1-2-b") {
		t.Errorf("held after planning: deletes %s, want 1-2-b and not 1-1-a", short(r.Delete))
	}
	// A restore wrote the content of 2 under the new id 4 after the plan was persisted.
	restored := w.decisions[2]
	restored.ID = 4
	r = p.Revise(append(in.Decisions, restored), nil)
	if strings.Contains(short(r.Delete), "shared/1-2-b") {
		t.Error("a file that a newer manifest names is deleted")
	}
}

// Ensure that tombstones and abort records go only below the floor that the newest manifest records, only after
// a day, and that a durable manifest there, brought back by a delayed PUT, is retired again.
func TestBelowTheFloor(t *testing.T) {
	w := newWorld()
	w.decide(NewTombstone(Manifest{UID: "0a1b", Attempt: 1, ID: 1}))
	w.decide(NewAbort(job.Ref{UID: "0a1b", Attempt: 1}, 2, 0, ""))
	w.durable(1, 3, 0, true) // resurrected
	w.decide(NewTombstone(Manifest{UID: "0a1b", Attempt: 1, ID: 5}))
	w.add(CommittedMark, "chk-1/committed", 0, 1)
	w.durable(1, 6, 5, true)
	in := w.input(3)
	p, _ := PlanRetention(in)
	if got := short(p.Delete); strings.Contains(got, "manifest") || strings.Contains(got, "committed") {
		t.Errorf("younger than a day: deletes %s", got)
	}
	if got := retired(p); !slices.Equal(got, []job.CheckpointID{3}) {
		t.Errorf("retired %v, want the resurrected 3", got)
	}
	in.Now = planTime.Add(24 * time.Hour)
	p, _ = PlanRetention(in)
	for _, name := range []string{"chk-1/manifest", "chk-1/committed", "chk-2/manifest"} {
		if !slices.Contains(p.Delete, name) {
			t.Errorf("after a day %s stays", name)
		}
	}
	for _, name := range []string{"chk-3/manifest", "chk-5/manifest", "chk-6/manifest", "chk-6/committed"} {
		if slices.Contains(p.Delete, name) {
			t.Errorf("%s is deleted", name)
		}
	}
	if p.Floor < 5 {
		t.Errorf("floor fell to %d", p.Floor)
	}
}

// TestRetentionModel runs random lives of a job: checkpoints that reuse files of the newest durable one, aborts,
// holds, plans that are executed late and twice. After every deletion each file that a standing manifest names
// must exist, the newest must stand, and an in-flight upload must be untouched.
func TestRetentionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, newest := newWorld(), job.CheckpointID(0)
		w.durable(1, 0, 0, true)
		var plans []RetentionPlan
		floor := job.CheckpointID(0)
		for n := job.CheckpointID(1); n < 15; n++ {
			inFlight := testFile(1, n, "f")
			w.add(SharedFile, inFlight.Name, 1, n)
			var held []job.CheckpointID
			if h := job.CheckpointID(rapid.IntRange(0, int(n)).Draw(t, "hold")); w.decisions[h].Kind == Durable {
				held = append(held, h)
			}
			if len(plans) == 0 || rapid.Bool().Draw(t, "plan") {
				if p, ok := PlanRetention(w.input(rapid.IntRange(0, 3).Draw(t, "keep"))); ok {
					plans = append(plans, p)
				}
			}
			p := plans[len(plans)-1] // perhaps an old one, again
			in := w.input(1, held...)
			r := p.Revise(in.Decisions, held)
			for _, m := range r.Retire {
				w.decide(m)
			}
			for _, name := range r.Delete {
				delete(w.objects, name)
			}
			floor = max(floor, r.Floor)
			for _, h := range held {
				if w.decisions[h].Kind != Durable {
					t.Fatalf("held checkpoint %d is retired", h)
				}
			}
			checkWorld(t, w, newest, inFlight)
			if rapid.IntRange(0, 3).Draw(t, "abort") == 0 {
				w.decide(NewAbort(testRef, n, 0, ""))
				continue
			}
			files := []string{fmt.Sprintf("1-%d-f", n)}
			for _, s := range w.decisions[newest].States {
				for _, f := range s.Files {
					if rapid.Bool().Draw(t, "reuse") {
						files = append(files, strings.TrimPrefix(f.Name[:len(f.Name)-63], "shared/"))
					}
				}
			}
			w.durable(1, n, 0, rapid.Bool().Draw(t, "committed"), files...)
			newest = n
			checkWorld(t, w, newest, inFlight)
		}
	})
}

func checkWorld(t *rapid.T, w *world, newest job.CheckpointID, inFlight File) {
	if w.decisions[newest].Kind != Durable {
		t.Fatalf("the newest checkpoint %d is retired", newest)
	}
	if _, ok := w.objects[inFlight.Name]; !ok {
		t.Fatalf("in-flight %s is deleted", inFlight.Name)
	}
	for _, m := range w.decisions {
		for _, s := range m.States {
			for _, f := range s.Files {
				if _, ok := w.objects[f.Name]; !ok && m.Kind == Durable {
					t.Fatalf("checkpoint %d names %s, which is gone", m.ID, f.Name)
				}
			}
		}
	}
}

func TestRetentionPlanIsChecked(t *testing.T) {
	good := RetentionPlan{Version: 1, UID: "0a1b", After: 9, Floor: 7}
	for _, name := range []string{"", "../x", "/x", "jobs/a", "shared/", "chk-1/x", "chk-1/../../y", "attempt-1/x", "attempt-x"} {
		p := good
		p.Delete = []string{name}
		if _, err := EncodeRetention(p); !errors.Is(err, ErrInvalid) {
			t.Errorf("plan that deletes %q: got %v, want ErrInvalid", name, err)
		}
	}
	p := good
	p.Retire = []Manifest{NewTombstone(Manifest{UID: "0a1b", ID: 9})}
	if _, err := EncodeRetention(p); !errors.Is(err, ErrInvalid) {
		t.Errorf("plan that retires the newest: got %v, want ErrInvalid", err)
	}
}

func TestSummary(t *testing.T) {
	var none Summary
	if none.ClaimID() != 0 || none.NextAttempt(0) != 1 {
		t.Errorf("empty store: claim %d, attempt %d, want 0 and 1", none.ClaimID(), none.NextAttempt(0))
	}
	s := Summarise([]Listed{
		{Kind: AttemptPlan, Attempt: 2}, {Kind: SharedFile, Attempt: 5, ID: 8}, {Kind: NodePart, Attempt: 4, ID: 9},
		{Kind: Decision, ID: 7}, {Kind: Decision, ID: 0}, {Kind: CommittedMark, ID: 6}, {Kind: "", Attempt: 99, ID: 99},
	})
	if s.MaxID != 9 || s.ClaimID() != 8 {
		t.Errorf("max id %d, claim %d, want 9 and 8", s.MaxID, s.ClaimID())
	}
	if n, ok := s.CoveredUpTo(); !ok || n != 6 {
		t.Errorf("covered up to %d %v, want 6", n, ok)
	}
	s.Note(NewClaim(job.Ref{UID: "0a1b", Attempt: 100}, 7, 0))
	if got := s.NextAttempt(3); got != 101 {
		t.Errorf("next attempt: got %d, want 101: a claim is all that attempt 100 left", got)
	}
	if got := s.NextAttempt(200); got != 201 {
		t.Errorf("next attempt: got %d, want 201", got)
	}
	ms := []Manifest{{Kind: Durable, ID: 3}, {Kind: Aborted, ID: 9}, {Kind: Durable, ID: 5}, {Kind: Retired, ID: 6}}
	if m, ok := NewestDurable(ms); !ok || m.ID != 5 {
		t.Errorf("newest durable: got %d %v, want 5", m.ID, ok)
	}
}

func TestCheckDeadline(t *testing.T) {
	const now = 1_000_000
	tx := func(begin, timeout int64) Transaction {
		return Transaction{ID: fmt.Sprint(begin), BeginUnixMs: begin, TimeoutMs: timeout}
	}
	for _, c := range []struct {
		name string
		ts   []Transaction
		want string // id of the transaction in the error
	}{
		{"none", nil, ""},
		{"no timeout", []Transaction{tx(1, 0)}, ""},
		{"exactly the margin left", []Transaction{tx(now-50_000, 60_000)}, ""},
		{"a millisecond less", []Transaction{tx(now-50_001, 60_000)}, "949999"},
		{"long past", []Transaction{tx(1, 1)}, "1"},
		{"the most urgent is named", []Transaction{tx(now-100, 60_000), tx(now-52_000, 60_000), tx(now-51_000, 60_000)}, "948000"},
		{"the shortest timeout, not the earliest begin", []Transaction{tx(now-100_000, 900_000), tx(now-10, 5_000)}, "999990"},
		{"no overflow", []Transaction{tx(now, 1<<63-1)}, ""},
	} {
		err := CheckDeadline(c.ts, now, 10*time.Second)
		var e *ExpiringError
		if errors.As(err, &e) != (c.want != "") || e != nil && (e.Transaction.ID != c.want || job.ClassOf(err) != job.Fatal) {
			t.Errorf("%s: got %v, want transaction %q", c.name, err, c.want)
		}
	}
}
