package crash

import (
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/cli"
)

// TestMain makes this program a worker for the stack that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// dangerous are the cases that a run never leaves out: where a decision is made by one process and known to it
// alone.
var dangerous = []string{
	"commit.before-manifest-put/worker",
	"commit.after-manifest-put/control",
	"endtxn.after/control",
	"precommit.after-flush/worker",
	"abort.before-record-put/worker",
	"marker.before-put/all",
}

// budget is how long a run that is not of all cases goes on starting new ones.
const budget = 110 * time.Second

// TestCrashPoints kills workers at the points of the table. By default it takes the dangerous cases and then
// others in an order that changes with the day, as many as fit into the budget. WEIR_CRASH_ALL=1 runs all,
// WEIR_CRASH=regexp those that match, WEIR_CRASH_SEED=text replaces the day.
func TestCrashPoints(t *testing.T) {
	s := startSuite(t)
	cases, limited := chosen(t)
	started := time.Now()
	var report []string
	for _, c := range cases {
		if limited && time.Since(started) > budget {
			break
		}
		begun := time.Now()
		ok := t.Run(c.String(), func(t *testing.T) { s.run(t, c) })
		verdict := "exactly once"
		if !ok {
			verdict = "FAILED"
		}
		line := fmt.Sprintf("%-58s %-8s %-13s %5.1f s", c.point, c.target, verdict, time.Since(begun).Seconds())
		t.Log(line) // a run of all takes long: show how far it is
		report = append(report, line)
	}
	t.Logf("%d of %d cases:\n%s", len(report), len(table()), strings.Join(report, "\n"))
}

// chosen are the cases of this run; limited says that they are to be cut off at the budget.
func chosen(t *testing.T) (cases []crashCase, limited bool) {
	cases = table()
	if pattern := os.Getenv("WEIR_CRASH"); pattern != "" {
		re, err := regexp.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(cases, func(c crashCase) bool { return !re.MatchString(c.String()) }), false
	}
	if os.Getenv("WEIR_CRASH_ALL") != "" {
		return cases, false
	}
	seed := os.Getenv("WEIR_CRASH_SEED")
	if seed == "" {
		seed = time.Now().UTC().Format(time.DateOnly)
	}
	t.Logf("the rotating cases are those of WEIR_CRASH_SEED=%s", seed)
	rank := func(c crashCase) uint64 {
		if i := slices.Index(dangerous, c.String()); i >= 0 {
			return uint64(i)
		}
		h := fnv.New64a()
		fmt.Fprint(h, seed, " ", c)
		return h.Sum64() | 1<<63
	}
	slices.SortFunc(cases, func(a, b crashCase) int {
		if rank(a) < rank(b) {
			return -1
		}
		return 1
	})
	return cases, true
}

// TestDangerousCasesExist: a case that was renamed must not vanish from every run.
func TestDangerousCasesExist(t *testing.T) {
	var names []string
	for _, c := range table() {
		names = append(names, c.String())
	}
	for _, d := range dangerous {
		if !slices.Contains(names, d) {
			t.Errorf("case %s is not in the table", d)
		}
	}
}
