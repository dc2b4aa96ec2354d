package job

import "fmt"

// Gate is a node's memory of which attempts may act: the rule that fences the old ones. It is a pure state
// machine; the caller serialises access.
//
// Invariants: highest[uid] never falls; an attempt below it is refused for ever; an (uid, attempt) is
// admitted for deployment at most once in the life of the gate (PROTOCOL: "a node process deploys
// (uid, attempt) at most once").
type Gate struct {
	highest  map[UID]Attempt
	deployed map[Ref]bool
	stopped  map[Ref]bool
}

// NewGate returns an empty gate.
func NewGate() *Gate {
	return &Gate{highest: map[UID]Attempt{}, deployed: map[Ref]bool{}, stopped: map[Ref]bool{}}
}

// StaleError says that a higher attempt of the same job has been seen.
type StaleError struct {
	Ref     Ref
	Highest Attempt
}

// Error implements error.
func (e *StaleError) Error() string {
	return fmt.Sprintf("attempt %s is superseded by attempt %d", e.Ref, e.Highest)
}

// StoppedError says that the attempt was stopped, perhaps before it ever ran here.
type StoppedError struct{ Ref Ref }

// Error implements error.
func (e *StoppedError) Error() string { return fmt.Sprintf("attempt %s was stopped", e.Ref) }

// See records that ref exists. It returns true when ref is the newest so far, in which case the caller
// must end everything that it runs of lower attempts, and a fenced *StaleError when ref is superseded.
func (g *Gate) See(ref Ref) (newer bool, err error) {
	h := g.highest[ref.UID]
	switch {
	case ref.Attempt < h:
		return false, AsFenced(&StaleError{Ref: ref, Highest: h})
	case ref.Attempt > h:
		g.highest[ref.UID] = ref.Attempt
		return true, nil
	}
	return false, nil
}

// Admit asks to deploy ref. first is true exactly once per ref; afterwards the caller attaches to what the
// first call started. Superseded and stopped attempts are refused with a fenced error.
func (g *Gate) Admit(ref Ref) (first bool, err error) {
	if _, err := g.See(ref); err != nil {
		return false, err
	}
	if g.deployed[ref] {
		return false, nil
	}
	if g.stopped[ref] {
		return false, AsFenced(&StoppedError{Ref: ref})
	}
	g.deployed[ref] = true
	return true, nil
}

// Stop remembers that ref was stopped, so that a RunTasks which arrives later is refused.
func (g *Gate) Stop(ref Ref) { g.stopped[ref] = true }

// Highest is the newest attempt seen of uid; 0 if none.
func (g *Gate) Highest(uid UID) Attempt { return g.highest[uid] }
