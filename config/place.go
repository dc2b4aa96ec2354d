package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Place is where a value was written. Line and Column count from 1 (columns in characters); both are 0 for
// a value that was left out, whose Path then still says where it would stand.
type Place struct {
	File   string
	Line   int
	Column int
	// Path is the dotted path of the key, such as "steps.hot.window.tumble" or "steps.all.select[2]".
	Path string
}

// Key is the place of a key below p, at p's own line and column: for a complaint about a key that is missing
// or whose exact place does not matter. Job.PlaceOf knows exact places.
func (p Place) Key(key string) Place {
	if p.Path != "" {
		key = p.Path + "." + key
	}
	p.Path = key
	return p
}

// Index is the place of item i of the list at p.
func (p Place) Index(i int) Place {
	p.Path = fmt.Sprintf("%s[%d]", p.Path, i)
	return p
}

// String renders file:line:column: path, without the parts that are not known.
func (p Place) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		if p.File != "" {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%d:%d", p.Line, p.Column)
	}
	if p.Path != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(p.Path)
	}
	return b.String()
}

// Problem is one mistake: where it stands, why it is one and how to get out of it.
type Problem struct {
	File    string
	Line    int
	Column  int
	Path    string
	Message string
	// Hint is the way out; empty when the message already is one.
	Hint string
}

// Place is where the mistake stands.
func (p Problem) Place() Place { return Place{p.File, p.Line, p.Column, p.Path} }

// Error renders file:line:column: path: reason; way out.
func (p Problem) Error() string {
	s := p.Message
	if p.Hint != "" {
		s += "; " + p.Hint
	}
	if at := p.Place().String(); at != "" {
		s = at + ": " + s
	}
	return s
}

// maxProblems bounds what one parse collects, so that a hostile document cannot ask for unbounded memory.
const maxProblems = 200

// Problems are all mistakes of one document. A non-empty list is an error; errors.As finds it.
type Problems []Problem

// Add appends a mistake at a place. An exact double is ignored, and so is everything beyond 200 mistakes.
func (ps *Problems) Add(at Place, message, hint string) {
	p := Problem{at.File, at.Line, at.Column, clip(at.Path), clip(message), clip(hint)}
	if len(*ps) >= maxProblems || slices.Contains(*ps, p) {
		return
	}
	*ps = append(*ps, p)
}

// clip shortens what quotes a hostile document.
func clip(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Addf is Add with a formatted message and no hint.
func (ps *Problems) Addf(at Place, format string, args ...any) {
	ps.Add(at, fmt.Sprintf(format, args...), "")
}

// Sort orders the mistakes by their place in the document.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path))
	})
}

// Err sorts the mistakes and returns them as an error, or nil when there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	ps.Sort()
	return ps
}

// Strings are the rendered mistakes in order.
func (ps Problems) Strings() []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.Error()
	}
	return out
}

// Error renders one mistake a line.
func (ps Problems) Error() string { return strings.Join(ps.Strings(), "\n") }
