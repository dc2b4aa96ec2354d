package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/transaction"
)

// The control activities: the steps of package activities, on the model of S3 and Kafka, with the production
// code of packages snapshot, checkpoint and transaction.

// uid is the job's.
const uid = job.UID("5eed")

var (
	names = snapshot.Names{UID: uid}
	bg    = context.Background() // the world has no other way to end a call than killing its process
)

func ref(a job.Attempt) job.Ref { return job.Ref{UID: uid, Attempt: a} }

// errGone says that the job cannot go on; the run ends loudly.
var errGone = errors.New("nothing to go on from")

// startPosition writes chk-0, unless it stands.
func (w *world) startPosition(p *proc, g job.Graph) error {
	_, err := snapshot.ReadManifest(bg, p.store(), uid, 0)
	if err == nil || !errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	var at [partitions]int
	for i := range at {
		at[i] = w.input.high(i)
	}
	m, err := checkpoint.NewStart(uid, g, sourceStates(at, g.Vertices[0].Parallelism))
	if err != nil {
		return permanent{err}
	}
	_, err = snapshot.Decide(bg, p.store(), m)
	return err
}

// claim is the answer of claimAttempt.
type claim struct {
	attempt       job.Attempt
	newest, first job.CheckpointID
	floor         job.CheckpointID
	final         bool
	superseded    bool
}

// claimAttempt takes the next attempt number and the checkpoint id after the highest decided one, and asks
// older attempts to end.
func (w *world) claimAttempt(p *proc, above job.Attempt, onlyIfNewest bool) (claim, error) {
	for {
		look, err := snapshot.SurveyJob(bg, p.store(), uid, false)
		if err != nil {
			return claim{}, err
		}
		if !look.Found {
			return claim{}, permanent{fmt.Errorf("claim: no checkpoint is left: %w", errGone)}
		}
		if onlyIfNewest && look.MaxAttempt > above {
			return claim{superseded: true}, nil
		}
		a, id := look.NextAttempt(above), look.ClaimID()
		if w.broken(NoClaim) {
			id = look.MaxID
		} else {
			v, err := snapshot.Decide(bg, p.store(), checkpoint.NewClaim(ref(a), id, look.Newest.Floor))
			if err != nil {
				return claim{}, err
			}
			if !v.Ours {
				above = a
				continue
			}
		}
		for _, o := range look.Listing {
			if r := w.temporal.attempts[o.Attempt]; o.Kind == checkpoint.AttemptPlan && o.Attempt < a && r != nil {
				r.cancel = true
			}
		}
		return claim{attempt: a, newest: look.Newest.ID, final: look.Newest.Final, first: id + 1, floor: look.Newest.Floor}, nil
	}
}

// recovery is the answer of recoverSinks; again: the manifest is no more.
type recovery struct {
	verdict transaction.Verdict
	again   bool
}

func (w *world) recoverSinks(p *proc, a job.Attempt, n job.CheckpointID, terminal bool) (recovery, error) {
	m, err := snapshot.ReadManifest(bg, p.store(), uid, n)
	if errors.Is(err, snapshot.ErrNotFound) || err == nil && m.Kind != checkpoint.Durable {
		return recovery{again: true}, nil
	}
	if err != nil {
		return recovery{}, err
	}
	done, err := w.complete(p, m)
	if err != nil {
		return recovery{}, err
	}
	began := w.now
	if err := w.abortLeftovers(p, m, a, terminal); err != nil {
		return recovery{}, err
	}
	w.checkLeftovers(m, a, began)
	return recovery{verdict: done.Verdict()}, nil
}

// startCompletion is the production's NewCompletion, or what broken rules make of it.
func (w *world) startCompletion(p *proc, m checkpoint.Manifest) (*transaction.Completion, error) {
	marks, err := covered(p, m)
	if err != nil {
		return nil, err
	}
	if w.broken(IgnoreMarker) {
		marks = nil
	}
	if w.broken(MarkerFirst) {
		if err := snapshot.MarkCommitted(bg, p.store(), uid, m.ID); err != nil {
			return nil, err
		}
	}
	done, err := transaction.NewCompletion(m, marks)
	if err != nil {
		return nil, permanent{err}
	}
	return done, nil
}

// complete drives a manifest's transactions to the end.
func (w *world) complete(p *proc, m checkpoint.Manifest) (*transaction.Completion, error) {
	done, err := w.startCompletion(p, m)
	if err != nil {
		return nil, err
	}
	for {
		step := done.Next()
		t := step.Transaction
		switch step.Action {
		case transaction.Commit, transaction.Abort:
			var o transaction.Outcome
			if step.Action == transaction.Commit {
				o, err = p.commit(t)
			} else {
				o, err = p.abort(t)
			}
			if err != nil {
				return nil, fmt.Errorf("end %s of checkpoint %d: %w", t.ID, m.ID, err)
			}
			done.Report(t.ID, o)
		case transaction.PutMarker:
			if err := snapshot.MarkCommitted(bg, p.store(), uid, m.ID); err != nil {
				return nil, err
			}
			done.ReportMarker(true)
		case transaction.ReadMarker:
			exists, err := snapshot.IsCommitted(bg, p.store(), uid, m.ID)
			if err != nil {
				return nil, err
			}
			if w.broken(MarkerDespiteLoss) && !exists {
				err = snapshot.MarkCommitted(bg, p.store(), uid, m.ID)
				exists = err == nil
			}
			done.ReportMarker(exists && !w.broken(BelieveLoss))
		default:
			w.tracef("%s: transactions of checkpoint %d: %s", p.name, m.ID, done.Verdict())
			w.checkLoss(m, done)
			return done, nil
		}
	}
}

// covered looks for the newest marker that may cover transactions of m.
func covered(p *proc, m checkpoint.Manifest) ([]job.CheckpointID, error) {
	oldest := m.ID
	for _, t := range m.Transactions {
		oldest = min(oldest, t.Checkpoint)
	}
	for id := m.ID; id >= oldest; id-- {
		exists, err := snapshot.IsCommitted(bg, p.store(), uid, id)
		if err != nil {
			return nil, err
		}
		if exists {
			return []job.CheckpointID{id}, nil
		}
	}
	return nil, nil
}

// abortLeftovers aborts what attempts below the one given have left open, except what m lists.
func (w *world) abortLeftovers(p *proc, m checkpoint.Manifest, below job.Attempt, terminal bool) error {
	if w.broken(NoLateAbort) && !terminal && below == m.Attempt {
		return nil
	}
	open, err := p.openTransactions(terminal)
	if err != nil {
		return err
	}
	if w.broken(AbortAnyAttempt) {
		below = math.MaxInt64
	}
	if w.broken(CompareByID) {
		m.Transactions = slices.Clone(m.Transactions)
		for i := range m.Transactions {
			for _, o := range open {
				if t := &m.Transactions[i]; o.ID == t.ID {
					t.ProducerID, t.ProducerEpoch = o.ProducerID, o.ProducerEpoch
				}
			}
		}
	}
	for _, t := range transaction.Leftovers(open, m, below) {
		if err := p.abortOpen(t); err != nil {
			return err
		}
	}
	return nil
}

// fallBack repeats, under the id n, the checkpoint to return to when all transactions of lost are lost.
// taken: somebody else has decided n.
func (w *world) fallBack(p *proc, a job.Attempt, lost, n job.CheckpointID) (taken bool, err error) {
	look, err := snapshot.SurveyJob(bg, p.store(), uid, true)
	if err != nil {
		return false, err
	}
	upTo, marked := look.CoveredUpTo()
	var ts []checkpoint.Transaction
	for _, m := range look.Decisions {
		for _, t := range m.Transactions {
			if m.ID == lost && (!marked || t.Checkpoint > upTo) {
				ts = append(ts, t)
			}
		}
	}
	from, found := transaction.FallBackTarget(look.Decisions, look.Committed, ts)
	if !found {
		return false, permanent{fmt.Errorf("fall back from %d: %w", lost, errGone)}
	}
	m, err := checkpoint.Restored(from, ref(a), n, from.Floor, fmt.Sprintf("fell back from %d", lost))
	if err != nil {
		return false, permanent{err}
	}
	v, err := snapshot.Decide(bg, p.store(), m)
	if err == nil {
		w.count("fell back")
		w.tracef("%s: falls back from checkpoint %d to %d, as %d (ours: %v)", p.name, lost, from.ID, n, v.Ours)
	}
	return err == nil && !v.Ours, err
}

// placed is the answer of placeAttempt.
type placed struct {
	nodes []job.NodeSlot
	taken bool
}

// placeAttempt spreads the slots over the nodes and writes the attempt's plan.
func (w *world) placeAttempt(p *proc, a job.Attempt, restore, first job.CheckpointID, g job.Graph) (placed, error) {
	var place job.Placement
	var err error
	until := w.now + 12
	p.await(func() bool {
		var up []job.NodeSlots
		for _, h := range w.machines {
			if !w.lost(h.id) && !h.cut {
				up = append(up, job.NodeSlots{ID: h.id, Addr: string(h.id), Slots: h.slots})
			}
		}
		place, err = job.Place(g.MaxVertexParallelism(), up)
		return err == nil || w.now > until
	})
	if err != nil {
		return placed{}, err
	}
	b, err := json.Marshal(job.Deployment{
		Ref: ref(a), JobName: "sim", GraphDigest: g.Digest(), Restore: restore, FirstCheckpoint: first, Placement: place,
	})
	if err != nil {
		return placed{}, permanent{err}
	}
	err = p.store().Create(bg, names.Attempt(a), b)
	taken := errors.Is(err, snapshot.ErrExists)
	if err != nil && !taken {
		return placed{}, err
	}
	return placed{nodes: place.Nodes(), taken: taken}, nil
}

func readDeployment(p *proc, a job.Attempt) (d job.Deployment, err error) {
	b, err := p.store().Get(bg, names.Attempt(a), 1<<20)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	return d, err
}

// retain retires what the newest checkpoints make superfluous, and returns the new floor.
func (w *world) retain(p *proc) (job.CheckpointID, error) {
	look, err := snapshot.SurveyJob(bg, p.store(), uid, true)
	if err != nil {
		return 0, err
	}
	plan, ok := w.planRetention(look)
	if !ok || len(plan.Retire)+len(plan.Delete) == 0 {
		return plan.Floor, nil
	}
	if plan, err = snapshot.PersistPlan(bg, p.store(), plan); err != nil {
		return 0, err
	}
	if look, err = snapshot.SurveyJob(bg, p.store(), uid, true); err != nil {
		return 0, err
	}
	if !w.broken(NoRevise) {
		plan = plan.Revise(look.Decisions, nil)
	}
	w.tracef("%s: plan %d retires %d, deletes %d, floor %d", p.name, plan.After, len(plan.Retire), len(plan.Delete), plan.Floor)
	w.count("retention plans")
	if w.broken(NoTombstone) {
		for _, t := range plan.Retire {
			if err := p.store().Delete(bg, names.Manifest(t.ID)); err != nil {
				return 0, err
			}
		}
		plan.Retire = nil
	}
	return plan.Floor, snapshot.ExecutePlan(bg, p.store(), plan)
}
