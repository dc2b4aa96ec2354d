// Package arch keeps the import table: which package of ours may import which. It is a statement of policy;
// change it together with ARCHITECTURE.md, and say why.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirstream/weir"

// contracts are the parent packages of the families.
var contracts = []string{"dataplane/operator", "dataplane/connector", "dataplane/format", "dataplane/state", "dataplane/snapshot"}

// table lists what each package may import of ours, besides its own subpackages' parent. A trailing "/..."
// on the left covers every package below. "all" allows everything.
var table = map[string][]string{
	"":                          {"cmd/cli"},
	"cmd/...":                   {"all"},
	"tests/...":                 {"all"},
	"activities/activitiestest": {"activities", "dataplane/job", "dataplane/checkpoint", "dataplane/snapshot", "dataplane/snapshot/snapshottest"},
	"config":                    {"dataplane/job"},
	"workflows":                 {"activities", "dataplane/job", "dataplane/checkpoint", "dataplane/transaction"},
	"activities":                {"dataplane/failpoint", "dataplane/job", "dataplane/checkpoint", "dataplane/transaction", "dataplane/snapshot", "dataplane/connector"},
	"dataplane/job":             {},
	"dataplane/failpoint":       {},
	"dataplane/checkpoint":      {"dataplane/job"},
	"dataplane/barrier":         {"dataplane/job", "dataplane/checkpoint"},
	"dataplane/watermark":       {"dataplane/job"},
	"dataplane/transaction":     {"dataplane/job", "dataplane/checkpoint"},
	"dataplane/batch":           {"dataplane/job", "dataplane/checkpoint"},
	"dataplane/expr":            {"dataplane/batch"},
	"dataplane/plan":            {"dataplane/job", "config", "dataplane/expr", "dataplane/batch", "dataplane/format", "dataplane/task"},
	"dataplane/state/...":       {"dataplane/failpoint", "dataplane/batch", "dataplane/job", "dataplane/checkpoint", "dataplane/state", "dataplane/state/internal/..."},
	"dataplane/snapshot/...":    {"dataplane/failpoint", "dataplane/job", "dataplane/checkpoint", "dataplane/snapshot"},
	"dataplane/exchange":        {"dataplane/batch", "dataplane/checkpoint", "dataplane/job"},
	"dataplane/operator/...":    {"dataplane/batch", "dataplane/expr", "dataplane/state", "dataplane/watermark", "dataplane/job", "dataplane/checkpoint", "dataplane/operator", "dataplane/operator/accumulate"},
	"dataplane/connector/...":   {"dataplane/failpoint", "dataplane/batch", "dataplane/checkpoint", "dataplane/format", "dataplane/job", "dataplane/transaction", "dataplane/connector"},
	"dataplane/format/...":      {"dataplane/batch", "dataplane/format"},
	"dataplane/cluster":         {"dataplane/job"},
	"dataplane/task":            append([]string{"dataplane/failpoint", "dataplane/barrier", "dataplane/watermark", "dataplane/batch", "dataplane/checkpoint", "dataplane/job"}, contracts...),
	"dataplane/node":            {"dataplane/failpoint", "dataplane/task", "dataplane/job", "dataplane/checkpoint", "dataplane/cluster", "dataplane/exchange", "dataplane/snapshot", "dataplane/state", "dataplane/batch"},
}

// pure packages have no clock, goroutine, lock, I/O or randomness.
var pure = []string{"dataplane/job", "dataplane/checkpoint", "dataplane/barrier", "dataplane/watermark", "dataplane/transaction"}

// impure are the standard packages that pure ones must not import. time is allowed for durations; its clock
// is not (see TestPureHaveNoClock).
var impure = []string{"os", "net", "sync", "sync/atomic", "math/rand", "math/rand/v2", "crypto/rand", "context", "io/fs", "log", "log/slog", "runtime"}

type source struct {
	pkg     string // relative to the module; "" is the root
	file    string
	imports []string
	text    string
}

// sources are the non-test files of the module.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var out []source
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s := source{pkg: filepath.ToSlash(rel), file: path, text: string(text)}
		if s.pkg == "." {
			s.pkg = ""
		}
		for _, i := range f.Imports {
			s.imports = append(s.imports, strings.Trim(i.Path.Value, `"`))
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d files only: is the module's root elsewhere?", len(out))
	}
	return out
}

// allowed returns what pkg may import, and whether the table knows it.
func allowed(pkg string) ([]string, bool) {
	if a, ok := table[pkg]; ok {
		return a, true
	}
	for p := pkg; p != "."; p = filepath.ToSlash(filepath.Dir(p)) {
		if a, ok := table[p+"/..."]; ok {
			return a, true
		}
	}
	return nil, false
}

func matches(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		if base, ok := strings.CutSuffix(p, "/..."); ok {
			return pkg == base || strings.HasPrefix(pkg, base+"/")
		}
		return p == pkg || p == "all"
	})
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		may, ok := allowed(s.pkg)
		if !ok {
			t.Errorf("%s: package %s is not in the table", s.file, s.pkg)
			continue
		}
		for _, i := range s.imports {
			ours, ok := strings.CutPrefix(i, module)
			if !ok {
				continue
			}
			ours = strings.TrimPrefix(ours, "/")
			below := strings.HasPrefix(ours, s.pkg+"/internal/")
			if !below && !matches(may, ours) {
				t.Errorf("%s: %s must not import %s", s.file, s.pkg, ours)
			}
		}
	}
}

func TestDataPlaneKnowsNoTemporal(t *testing.T) {
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.pkg, "dataplane/") {
			continue
		}
		for _, i := range s.imports {
			if strings.HasPrefix(i, "go.temporal.io/") {
				t.Errorf("%s imports %s", s.file, i)
			}
		}
	}
}

func TestPureImportNothingImpure(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, i := range s.imports {
			if slices.Contains(impure, i) {
				t.Errorf("%s: pure package imports %s", s.file, i)
			}
		}
	}
}

func TestPureHaveNoClock(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, call := range []string{"time.Now(", "time.Since(", "time.After(", "time.NewTimer(", "time.AfterFunc(", "\tgo func"} {
			if strings.Contains(s.text, call) {
				t.Errorf("%s: pure package calls %s", s.file, strings.TrimSpace(call))
			}
		}
	}
}

// maxLines is the ratchet on the length of files.
const maxLines = 520

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if n := strings.Count(s.text, "\n"); n > maxLines {
			t.Errorf("%s has %d lines, at most %d: is it one idea?", s.file, n, maxLines)
		}
	}
}
