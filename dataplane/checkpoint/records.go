package checkpoint

import (
	"bytes"
	"fmt"

	"github.com/weirstream/weir/dataplane/job"
)

// NewAbort is the record that decides "checkpoint n will never exist". It stands at the manifest's key, so that
// exactly one of the two can ever be written.
func NewAbort(ref job.Ref, n, floor job.CheckpointID, reason string) Manifest {
	return Manifest{Version: FormatVersion, Kind: Aborted, UID: ref.UID, Attempt: ref.Attempt, ID: n, Floor: floor, Reason: reason}
}

// NewClaim is the abort record with which the planner of a new attempt takes the id after the highest decided
// one: whatever an older attempt still has in flight can no longer become durable.
func NewClaim(ref job.Ref, n, floor job.CheckpointID) Manifest {
	return NewAbort(ref, n, floor, fmt.Sprintf("claimed by attempt %d", ref.Attempt))
}

// NewTombstone replaces a retired manifest. It stays until its id is below the floor and every delayed PUT is
// over: without it, a frozen process could bring a manifest back whose files are gone.
func NewTombstone(m Manifest) Manifest {
	return Manifest{Version: FormatVersion, Kind: Retired, UID: m.UID, Attempt: m.Attempt, ID: m.ID, Floor: m.Floor, Reason: "retired"}
}

// NewStart is chk-0: the start and end positions of every source, resolved once, before attempt 1. A restart
// never resolves them again.
func NewStart(uid job.UID, g job.Graph, states []OperatorState) (Manifest, error) {
	m := Manifest{
		Version: FormatVersion, Kind: Durable, UID: uid, MaxParallelism: g.MaxParallelism, Graph: &g,
		States: append([]OperatorState(nil), states...),
	}
	sortShare(m.States, nil)
	if err := m.Validate(); err != nil {
		return Manifest{}, fmt.Errorf("start position of %s: %w", uid, err)
	}
	return m, nil
}

// Restored repeats the content of from under the new id n for attempt ref: what falling back to an older
// checkpoint, or restoring one in place, writes before it deploys. It carries no transactions: those of from
// must be committed (or there are none), and those of what came later are aborted or committed by then.
func Restored(from Manifest, ref job.Ref, n, floor job.CheckpointID, reason string) (Manifest, error) {
	if from.Kind != Durable {
		return Manifest{}, fmt.Errorf("restore %s: %w", from.Name(), invalid("not a checkpoint"))
	}
	if from.UID != ref.UID {
		return Manifest{}, fmt.Errorf("restore %s as %s: %w", from.Name(), ref, invalid("another job's checkpoint"))
	}
	origin := from.ID
	m := from
	m.Attempt, m.ID, m.Floor, m.Origin, m.Reason = ref.Attempt, n, floor, &origin, reason
	m.Transactions, m.Stats.Transactions = nil, 0
	m.Stats.Uploaded = 0
	if err := m.Validate(); err != nil {
		return Manifest{}, fmt.Errorf("restore %s as %d: %w", from.Name(), n, err)
	}
	return m, nil
}

// Verdict is what stands at a manifest's key after our conditional PUT was refused.
type Verdict struct {
	// Ours: the object is the one we tried to write; our first reply was lost.
	Ours bool
	// Kind is the decision, ours or not. It is to be obeyed: Durable means that the checkpoint exists and its
	// transactions must be committed, whoever wrote it.
	Kind Kind
}

// Obey compares what stands at the key with what we wanted to write there. Two durable manifests are the same
// only byte for byte. Two abort records of the same attempt are the same, whatever their reasons. It fails
// when the object belongs to another job or checkpoint.
func Obey(existing, mine Manifest) (Verdict, error) {
	if err := existing.Is(mine.UID, mine.ID); err != nil {
		return Verdict{}, err
	}
	v := Verdict{Kind: existing.Kind}
	if existing.Kind != mine.Kind || existing.Attempt != mine.Attempt {
		return v, nil
	}
	if mine.Kind != Durable {
		v.Ours = true
		return v, nil
	}
	a, err := EncodeManifest(existing)
	if err != nil {
		return v, err
	}
	b, err := EncodeManifest(mine)
	if err != nil {
		return v, err
	}
	v.Ours = bytes.Equal(a, b)
	return v, nil
}
