package expr

import (
	"strings"
	"testing"
)

// Every kind of node passes the renaming on to its operands.
func TestRename(t *testing.T) {
	for _, text := range []string{
		"a", "-a", "not a", "a + a", "a is not null", "case when a then a else a end", "case a when a then a end", "cast(a as int)",
		"try_cast(a as double)", "a in (a, 1)", "a not between a and a", "a like a escape a", "a like 'x'", "coalesce(a, 1, a)",
		"count(*) filter (where a > 1)", "count(distinct a)",
	} {
		n, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		before := n.String()
		got := Rename(n, func(path []string) *Column {
			if len(path) == 1 && path[0] == "a" {
				return &Column{Path: []string{"b", "c"}}
			}
			return nil
		})
		want, err := Parse(replaceWord(text))
		if err != nil {
			t.Fatalf("%s: %v", replaceWord(text), err)
		}
		if got.String() != want.String() {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if n.String() != before {
			t.Errorf("%s was changed to %s", before, n)
		}
		if same := Rename(n, func([]string) *Column { return nil }); same.String() != before {
			t.Errorf("renaming nothing: got %s, want %s", same, before)
		}
	}
}

// replaceWord replaces the word a by b.c.
func replaceWord(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_", r) })
	var out strings.Builder
	for _, w := range words {
		i := strings.Index(s, w)
		out.WriteString(s[:i])
		s = s[i+len(w):]
		if w == "a" {
			w = "b.c"
		}
		out.WriteString(w)
	}
	return out.String() + s
}
