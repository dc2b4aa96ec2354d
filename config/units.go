package config

import "time"

// Size is a number of bytes.
type Size int64

// Rate is Count per Per (a second, minute or hour).
type Rate struct {
	Count int64
	Per   time.Duration
}

// PerSecond is the rate as events a second.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}
