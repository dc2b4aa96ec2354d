package job

import "fmt"

// DefaultMaxParallelism is the number of key groups of a job that does not say otherwise.
const DefaultMaxParallelism = 128

// KeyGroup is the unit in which keyed state moves: hash mod maxParallelism, in [0, maxParallelism).
type KeyGroup uint16

// KeyGroupRange is the half-open range [From, To) of key groups that one subtask owns.
type KeyGroupRange struct {
	From KeyGroup `json:"from"`
	To   KeyGroup `json:"to"`
}

// Len is the number of key groups in the range.
func (r KeyGroupRange) Len() int { return int(r.To) - int(r.From) }

// Contains reports whether g lies in [From, To).
func (r KeyGroupRange) Contains(g KeyGroup) bool { return g >= r.From && g < r.To }

// Overlaps reports whether the two ranges share a key group.
func (r KeyGroupRange) Overlaps(o KeyGroupRange) bool { return r.From < o.To && o.From < r.To }

// String returns "[from,to)".
func (r KeyGroupRange) String() string { return fmt.Sprintf("[%d,%d)", r.From, r.To) }

// KeyGroupOf maps the hash of a key's canonical bytes to its key group.
func KeyGroupOf(hash uint64, maxParallelism int) KeyGroup {
	return KeyGroup(hash % uint64(maxParallelism))
}

// RangeOf is the contiguous range of key groups that subtask i of parallelism p owns. The ranges of all
// subtasks partition [0, maxParallelism). Source: Flink's KeyGroupRangeAssignment.
func RangeOf(i, p, maxParallelism int) KeyGroupRange {
	return KeyGroupRange{
		From: KeyGroup((i*maxParallelism + p - 1) / p),
		To:   KeyGroup(((i+1)*maxParallelism-1)/p + 1),
	}
}

// OwnerOf is the subtask of parallelism p that owns key group g: the i with RangeOf(i, p, max).Contains(g).
func OwnerOf(g KeyGroup, p, maxParallelism int) int { return int(g) * p / maxParallelism }
