package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// calls are the functions that pass a point, with the fields that the point must have for them.
var calls = map[string]func(Point) bool{
	"Hit":     func(p Point) bool { return !p.Errs && !p.Each },
	"HitEach": func(p Point) bool { return !p.Errs && p.Each },
	"Err":     func(p Point) bool { return p.Errs },
}

// TestTableAndCodeAgree is completeness both ways: each point is passed somewhere, and each call passes a point
// of the table, by a literal name.
func TestTableAndCodeAgree(t *testing.T) {
	passed := map[string]int{}
	for _, c := range callsIn(t, "../..") {
		if c.name == "" {
			t.Errorf("%s: the point's name must be a literal, so that this test finds it", c.at)
			continue
		}
		p, ok := find(c.name)
		switch {
		case !ok:
			t.Errorf("%s: point %q is not in the table", c.at, c.name)
		case !calls[c.function](p):
			t.Errorf("%s: %s does not fit what the table says of %q", c.at, c.function, c.name)
		}
		passed[c.name]++
	}
	for _, p := range points {
		if passed[p.Name] == 0 {
			t.Errorf("no code passes point %q", p.Name)
		}
		if p.Doc == "" {
			t.Errorf("point %q has no documentation", p.Name)
		}
	}
	if len(passed) < 20 {
		t.Errorf("found calls of %d points only: is the module's root elsewhere?", len(passed))
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range points {
		if seen[p.Name] {
			t.Errorf("point %q is in the table twice", p.Name)
		}
		seen[p.Name] = true
	}
}

type call struct{ function, name, at string }

// callsIn finds the calls of this package's functions in the files below root, but for tests.
func callsIn(t *testing.T, root string) (found []call) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := callOf(n); ok {
				c.at = files.Position(n.Pos()).String()
				found = append(found, c)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func callOf(n ast.Node) (call, bool) {
	c, ok := n.(*ast.CallExpr)
	if !ok || len(c.Args) == 0 {
		return call{}, false
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return call{}, false
	}
	pkg, ok := sel.X.(*ast.Ident)
	if _, ours := calls[sel.Sel.Name]; !ok || pkg.Name != "failpoint" || !ours {
		return call{}, false
	}
	var name string
	if lit, ok := c.Args[0].(*ast.BasicLit); ok {
		name, _ = strconv.Unquote(lit.Value)
	}
	return call{function: sel.Sel.Name, name: name}, true
}
