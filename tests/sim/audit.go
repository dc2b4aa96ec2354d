package sim

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/transaction"
)

// audit is what the world remembers for its checks; no process of the job sees it, except where a broken
// rule says so.
type audit struct {
	w             *world
	newestAttempt job.Attempt
	parallelism   int
	digests       [maxParallelism + 1]string
	// durable are the manifests that ever decided a checkpoint, in order; retired those named by a plan.
	durable []checkpoint.Manifest
	retired map[job.CheckpointID]bool
	// standing are the decisions in the store.
	standing map[job.CheckpointID]checkpoint.Manifest
	// fellBack are the checkpoints that the job fell back from.
	fellBack map[job.CheckpointID]bool
	// highest is the highest attempt that has written a decision.
	highest job.Attempt
	// obligations are what is to be done within a time, troubledUntil is until when something other than
	// Temporal's absence can end an attempt, judged when a checkpoint was first found fit to become durable: see timeliness.go.
	obligations   []obligation
	troubledUntil int
	judged        map[job.CheckpointID]int
	// atRest: the sinks have been brought to rest for good.
	atRest bool
	// committedAt is when the last checkpoint was committed.
	committedAt int
	// messages and resolved serve broken rules.
	messages map[job.CheckpointID]checkpoint.Manifest
	resolved [partitions]int
	// commands are what the user will ask for, terminate that the job is to be terminated in the end.
	commands  []command
	terminate bool
}

type command struct {
	kind string
	at   int
}

// command is what the user wants of the job now; "" for nothing.
func (w *world) command() string {
	if c := w.audit.commands; len(c) > 0 && c[0].at <= w.now && (c[0].kind != "cancel" || !w.input.shut) {
		return c[0].kind
	}
	return ""
}

// obeyed is called when the job acts on a command.
func (w *world) obeyed(kind string) {
	w.audit.commands = w.audit.commands[1:]
	w.count("command " + kind)
	w.tracef("StreamJob: command %s", kind)
	if kind == "rescale" {
		w.audit.parallelism = 5 - w.audit.parallelism
	}
}

// resolveAgain breaks a rule: start positions are resolved at every start.
func (a *audit) resolveAgain() {
	for q := range a.resolved {
		a.resolved[q] = a.w.input.high(q)
	}
}

// wrote checks every object that is written.
func (w *world) wrote(key string, old, body []byte) {
	p := names.Parse(key)
	switch p.Kind {
	case "manifest":
		w.decided(p.Checkpoint, old, body)
	case "retention":
		plan, err := checkpoint.DecodeRetention(body)
		if err != nil {
			w.fail("BAD OBJECT", "%s: %v", key, err)
			return
		}
		for _, t := range plan.Retire {
			w.audit.retired[t.ID] = true
		}
	case "committed":
		w.tracef("S3: checkpoint %d is marked as committed", p.Checkpoint)
		w.checkMarker(p.Checkpoint)
	}
}

// decided checks a decision, or a tombstone in the place of one.
func (w *world) decided(n job.CheckpointID, old, body []byte) {
	m, err := checkpoint.DecodeManifest(body)
	if err != nil {
		w.fail("BAD OBJECT", "decision about %d: %v", n, err)
		return
	}
	w.audit.standing[n] = m
	w.audit.highest = max(w.audit.highest, m.Attempt)
	if m.Kind == checkpoint.Retired {
		w.tracef("S3: checkpoint %d is retired", n)
		return
	}
	if old != nil && !bytes.Equal(old, body) {
		w.fail("DECIDED TWICE", "checkpoint %d is now %s of attempt %d", n, m.Kind, m.Attempt)
		return
	}
	if m.Kind == checkpoint.Aborted {
		w.tracef("S3: checkpoint %d is aborted by attempt %d: %s", n, m.Attempt, m.Reason)
		return
	}
	w.tracef("S3: checkpoint %d of attempt %d is DURABLE at %v, final %v, transactions %s", n, m.Attempt, positionsOf(m), m.Final, lines(m))
	w.count("durable checkpoints")
	if n < w.audit.floor() {
		w.count("void checkpoints")
		return
	}
	if w.audit.retired[n] {
		w.fail("RESURRECTED", "checkpoint %d is durable again after it was retired", n)
		return
	}
	w.audit.durable = append(w.audit.durable, m)
	if n == 0 && !w.input.resolved {
		w.input.start, w.input.resolved = positionsOf(m), true
	}
	w.checkState(m)
	if m.Origin != nil {
		for _, d := range w.audit.durable {
			if d.ID > *m.Origin && d.ID < n {
				w.audit.fellBack[d.ID] = true
			}
		}
	}
}

// floor is that of the newest durable checkpoint: what stands below it is void.
func (a *audit) floor() job.CheckpointID {
	if len(a.durable) == 0 {
		return 0
	}
	newest, _ := checkpoint.NewestDurable(a.durable)
	return newest.Floor
}

// lines shows the transactions of a manifest: attempt/subtask/slot@epoch.
func lines(m checkpoint.Manifest) string {
	var out []string
	for _, t := range m.Transactions {
		id, _ := transaction.Parse(t.ID)
		out = append(out, fmt.Sprintf("%d/%d/%d@%d", id.Attempt, id.Subtask, id.Slot, t.ProducerEpoch))
	}
	return fmt.Sprint(out)
}

// checkState: the state of a durable checkpoint is that of a replay of the input up to its positions, and all
// of its files are there.
func (w *world) checkState(m checkpoint.Manifest) {
	var got [numKeys]int
	for _, s := range m.States {
		for _, f := range s.Files {
			if k, n, isCount := parseFile(f); isCount {
				got[k] = n
			}
			if _, there := w.s3.objects[names.Key(f.Name)]; !there {
				w.fail("FILE", "checkpoint %d names %s, which does not exist", m.ID, f.Local)
			}
		}
	}
	if want := w.input.counts(positionsOf(m)); got != want {
		w.fail("STATE", "checkpoint %d at %v holds %v, the input up to there gives %v", m.ID, positionsOf(m), got, want)
	}
}

// checkMarker: what is marked as committed is committed.
func (w *world) checkMarker(n job.CheckpointID) {
	for _, m := range w.audit.durable {
		if m.ID != n {
			continue
		}
		for _, t := range m.Transactions {
			if x := w.kafka.find(t.ID, t.ProducerID, t.ProducerEpoch); x == nil || x.state != completeCommit && x.state != prepareCommit {
				w.fail("MARKER", "checkpoint %d is marked as committed, %s is not", n, t.ID)
			}
		}
	}
}

// removed checks every deletion: no file that a restorable checkpoint names.
func (w *world) removed(key string, body []byte) {
	w.count("objects deleted")
	p := names.Parse(key)
	w.tracef("S3: %s is deleted", strings.TrimPrefix(key, names.Prefix()))
	if p.Kind == "manifest" {
		delete(w.audit.standing, p.Checkpoint)
	}
	if p.Kind != "shared" {
		return
	}
	for _, m := range w.audit.durable {
		stands := w.audit.standing[m.ID].Kind == checkpoint.Durable && !w.audit.retired[m.ID]
		if stands && namesFile(m, strings.TrimPrefix(key, names.Prefix())) {
			w.fail("FILE", "%s (%s) is deleted, checkpoint %d names it", key, body, m.ID)
		}
	}
}

func namesFile(m checkpoint.Manifest, name string) bool {
	for _, s := range m.States {
		for _, f := range s.Files {
			if f.Name == name {
				return true
			}
		}
	}
	return false
}

// checkLoss: a loss is told only where there is one.
func (w *world) checkLoss(m checkpoint.Manifest, done *transaction.Completion) {
	gone, kept := 0, 0
	for _, t := range m.Transactions {
		x := w.kafka.find(t.ID, t.ProducerID, t.ProducerEpoch)
		if x != nil && (x.state == completeCommit || x.state == prepareCommit) {
			kept++
		} else {
			gone++
		}
	}
	switch done.Verdict() {
	case transaction.Complete:
		if gone > 0 {
			w.fail("TORN", "checkpoint %d is said to be complete, %d of its transactions are not committed", m.ID, gone)
		}
	case transaction.AllLost, transaction.SomeLost:
		w.count("losses found: " + done.Verdict().String())
		w.checkMargin(m)
		if len(done.Lost()) > gone || w.kafka.timeout == 0 {
			w.fail("FALSE ALARM", "checkpoint %d: %s: %d lost, but %d are committed and %d not", m.ID, done.Verdict(), len(done.Lost()), kept, gone)
		}
	}
}

// checkNoTarget: where the job finds nothing to fall back to, there never was anything.
func (w *world) checkNoTarget(lost job.CheckpointID) {
	var gone []checkpoint.Transaction
	var covered []job.CheckpointID
	for _, m := range w.audit.durable {
		all := true
		for _, t := range m.Transactions {
			x := w.kafka.find(t.ID, t.ProducerID, t.ProducerEpoch)
			if x != nil && x.state == completeCommit {
				continue
			}
			all = false
			if m.ID == lost {
				gone = append(gone, t)
			}
		}
		if all {
			covered = append(covered, m.ID)
		}
	}
	if t, ok := transaction.FallBackTarget(w.audit.durable, covered, gone); ok {
		w.fail("NO FALL BACK", "all transactions of checkpoint %d are lost, and %d, to which the job could go back, is not kept", lost, t.ID)
	}
}

// checkBlocked: what a superseded attempt left open blocks readers for no longer than a checkpoint.
func (a *audit) checkBlocked(w *world, attempt job.Attempt) {
	for _, t := range w.kafka.all {
		id, err := transaction.Parse(t.id)
		if err == nil && t.state == ongoing && id.Attempt < attempt && t.began < a.committedAt {
			w.fail("BLOCKED", "%s is open since %d, readers wait", t, t.began)
		}
	}
	a.committedAt = w.now
}

// planRetention is the production plan, or what a broken rule makes of it.
func (w *world) planRetention(look snapshot.Survey) (checkpoint.RetentionPlan, bool) {
	in := checkpoint.RetentionInput{UID: uid, Decisions: look.Decisions, Listing: look.Listing, Keep: w.cfg.keep, Now: w.clock().Add(w.s3.age)}
	if w.broken(ForgetBefore) { // as if everything were committed
		in.Keep = 1
		for _, m := range look.Decisions {
			in.Listing = append(in.Listing, checkpoint.Listed{Kind: checkpoint.CommittedMark, ID: m.ID})
		}
	}
	plan, ok := checkpoint.PlanRetention(in)
	if !ok || !w.broken(SweepInFlight) && !w.broken(RecreateFiles) {
		return plan, ok
	}
	named := map[string]bool{}
	retired := map[job.CheckpointID]bool{}
	for _, t := range plan.Retire {
		retired[t.ID] = true
	}
	for _, m := range look.Decisions {
		for _, s := range m.States {
			for _, f := range s.Files {
				named[f.Name] = named[f.Name] || !retired[m.ID]
			}
		}
	}
	plan.Delete = nil
	for _, o := range look.Listing {
		if o.Kind == checkpoint.SharedFile && !named[o.Name] {
			plan.Delete = append(plan.Delete, o.Name)
		}
	}
	return plan, true
}
