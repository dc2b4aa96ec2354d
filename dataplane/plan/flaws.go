package plan

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/config"
)

// flaws are the mistakes that the parser has found. What one of them is about is missing from the job or not what
// was meant, so the planner leaves it and all that follows from it alone: nobody is told of a mistake that goes away
// with another.
type flaws config.Problems

// apartFromColumns are keys of sources and steps that say nothing about columns.
var apartFromColumns = []string{"kafka", "files", "format", "key_format", "parallelism", "uid", "ttl", "on_error"}

// at reports whether there is a mistake at path or below it.
func (f flaws) at(path string) bool { return f.beyond(path) }

// beyond is at, leaving out what stands below some keys of the map at path.
func (f flaws) beyond(path string, but ...string) bool {
	return slices.ContainsFunc(f, func(m config.Problem) bool {
		rest, ok := strings.CutPrefix(m.Path, path)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			return false
		}
		return rest == "" || !slices.Contains(but, firstKey(rest[1:]))
	})
}

// firstKey is what a path begins with.
func firstKey(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}
