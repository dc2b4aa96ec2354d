package cluster

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// Timings are the intervals of failure detection. The zero value of a field takes DefaultTimings' value.
type Timings struct {
	// ProbeInterval is how often one random member is probed, ProbeTimeout how long an answer may take
	// before other members are asked to try (about the 99th percentile of the round trip).
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	// A member that does not answer is suspect for SuspicionMult × max(1, log10 n) × ProbeInterval, and at
	// most SuspicionMaxMult times that while few others confirm, before it is declared dead.
	SuspicionMult    int
	SuspicionMaxMult int
	// AwarenessMax bounds how much a member that is itself slow stretches its own intervals (Lifeguard).
	AwarenessMax int
	// GossipInterval is how often news leave that found no probe to ride on.
	GossipInterval time.Duration
	// RejoinInterval is how often addresses that should be members and are not are contacted.
	RejoinInterval time.Duration
	// UnseenGrace is how long after joining a node that was never seen is not yet taken for lost.
	UnseenGrace time.Duration
}

// DefaultTimings notice a dead member 2 to 4 seconds after it stopped answering.
func DefaultTimings() Timings {
	return Timings{
		ProbeInterval:    500 * time.Millisecond,
		ProbeTimeout:     200 * time.Millisecond,
		SuspicionMult:    3,
		SuspicionMaxMult: 2,
		AwarenessMax:     8,
		GossipInterval:   100 * time.Millisecond,
		RejoinInterval:   5 * time.Second,
		UnseenGrace:      5 * time.Second,
	}
}

// RelaxedTimings are for machines whose processes wait seconds for a core, such as a laptop that runs the
// whole cluster or a small build machine: about four times slower to notice, far harder to fool.
func RelaxedTimings() Timings {
	t := DefaultTimings()
	t.ProbeInterval = time.Second
	t.ProbeTimeout = 500 * time.Millisecond
	t.SuspicionMult = 5
	t.SuspicionMaxMult = 3
	t.GossipInterval = 200 * time.Millisecond
	t.UnseenGrace = 10 * time.Second
	return t
}

// withDefaults fills the fields that are zero.
func (t Timings) withDefaults() Timings {
	d := DefaultTimings()
	orDuration := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	orInt := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	orDuration(&t.ProbeInterval, d.ProbeInterval)
	orDuration(&t.ProbeTimeout, d.ProbeTimeout)
	orInt(&t.SuspicionMult, d.SuspicionMult)
	orInt(&t.SuspicionMaxMult, d.SuspicionMaxMult)
	orInt(&t.AwarenessMax, d.AwarenessMax)
	orDuration(&t.GossipInterval, d.GossipInterval)
	orDuration(&t.RejoinInterval, d.RejoinInterval)
	orDuration(&t.UnseenGrace, d.UnseenGrace)
	return t
}

func (t Timings) apply(c *memberlist.Config) {
	c.ProbeInterval = t.ProbeInterval
	c.ProbeTimeout = t.ProbeTimeout
	c.SuspicionMult = t.SuspicionMult
	c.SuspicionMaxTimeoutMult = t.SuspicionMaxMult
	c.AwarenessMaxMultiplier = t.AwarenessMax
	c.GossipInterval = t.GossipInterval
	c.PushPullInterval = 15 * time.Second
	c.TCPTimeout = 2 * time.Second
}
