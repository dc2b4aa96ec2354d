package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/connectortest"
	"github.com/weirstream/weir/dataplane/job"
)

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// newSource returns a source that reads in small chunks.
func newSource(path string, chunk int) *Source {
	s := NewSource(path)
	s.chunkSize = chunk
	return s
}

func TestSourceConformance(t *testing.T) {
	for _, chunk := range []int{16, 100, chunkSize} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			dir := t.TempDir()
			var b strings.Builder
			for i := range 40 {
				fmt.Fprintf(&b, "{\"i\":%d,\"x\":%q}\n", i, strings.Repeat("x", i%7*20))
			}
			writeFile(t, filepath.Join(dir, "a.jsonl"), b.String())
			writeFile(t, filepath.Join(dir, "b.jsonl"), "\r\n\n"+strings.ReplaceAll(b.String(), "\n", "\r\n")+"no end of line")
			writeFile(t, filepath.Join(dir, "c.jsonl"), "")
			connectortest.TestSource(t, connectortest.SourceHarness{New: func(*testing.T) connector.Source { return newSource(dir, chunk) }})
		})
	}
}

// readAll returns the lines of all splits.
func readAll(t testing.TB, s *Source, splits []connector.Split) (lines []string, last error) {
	t.Helper()
	r, err := s.Open(t.Context(), 0, 1, splits)
	if err != nil {
		t.Fatal(err)
	}
	for f := range r.Fetches() {
		if f.Err != nil {
			last = f.Err
			continue
		}
		for i := range f.Records.Len() {
			lines = append(lines, string(f.Records.Value(i)))
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return lines, last
}

func resolve(t testing.TB, s *Source) []connector.Split {
	t.Helper()
	splits, err := s.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return splits
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		content string
		want    []string
	}{
		{"", nil},
		{"\n\r\n\n", nil},
		{"a", []string{"a"}},
		{"a\n", []string{"a"}},
		{"a\r\nb\r\n\r\nc\r", []string{"a", "b", "c"}},
		{"a\rb\n c \n", []string{"a\rb", " c "}},
		{strings.Repeat("long", 100) + "\nshort", []string{strings.Repeat("long", 100), "short"}},
	} {
		path := filepath.Join(t.TempDir(), "f")
		writeFile(t, path, tt.content)
		for _, chunk := range []int{1, 2, 3, 7, chunkSize} {
			s := newSource(path, chunk)
			if got, err := readAll(t, s, resolve(t, s)); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%.20q in chunks of %d: got %.40q, %v, want %.40q", tt.content, chunk, got, err, tt.want)
			}
		}
	}
}

// Ensure what comes after the start is not read, and what went missing is told.
func TestFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeFile(t, path, "one\ntwo\n")
	s := newSource(path, 4)
	splits := resolve(t, s)
	writeFile(t, path, "one\ntwo\nthree\n")
	if got, err := readAll(t, s, splits); err != nil || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q, %v, want one and two", got, err)
	}
	writeFile(t, path, "one\n")
	if got, err := readAll(t, s, splits); job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), path) || !slices.Equal(got, []string{"one"}) {
		t.Errorf("shorter file: got %q, %v, want one and a fatal error that names the file", got, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t, s, splits); job.ClassOf(err) != job.Fatal {
		t.Errorf("missing file: %v, want a fatal error", err)
	}
}

func TestLineTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeFile(t, path, "short\n"+strings.Repeat("x", 100)+"\n")
	s := newSource(path, 8)
	s.maxLine = 64
	if got, err := readAll(t, s, resolve(t, s)); job.ClassOf(err) != job.Fatal || len(got) != 1 {
		t.Errorf("got %q, %v, want one line and a fatal error", got, err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.jsonl", "c.txt", ".hidden.jsonl", "_SUCCESS"} {
		writeFile(t, filepath.Join(dir, name), "x\n")
	}
	if err := os.Mkdir(filepath.Join(dir, "d.jsonl"), 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                                   "a.jsonl b.jsonl c.txt",
		filepath.Join(dir, "*.jsonl"):         "a.jsonl b.jsonl",
		filepath.Join(dir, "[bc].*"):          "b.jsonl c.txt",
		filepath.Join(dir, ".hidden.jsonl"):   ".hidden.jsonl",
		filepath.Join(dir, "nothing*.jsonl"):  "",
		filepath.Join(dir, "missing", "file"): "",
		filepath.Join(dir, "[bad"):            "",
	} {
		splits, err := NewSource(path).Resolve(t.Context())
		var names []string
		for _, sp := range splits {
			names = append(names, filepath.Base(sp.ID))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		if want == "" && job.ClassOf(err) != job.Fatal {
			t.Errorf("%s: err=%v, want a fatal one", path, err)
		}
	}
}
