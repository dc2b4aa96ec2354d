// Package watermark computes event-time progress: the minimum over inputs that are not idle, and, at a source,
// the watermark of each partition. It is pure: times come in as arguments.
//
// A watermark W says "no more rows at or before W". All times are int64 microseconds; event times since the
// Unix epoch, idleness on any monotonic clock of the caller. Arithmetic saturates at None and Max, so that no
// hostile event time can wrap around.
package watermark

import "math"

const (
	// None is the watermark before anything is known: every row may still come.
	None int64 = math.MinInt64
	// Max is the watermark at the end of the input: no row will come.
	Max int64 = math.MaxInt64
)

// Add returns a + b, saturated.
func Add(a, b int64) int64 {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	}
	return s
}

// Sub returns a − b, saturated.
func Sub(a, b int64) int64 {
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt64
	}
	return d
}

// Bounded is the watermark of a stream whose rows are at most outOfOrder microseconds behind the newest one,
// maxAt: maxAt − outOfOrder − 1 µs. It is None while nothing was seen, and never Max: only the end of the
// input may say that no row will come, not a row dated at the end of time.
func Bounded(maxAt, outOfOrder int64) int64 {
	if maxAt == None {
		return None
	}
	return Sub(Sub(maxAt, outOfOrder), 1)
}

// Ahead reports whether event time at lies more than maxAhead microseconds after now, the wall clock. Such a
// row must not move the watermark: every honest row after it would be late.
func Ahead(at, now, maxAhead int64) bool { return at > Add(now, maxAhead) }
