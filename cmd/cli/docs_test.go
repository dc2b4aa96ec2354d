package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/config"
)

var update = flag.Bool("update", false, "write the generated references")

const root = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReferences keeps the generated pages in deploy/reference as the code makes them.
func TestReferences(t *testing.T) {
	for name, args := range map[string][]string{
		"job.md":          {"job", "reference"},
		"settings.md":     {"settings", "reference"},
		"job.schema.json": {"job", "schema"},
	} {
		var out, errs bytes.Buffer
		if status := Main(args, strings.NewReader(""), &out, &errs); status != 0 {
			t.Fatalf("weir %s: status %d\n%s", strings.Join(args, " "), status, errs.String())
		}
		path := filepath.Join("deploy", "reference", name)
		if *update {
			if err := os.WriteFile(filepath.Join(root, path), out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := readFile(t, path); got != out.String() {
			t.Errorf("%s is not what weir %s prints; run: go test ./cmd/cli -run TestReferences -update", path, strings.Join(args, " "))
		}
	}
}

func TestSampleSettings(t *testing.T) {
	s, err := config.LoadSettings(config.SettingsInput{FileName: "weir.yaml", Data: []byte(readFile(t, "deploy/weir.yaml"))})
	if err != nil {
		t.Fatal(err)
	}
	if s.Storage == "" || s.Cluster.Advertise == "" || len(s.Cluster.Join) == 0 {
		t.Errorf("got %+v, want a sample that shows storage and cluster", s)
	}
}

func TestSampleJobs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy/jobs/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sample jobs: %v", err)
	}
	for _, f := range files {
		var out, errs bytes.Buffer
		if status := Main([]string{"job", "validate", f}, nil, &out, &errs); status != 0 {
			t.Errorf("%s: status %d\n%s", f, status, errs.String())
		}
	}
}

// TestReadme keeps the README's first job the one that is in the tree.
func TestReadme(t *testing.T) {
	readme := readFile(t, "README.md")
	_, spec, _ := strings.Cut(readme, "```yaml\n")
	spec, _, _ = strings.Cut(spec, "```")
	_, sample, _ := strings.Cut(readFile(t, "deploy/jobs/payments.yaml"), "\n") // without its comment
	if spec != sample {
		t.Error("README.md shows another job than deploy/jobs/payments.yaml")
	}
	for _, doc := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readFile(t, doc), -1) {
			if _, err := os.Stat(filepath.Join(root, link[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, link[1], err)
			}
		}
	}
	for _, verb := range regexp.MustCompile(`(?m)^    weir ([a-z]+)`).FindAllStringSubmatch(readme, -1) {
		if c, _, err := newRoot(streams{}).Find(verb[1:]); err != nil || !c.HasParent() {
			t.Errorf("README.md runs weir %s, which does not exist", verb[1])
		}
	}
}

// TestDependenciesAreExplained wants every module that our files import in ARCHITECTURE.md.
func TestDependenciesAreExplained(t *testing.T) {
	text := readFile(t, "ARCHITECTURE.md")
	imports := regexp.MustCompile(`(?m)^\s+(?:\w+ )?"((?:[\w-]+\.)+[a-z]+/[^"]+)"$`)
	var missing []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range imports.FindAllStringSubmatch(string(b), -1) {
			if !explained(text, m[1]) && !slices.Contains(missing, m[1]) {
				missing = append(missing, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Errorf("ARCHITECTURE.md does not say why we depend on %v", missing)
	}
}

// explained reports whether a package, or a path above it that names a module, is in backquotes in text.
func explained(text, pkg string) bool {
	if strings.HasPrefix(pkg, "github.com/weirstream/weir") {
		return true
	}
	for p := pkg; strings.Count(p, "/") > 0; p = p[:strings.LastIndex(p, "/")] {
		if strings.Contains(text, "`"+p+"`") {
			return true
		}
	}
	return false
}
