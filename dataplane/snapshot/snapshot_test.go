package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
)

var ref = job.Ref{UID: "0a1b", Attempt: 3}

func graph() *job.Graph {
	return &job.Graph{MaxParallelism: 8, Vertices: []job.Vertex{{UID: "in", Parallelism: 1, Operators: []job.Operator{{UID: "in"}}}}}
}

func durable(n job.CheckpointID, files ...checkpoint.File) checkpoint.Manifest {
	return checkpoint.Manifest{
		Version: 1, Kind: checkpoint.Durable, UID: ref.UID, Attempt: ref.Attempt, ID: n, MaxParallelism: 8, Graph: graph(),
		States: []checkpoint.OperatorState{{Operator: "in", Backend: "pebble", Files: files}},
	}
}

// once makes a Decide function that injects f into the first call of op, and counts the calls of op.
func once(op snapshottest.Op, f snapshottest.Fault) (decide func(snapshottest.Op, string) snapshottest.Fault, calls *int) {
	calls = new(int)
	return func(o snapshottest.Op, _ string) snapshottest.Fault {
		if o != op {
			return snapshottest.Fault{}
		}
		if *calls++; *calls > 1 {
			return snapshottest.Fault{}
		}
		return f
	}, calls
}

func TestNames(t *testing.T) {
	n := snapshot.Names{UID: "0a1b"}
	d := strings.Repeat("a", 64)
	for key, want := range map[string]snapshot.Parsed{
		n.Attempt(3):             {Kind: "attempt", Attempt: 3},
		n.Shared(3, 7, d):        {Kind: "shared", Attempt: 3, Checkpoint: 7},
		n.Part(7, 3, "node a/1"): {Kind: "part", Attempt: 3, Checkpoint: 7},
		n.Manifest(7):            {Kind: "manifest", Checkpoint: 7},
		n.Committed(7):           {Kind: "committed", Checkpoint: 7},
		n.Retention(7):           {Kind: "retention", Checkpoint: 7},
		"0a1b/chk-07/manifest":   {}, "0a1b/chk-7/other": {}, "0a1b/attempt--1": {}, "0a1b2/attempt-1": {}, "0a1b/shared/1-x-y": {}, "0a1b/chk-7": {}, "x": {},
	} {
		if got := n.Parse(key); got != want {
			t.Errorf("parse %s: got %+v, want %+v", key, got, want)
		}
		if want.Kind != "" {
			if err := snapshot.CheckKey(key); err != nil {
				t.Errorf("own key %s: %v", key, err)
			}
		}
	}
	if got, want := n.Key(checkpoint.SharedName(3, 7, d)), n.Shared(3, 7, d); got != want {
		t.Errorf("key of a shared name: got %s, want %s", got, want)
	}
}

// Ensure that a lost reply to the deciding PUT is found out, and that whoever was first is obeyed.
func TestDecide(t *testing.T) {
	s := snapshottest.NewMemory()
	lost := &snapshottest.Faulty{Store: s}
	lost.Decide, _ = once(snapshottest.OpCreate, snapshottest.Fault{LoseReply: true})
	m := durable(7)
	if _, err := snapshot.Decide(t.Context(), lost, m); !errors.Is(err, snapshottest.ErrInjected) {
		t.Errorf("lost reply: got %v, want the error: no decision without the store", err)
	}
	if v, err := snapshot.Decide(t.Context(), lost, m); err != nil || !v.Ours || v.Kind != checkpoint.Durable {
		t.Errorf("retry: got %+v, %v, want our own durable manifest", v, err)
	}
	abort := checkpoint.NewAbort(ref, 7, 0, "deadline")
	if v, err := snapshot.Decide(t.Context(), s, abort); err != nil || v.Ours || v.Kind != checkpoint.Durable {
		t.Errorf("abort after it is durable: got %+v, %v, want durable", v, err)
	}
	claim := checkpoint.NewClaim(job.Ref{UID: ref.UID, Attempt: 4}, 8, 0)
	if v, err := snapshot.Decide(t.Context(), s, claim); err != nil || !v.Ours {
		t.Errorf("claim: got %+v, %v, want ours", v, err)
	}
	if v, err := snapshot.Decide(t.Context(), s, durable(8)); err != nil || v.Ours || v.Kind != checkpoint.Aborted {
		t.Errorf("an older attempt's manifest after the claim: got %+v, %v, want aborted", v, err)
	}
}

// Ensure that a decision that cannot be trusted is a fatal error with its name, and no missing decision.
func TestReadManifestRefusesDamage(t *testing.T) {
	s := snapshottest.NewMemory()
	good, err := checkpoint.EncodeManifest(durable(7))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for i, c := range []struct {
		body []byte
		want error
	}{{flipped, checkpoint.ErrDamaged}, {good[:len(good)-1], checkpoint.ErrTruncated}, {good, checkpoint.ErrInvalid /* 7 in another's place */}} {
		n := job.CheckpointID(10 + i)
		if err := s.Put(t.Context(), snapshot.Names{UID: ref.UID}.Manifest(n), c.body); err != nil {
			t.Fatal(err)
		}
		if _, err := snapshot.ReadManifest(t.Context(), s, ref.UID, n); !errors.Is(err, c.want) || job.ClassOf(err) != job.Fatal {
			t.Errorf("%v: got %v", c.want, err)
		}
		if _, err := snapshot.SurveyJob(t.Context(), s, ref.UID, false); !errors.Is(err, c.want) {
			t.Errorf("survey with a damaged newest decision: got %v, want %v: it must not go on to an older one", err, c.want)
		}
	}
	if _, err := snapshot.ReadManifest(t.Context(), s, ref.UID, 99); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("undecided: got %v, want ErrNotFound", err)
	}
	cut := &snapshottest.Faulty{Store: s, Decide: func(snapshottest.Op, string) snapshottest.Fault { return snapshottest.Fault{Truncate: true} }}
	if _, err := snapshot.ReadManifest(t.Context(), cut, ref.UID, 12); !errors.Is(err, checkpoint.ErrTruncated) {
		t.Errorf("truncated body: got %v, want ErrTruncated", err)
	}
}

func TestParts(t *testing.T) {
	s := snapshottest.NewMemory()
	lost := &snapshottest.Faulty{Store: s}
	lost.Decide, _ = once(snapshottest.OpCreate, snapshottest.Fault{LoseReply: true})
	p := checkpoint.Part{Version: 1, UID: ref.UID, Attempt: ref.Attempt, ID: 7, Node: "a", Subtasks: []job.SubtaskID{{Vertex: "in"}}}
	if _, err := snapshot.WritePart(t.Context(), lost, p); !errors.Is(err, snapshottest.ErrInjected) {
		t.Fatalf("lost reply: got %v", err)
	}
	ack, err := snapshot.WritePart(t.Context(), lost, p)
	if err != nil {
		t.Fatalf("retry: %v", err)
	}
	if got, err := snapshot.ReadPart(t.Context(), s, ref, 7, ack); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, %v, want %+v", got, err, p)
	}
	other := p
	other.Ended = true
	if _, err := snapshot.WritePart(t.Context(), s, other); job.ClassOf(err) != job.Fatal {
		t.Errorf("another part at the same key: got %v, want a fatal error", err)
	}
	for name, a := range map[string]checkpoint.Ack{
		"another digest":        {Node: "a", Part: ack.Part, SHA256: strings.Repeat("0", 64)},
		"another node's name":   {Node: "b", Part: ack.Part, SHA256: ack.SHA256},
		"a key that is no part": {Node: "a", Part: "chk-7/manifest", SHA256: ack.SHA256},
		"a way out":             {Node: "a", Part: "../0a1b/" + ack.Part, SHA256: ack.SHA256},
	} {
		if _, err := snapshot.ReadPart(t.Context(), s, ref, 7, a); job.ClassOf(err) != job.Fatal {
			t.Errorf("%s: got %v, want a fatal error", name, err)
		}
	}
	if _, err := snapshot.ReadPart(t.Context(), s, ref, 8, ack); job.ClassOf(err) != job.Fatal {
		t.Errorf("another checkpoint's part: got %v, want a fatal error", err)
	}
}

func TestCommittedMarker(t *testing.T) {
	s := snapshottest.NewMemory()
	if ok, err := snapshot.IsCommitted(t.Context(), s, ref.UID, 7); err != nil || ok {
		t.Errorf("before: got %v, %v, want false", ok, err)
	}
	for range 2 {
		if err := snapshot.MarkCommitted(t.Context(), s, ref.UID, 7); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := snapshot.IsCommitted(t.Context(), s, ref.UID, 7); err != nil || !ok {
		t.Errorf("after: got %v, %v, want true", ok, err)
	}
	down := &snapshottest.Faulty{Store: s, Decide: func(snapshottest.Op, string) snapshottest.Fault { return snapshottest.Fault{Refuse: true} }}
	if _, err := snapshot.IsCommitted(t.Context(), down, ref.UID, 7); err == nil {
		t.Error("the store is down: an error is expected, not an answer")
	}
}

func TestSurvey(t *testing.T) {
	s := snapshottest.NewMemory()
	if v, err := snapshot.SurveyJob(t.Context(), s, ref.UID, false); err != nil || v.Found || v.NextAttempt(0) != 1 {
		t.Errorf("empty: got %+v, %v", v, err)
	}
	for _, m := range []checkpoint.Manifest{durable(5), durable(6), checkpoint.NewAbort(ref, 7, 0, ""), checkpoint.NewClaim(job.Ref{UID: ref.UID, Attempt: 9}, 8, 0)} {
		if v, err := snapshot.Decide(t.Context(), s, m); err != nil || !v.Ours {
			t.Fatal(v, err)
		}
	}
	if err := s.Create(t.Context(), "0a1b/something/else-99", nil); err != nil {
		t.Fatal(err)
	}
	v, err := snapshot.SurveyJob(t.Context(), s, ref.UID, false)
	if err != nil || v.Newest.ID != 6 || len(v.Decisions) != 3 || v.NextAttempt(1) != 10 || v.ClaimID() != 9 {
		t.Errorf("got newest %d, %d read, attempt %d, claim %d, %v; want 6, 3, 10, 9", v.Newest.ID, len(v.Decisions), v.NextAttempt(1), v.ClaimID(), err)
	}
	if v, err := snapshot.SurveyJob(t.Context(), s, ref.UID, true); err != nil || len(v.Decisions) != 4 {
		t.Errorf("all: got %d read, %v, want 4", len(v.Decisions), err)
	}
}

// TestRetentionSurvivesCrashes executes a plan that is cut off at every single call, again and again, until it
// is through; at no moment may a standing manifest name a file that is gone.
func TestRetentionSurvivesCrashes(t *testing.T) {
	for cut := range 6 {
		s := snapshottest.NewMemory()
		s.Now = func() time.Time { return time.Unix(0, 0) }
		var files []checkpoint.File
		for n := job.CheckpointID(1); n <= 4; n++ {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, fmt.Append(nil, n), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := snapshot.UploadFile(t.Context(), s, ref, n, path, fmt.Sprintf("%d.sst", n))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			if _, err := snapshot.Decide(t.Context(), s, durable(n, files[max(0, len(files)-2):]...)); err != nil {
				t.Fatal(err)
			}
		}
		calls := 0
		faulty := &snapshottest.Faulty{Store: s, Decide: func(op snapshottest.Op, _ string) snapshottest.Fault {
			if op != snapshottest.OpPut && op != snapshottest.OpDelete && op != snapshottest.OpCreate {
				return snapshottest.Fault{}
			}
			calls++
			return snapshottest.Fault{Refuse: calls-1 == cut, LoseReply: calls-1 == cut+1}
		}}
		var err error
		for range 4 {
			if err = retain(t, faulty); err == nil {
				break
			}
			checkStanding(t, s)
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		checkStanding(t, s)
		v, err := snapshot.SurveyJob(t.Context(), s, ref.UID, true)
		if err != nil || v.Newest.ID != 4 {
			t.Fatalf("newest %d, %v", v.Newest.ID, err)
		}
		for _, m := range v.Decisions {
			if (m.Kind == checkpoint.Durable) != (m.ID == 4) {
				t.Errorf("cut at %d: %s stands", cut, m.Name())
			}
		}
		// A frozen worker's delayed PUT of 2 must not bring it back.
		if verdict, err := snapshot.Decide(t.Context(), s, durable(2, files[:2]...)); err != nil || verdict.Kind != checkpoint.Retired {
			t.Errorf("delayed PUT: got %+v, %v, want retired", verdict, err)
		}
		objects, err := s.List(t.Context(), "0a1b/shared/")
		if err != nil || len(objects) != 2 {
			t.Errorf("cut at %d: %d files left, %v, want the 2 of checkpoint 4", cut, len(objects), err)
		}
	}
}

// retain is one run of the retention activity: plan, persist, read again, execute.
func retain(t *testing.T, s snapshot.Store) error {
	v, err := snapshot.SurveyJob(t.Context(), s, ref.UID, true)
	if err != nil {
		return err
	}
	p, ok := checkpoint.PlanRetention(checkpoint.RetentionInput{UID: ref.UID, Decisions: v.Decisions, Listing: v.Listing, Keep: 1})
	if !ok {
		t.Fatal("no plan")
	}
	if p, err = snapshot.PersistPlan(t.Context(), s, p); err != nil {
		return err
	}
	if v, err = snapshot.SurveyJob(t.Context(), s, ref.UID, true); err != nil {
		return err
	}
	return snapshot.ExecutePlan(t.Context(), s, p.Revise(v.Decisions, nil))
}

func checkStanding(t *testing.T, s snapshot.Store) {
	t.Helper()
	v, err := snapshot.SurveyJob(t.Context(), s, ref.UID, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range v.Decisions {
		for _, st := range m.States {
			for _, f := range st.Files {
				if err := snapshot.Download(t.Context(), s, ref.UID, f, t.TempDir()); err != nil {
					t.Errorf("%s: %v", m.Name(), err)
				}
			}
		}
	}
}

// Ensure that the plan that an earlier run persisted is executed, and not a new one.
func TestPersistPlanObeysTheFirst(t *testing.T) {
	s := snapshottest.NewMemory()
	first := checkpoint.RetentionPlan{Version: 1, UID: ref.UID, After: 9, Floor: 7, Delete: []string{"attempt-1"}}
	second := first
	second.Delete = []string{"attempt-2"}
	for _, p := range []checkpoint.RetentionPlan{first, second} {
		if got, err := snapshot.PersistPlan(t.Context(), s, p); err != nil || !reflect.DeepEqual(got, first) {
			t.Errorf("got %+v, %v, want %+v", got, err, first)
		}
	}
}

// Ensure that an upload whose reply was lost is found, and that a truncated download is repeated once and then
// counts as damage.
func TestTransferFaults(t *testing.T) {
	s := snapshottest.NewMemory()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &snapshottest.Faulty{Store: s}
	f.Decide, _ = once(snapshottest.OpUpload, snapshottest.Fault{LoseReply: true})
	if _, err := snapshot.UploadFile(t.Context(), f, ref, 7, path, "1.sst"); !errors.Is(err, snapshottest.ErrInjected) {
		t.Fatalf("lost reply: got %v", err)
	}
	file, err := snapshot.UploadFile(t.Context(), f, ref, 7, path, "1.sst")
	if err != nil {
		t.Fatalf("retry: %v", err)
	}
	dir := t.TempDir()
	var calls *int
	f.Decide, calls = once(snapshottest.OpOpen, snapshottest.Fault{Truncate: true})
	if err := snapshot.Download(t.Context(), f, ref.UID, file, dir); err != nil || *calls != 2 {
		t.Errorf("truncated once: got %v after %d tries, want success after 2", err, *calls)
	}
	f.Decide = func(op snapshottest.Op, _ string) snapshottest.Fault {
		return snapshottest.Fault{Truncate: op == snapshottest.OpOpen}
	}
	err = snapshot.Download(t.Context(), f, ref.UID, file, dir)
	if !errors.Is(err, snapshot.ErrContent) || !errors.Is(err, checkpoint.ErrDamaged) || job.ClassOf(err) != job.Fatal {
		t.Errorf("truncated always: got %v, want fatal damage", err)
	}
	// Something else stands at the key: its size gives it away.
	if err := s.Put(t.Context(), snapshot.Names{UID: ref.UID}.Key(file.Name), []byte("longer state")); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.UploadFile(t.Context(), s, ref, 7, path, "1.sst"); !errors.Is(err, snapshot.ErrContent) || job.ClassOf(err) != job.Fatal {
		t.Errorf("another object at the key: got %v, want a fatal ErrContent", err)
	}
	file.Local = "../escape"
	if err := snapshot.Download(t.Context(), s, ref.UID, file, dir); job.ClassOf(err) != job.Fatal {
		t.Errorf("escaping local name: got %v, want a fatal error", err)
	}
}
