package expr

import "fmt"

// Error is a mistake in an expression: of syntax (Parse) or of names and types (Bind).
type Error struct {
	// Offset is the byte of the source at which the mistake begins.
	Offset int
	// Msg says what is wrong, Hint the way out; Hint may be empty.
	Msg, Hint string
}

// Error returns "message; hint".
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

func errAt(offset int, format string, args ...any) *Error {
	return &Error{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// suggest returns the candidate nearest to name, or "" if none is near.
func suggest(name string, candidates []string) string {
	best, limit := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c); d < limit {
			best, limit = c, d
		}
	}
	return best
}

// distance is the optimal-string-alignment distance: insertions, deletions, substitutions and swaps of
// neighbours, letter case counting half (rounded down in sum).
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = 2 * j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = 2 * i
		for j := 1; j <= len(b); j++ {
			cur[j] = min(prev[j]+2, cur[j-1]+2, prev[j-1]+byteCost(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+2)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)] / 2
}

func byteCost(a, b byte) int {
	switch {
	case a == b:
		return 0
	case a|0x20 == b|0x20 && 'a' <= a|0x20 && a|0x20 <= 'z':
		return 1
	}
	return 2
}
