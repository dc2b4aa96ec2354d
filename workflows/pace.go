package workflows

import "time"

const (
	// coarse is the resolution of workflow timers.
	coarse = time.Second
	// fine is the interval below which they cannot pace checkpoints.
	fine = 2 * time.Second
)

// Pause is how a StreamJob waits for the next checkpoint: Timer in the workflow, then Hold on the nodes,
// which inject the barrier of an already ordered checkpoint only when it is due.
type Pause struct{ Timer, Hold time.Duration }

// pause spaces checkpoints by interval from barrier to barrier, and by minPause from the end of one to the
// barrier of the next.
func pause(now, begun, ended time.Time, interval, minPause time.Duration) Pause {
	due := begun.Add(interval)
	if d := ended.Add(minPause); d.After(due) {
		due = d
	}
	left := max(due.Sub(now), 0)
	if left < coarse || interval < fine && left < fine {
		return Pause{Hold: left}
	}
	return Pause{Timer: left}
}

// waiting is the back-off of steps that cannot succeed at the moment: too few slots, a broker that does not
// answer. It grows from one second to a minute, by a quarter at a time, so that what was away for a while is not waited
// for much longer than it was away.
func waiting(try int) time.Duration {
	d := time.Second
	for range min(try, 20) {
		d += d / 4
	}
	return min(d, time.Minute)
}
