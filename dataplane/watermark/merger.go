package watermark

import "fmt"

// state is what one input last said of itself.
type state uint8

const (
	active state = iota
	idle
	ended
	removed
)

// Merger merges the watermarks of several inputs: the minimum over the active ones. It belongs to one
// goroutine; no method allocates except Add.
//
//   - Idle inputs are left out, until they speak again. Rows that they bring then and that are not after the
//     merged watermark are late.
//   - Ended inputs are left out too, and Max comes out only when every input has ended. An input that is merely
//     idle may speak again, so the end of all others must not close what waits for it.
//   - While nothing is active the result is idle. If all that have not ended are idle, it is the highest of
//     their watermarks: whoever fell idle last must not decide how far the rest got.
//   - The merged watermark never falls.
//
// Source: Flink's StatusWatermarkValve, except for the end of inputs.
type Merger struct {
	marks  []int64
	states []state
	out    int64
	idle   bool
	// stale is set between Add and the next look: inputs added together are merged together, or the first of
	// them would decide the watermark alone.
	stale bool
}

// NewMerger returns a merger with n active inputs, all at None. Without inputs it is idle.
func NewMerger(n int) *Merger {
	m := &Merger{out: None}
	for range n {
		m.marks, m.states = append(m.marks, None), append(m.states, active)
	}
	m.merge()
	return m
}

// Watermark is the merged watermark.
func (m *Merger) Watermark() int64 {
	if m.stale {
		m.merge()
	}
	return m.out
}

// Idle reports whether no input is active and the end has not been reached: those who merge this result with
// others must leave it out.
func (m *Merger) Idle() bool {
	if m.stale {
		m.merge()
	}
	return m.idle
}

// Mark is the newest watermark of input i, None if it has none.
func (m *Merger) Mark(i int) int64 { return m.marks[i] }

// Add adds an active input at mark and returns its index. The merged watermark does not fall; it stands still
// until the new input has caught up.
func (m *Merger) Add(mark int64) int {
	m.marks, m.states = append(m.marks, mark), append(m.states, active)
	m.stale = true
	return len(m.marks) - 1
}

// Remove takes input i out for good, as if it had never been there. Its index is not used again.
func (m *Merger) Remove(i int) (changed bool) { return m.set(i, removed) }

// Advance raises input i to w, which makes it active; a lower w than before changes nothing else. It reports
// whether Watermark or Idle changed. Max means the same as End. An ended input stays ended.
func (m *Merger) Advance(i int, w int64) (changed bool) {
	if w == Max {
		return m.End(i)
	}
	if m.states[i] >= ended {
		return false
	}
	was := m.states[i]
	old := m.marks[i]
	m.marks[i] = max(old, w)
	if was == active && old > m.out && !m.stale {
		return false // the minimum stands at another input
	}
	m.states[i] = active
	return m.merge()
}

// SetIdle says that input i has nothing to say for now.
func (m *Merger) SetIdle(i int) (changed bool) {
	if m.states[i] != active {
		return false
	}
	return m.set(i, idle)
}

// SetActive says that input i will speak again, at its old watermark.
func (m *Merger) SetActive(i int) (changed bool) {
	if m.states[i] != idle {
		return false
	}
	return m.set(i, active)
}

// End says that input i will bring no more rows.
func (m *Merger) End(i int) (changed bool) { return m.set(i, ended) }

func (m *Merger) set(i int, s state) bool {
	if m.states[i] == s || m.states[i] == removed {
		return false
	}
	m.states[i] = s
	return m.merge()
}

// merge recomputes the result and reports whether it changed.
func (m *Merger) merge() bool {
	lowest, highestIdle := Max, None
	var count [removed + 1]int
	for i, s := range m.states {
		count[s]++
		switch s {
		case active:
			lowest = min(lowest, m.marks[i])
		case idle:
			highestIdle = max(highestIdle, m.marks[i])
		}
	}
	out, isIdle := m.out, false
	switch {
	case count[active] > 0:
		out = max(out, lowest)
	case count[idle] > 0:
		out, isIdle = max(out, highestIdle), true
	case count[ended] > 0:
		out = Max
	default:
		isIdle = true
	}
	changed := out != m.out || isIdle != m.idle
	m.out, m.idle, m.stale = out, isIdle, false
	return changed
}

// String shows the inputs for messages: "12 idle(7) ended → 12".
func (m *Merger) String() string {
	s := ""
	for i, st := range m.states {
		switch st {
		case active:
			s += fmt.Sprintf("%d ", m.marks[i])
		case idle:
			s += fmt.Sprintf("idle(%d) ", m.marks[i])
		case ended:
			s += "ended "
		}
	}
	return fmt.Sprintf("%s→ %d", s, m.out)
}
