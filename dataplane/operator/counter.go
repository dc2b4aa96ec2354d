package operator

import "sync/atomic"

// counter is written by one goroutine and read by others.
type counter struct{ v atomic.Int64 }

// Add adds n.
func (c *counter) Add(n int64) { c.v.Add(n) }

// Load returns the current value.
func (c *counter) Load() int64 { return c.v.Load() }
