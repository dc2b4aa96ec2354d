package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// TombstoneAge is how long tombstones and abort records below the floor are kept: far longer than any process
// can be frozen and still have a PUT accepted.
const TombstoneAge = 24 * time.Hour

// RetentionInput is what a retention plan is made from.
type RetentionInput struct {
	UID job.UID
	// Decisions are all decisions of the job as read from the store; Listing is everything it has.
	Decisions []Manifest
	Listing   []Listed
	// Keep is how many of the newest checkpoints to keep, at least 1.
	Keep int
	// Held are checkpoints that a savepoint, restore or fork needs and whose hold has not expired.
	Held []job.CheckpointID
	// Now is the time of planning, for TombstoneAge.
	Now time.Time
}

// RetentionPlan is what to retire and delete: destructive work, so it is first persisted, then revised against
// what the store says at that moment, and then executed; each operation may be repeated.
type RetentionPlan struct {
	Version int     `json:"version"`
	UID     job.UID `json:"uid"`
	// After is the newest checkpoint when the plan was made.
	After job.CheckpointID `json:"after"`
	// Floor is the lowest checkpoint that stays; the next manifests record it.
	Floor job.CheckpointID `json:"floor"`
	// Retire are the tombstones to put in the place of manifests, ascending.
	Retire []Manifest `json:"retire,omitempty"`
	// Delete are the names, relative to the job's prefix, of the objects to delete after that, sorted.
	Delete []string `json:"delete,omitempty"`
}

// PlanRetention makes a plan. ok is false when there is no checkpoint to keep and so nothing to do.
//
// Kept are the newest Keep checkpoints; the one before the newest until the newest is committed or has no
// transactions (whoever finds them lost falls back to it); and what is held. Deleted are state files that no
// kept manifest names and that belong to checkpoints older than the newest (those of the newest id or above may
// be in flight); parts and markers of retired and void checkpoints; plans of attempts older than every kept
// checkpoint's; older retention plans; and, after a day, decisions below the floor of the newest manifest.
func PlanRetention(in RetentionInput) (p RetentionPlan, ok bool) {
	newest, found := NewestDurable(in.Decisions)
	if !found {
		return RetentionPlan{}, false
	}
	keep := kept(in, newest)
	p = RetentionPlan{Version: FormatVersion, UID: in.UID, After: newest.ID, Floor: newest.ID}
	files := map[string]bool{}
	oldestAttempt := newest.Attempt
	for _, m := range in.Decisions {
		switch {
		case m.Kind != Durable:
		case !keep[m.ID]:
			p.Retire = append(p.Retire, NewTombstone(m))
		default:
			p.Floor = min(p.Floor, m.ID)
			oldestAttempt = min(oldestAttempt, m.Attempt)
			markFiles(files, m)
		}
	}
	// The floor never falls, or ids that were void would count again.
	p.Floor = max(p.Floor, newest.Floor)
	for _, o := range in.Listing {
		if deletable(o, in, newest, keep, files, oldestAttempt) {
			p.Delete = append(p.Delete, o.Name)
		}
	}
	slices.SortFunc(p.Retire, func(a, b Manifest) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(p.Delete)
	return p, true
}

// kept is the set of checkpoints that stay.
func kept(in RetentionInput, newest Manifest) map[job.CheckpointID]bool {
	var durable []job.CheckpointID
	for _, m := range in.Decisions {
		if m.Kind == Durable && m.ID >= newest.Floor { // below the floor: a delayed PUT, void
			durable = append(durable, m.ID)
		}
	}
	slices.Sort(durable)
	slices.Reverse(durable)
	n := max(in.Keep, 1)
	if n == 1 && !isCommitted(in.Listing, newest) {
		n = 2
	}
	keep := map[job.CheckpointID]bool{}
	for _, id := range durable[:min(n, len(durable))] {
		keep[id] = true
	}
	for _, id := range in.Held {
		if slices.Contains(durable, id) {
			keep[id] = true
		}
	}
	return keep
}

// isCommitted reports whether nothing of m can turn out lost any more.
func isCommitted(listing []Listed, m Manifest) bool {
	return len(m.Transactions) == 0 || slices.ContainsFunc(listing, func(o Listed) bool {
		return o.Kind == CommittedMark && o.ID == m.ID
	})
}

func markFiles(files map[string]bool, m Manifest) {
	for _, s := range m.States {
		for _, f := range s.Files {
			files[f.Name] = true
		}
	}
}

func deletable(o Listed, in RetentionInput, newest Manifest, keep map[job.CheckpointID]bool, files map[string]bool, oldestAttempt job.Attempt) bool {
	old := o.ID < newest.ID && !keep[o.ID]
	switch o.Kind {
	case SharedFile:
		return o.ID < newest.ID && !files[o.Name]
	case NodePart:
		return old
	case AttemptPlan:
		return o.Attempt < oldestAttempt
	case RetentionOrder:
		return o.ID < newest.ID
	case Decision, CommittedMark:
		// A durable manifest is first retired; its tombstone is as young as that.
		return old && o.ID < newest.Floor && in.Now.Sub(o.Modified) > TombstoneAge && !isDurable(in.Decisions, o.ID)
	}
	return false
}

func isDurable(decisions []Manifest, n job.CheckpointID) bool {
	return slices.ContainsFunc(decisions, func(m Manifest) bool { return m.ID == n && m.Kind == Durable })
}

// Revise drops from a persisted plan what has come to be needed since: decisions and held are read again after
// the plan was persisted. Whoever takes a hold reads the plans after that, so one of the two sees the other.
// The floor falls no lower than what the revised plan leaves standing.
func (p RetentionPlan) Revise(decisions []Manifest, held []job.CheckpointID) RetentionPlan {
	out := p
	out.Retire, out.Delete = nil, nil
	gone := map[job.CheckpointID]bool{}
	for _, t := range p.Retire {
		if slices.Contains(held, t.ID) {
			out.Floor = min(out.Floor, t.ID)
			continue
		}
		out.Retire = append(out.Retire, t)
		gone[t.ID] = true
	}
	needed := map[string]bool{}
	for _, m := range decisions {
		if m.Kind == Durable && !gone[m.ID] {
			markFiles(needed, m)
		}
	}
	for _, name := range p.Delete {
		if !needed[name] {
			out.Delete = append(out.Delete, name)
		}
	}
	return out
}

// Validate checks a plan that was read back: it may delete only what a plan can name.
func (p RetentionPlan) Validate() error {
	if err := validateHead(p.Version, p.UID, 0, p.After); err != nil {
		return err
	}
	for _, t := range p.Retire {
		if t.Kind != Retired || t.UID != p.UID || t.ID >= p.After {
			return invalid("plan %d retires %s", p.After, t.Name())
		}
		if err := t.Validate(); err != nil {
			return err
		}
	}
	for _, n := range p.Delete {
		if !deletePattern.MatchString(n) {
			return invalid("plan %d deletes %q", p.After, n)
		}
	}
	return nil
}

// EncodeRetention validates p and returns its bytes.
func EncodeRetention(p RetentionPlan) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("encode retention plan: %w", err)
	}
	return seal("retention plan", p, MaxRetentionBytes)
}

// DecodeRetention reads a persisted plan; errors as for DecodeManifest.
func DecodeRetention(b []byte) (RetentionPlan, error) {
	var p RetentionPlan
	if err := decode("retention plan", b, MaxRetentionBytes, &p); err != nil {
		return RetentionPlan{}, err
	}
	if err := p.Validate(); err != nil {
		return RetentionPlan{}, fmt.Errorf("decode retention plan: %w", err)
	}
	return p, nil
}
