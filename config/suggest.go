package config

// maxSuggest bounds the words that are compared, since the comparison is quadratic.
const maxSuggest = 64

// suggest returns the candidate that is likeliest meant by word, or "" when none is near: at most one edit
// for every three letters, at least one. Ties go to the earlier candidate.
func suggest(word string, candidates []string) string {
	if len(word) > maxSuggest {
		return ""
	}
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if c == word || abs(len(c)-len(word)) >= bestDistance {
			continue
		}
		if dist := distance(word, c); dist < bestDistance {
			best, bestDistance = c, dist
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// distance is the number of insertions, deletions, substitutions and swaps of neighbours between a and b
// (optimal string alignment), in bytes.
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
