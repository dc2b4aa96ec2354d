package config

import "time"

// Checkpoint says how often and how the job is saved.
type Checkpoint struct {
	Interval time.Duration
	// Storage is an s3:// or file:// URL; empty for the cluster's default.
	Storage  string
	Keep     int
	Timeout  time.Duration
	MinPause time.Duration
	Mode     Delivery
}

// State says where keyed state lives. Exactly one is set.
type State struct {
	Pebble *PebbleState
	Memory *MemoryState
}

// PebbleState is state on the node's disk. Cache is in bytes, a slot.
type PebbleState struct{ Cache Size }

// MemoryState is state in the process.
type MemoryState struct{}

// Restart is the restart strategy. Exactly one is set.
type Restart struct {
	Backoff *Backoff
	Fixed   *FixedDelay
	Rate    *FailureRate
	None    bool
}

// Backoff doubles the delay from Initial to Max; a run of ResetAfter forgets earlier failures.
type Backoff struct{ Initial, Max, ResetAfter time.Duration }

// FixedDelay restarts at most Attempts times, each after Delay.
type FixedDelay struct {
	Delay    time.Duration
	Attempts int
}

// FailureRate gives up after more than Failures failures within Per; restarts come after Delay.
type FailureRate struct {
	Failures int
	Per      time.Duration
	Delay    time.Duration
}
