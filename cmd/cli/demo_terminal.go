package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
)

// terminal prints lines, and below them one that is rewritten in place if the output is a terminal; else that
// one is a line like the others. It is safe for concurrent use.
type terminal struct {
	mu    sync.Mutex
	out   io.Writer
	live  bool
	shown string // the line that is rewritten
}

func newTerminal(out io.Writer) *terminal { return &terminal{out: out, live: isTerminal(out)} }

// isTerminal reports whether v is a terminal: a character device other than the one that swallows everything.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(st, null)
}

// printf prints a line above the rewritten one.
func (t *terminal) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintf(t.out, format+"\n", args...)
	if t.live && t.shown != "" {
		fmt.Fprint(t.out, t.shown)
	}
}

// progress replaces the rewritten line.
func (t *terminal) progress(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live {
		fmt.Fprintln(t.out, line)
		return
	}
	t.clear()
	t.shown = line
	fmt.Fprint(t.out, line)
}

// settle leaves the rewritten line as it is; what follows goes below.
func (t *terminal) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live && t.shown != "" {
		fmt.Fprintln(t.out)
	}
	t.shown = ""
}

func (t *terminal) clear() {
	if t.live && t.shown != "" {
		fmt.Fprint(t.out, "\r\x1b[K")
	}
}

// grouped writes a number with a comma after every three digits.
func grouped[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
