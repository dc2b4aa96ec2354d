package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

// Numbers beyond what a float holds keep every digit on their whole way: out of JSON, through literals, filters and
// arithmetic, as keys over the exchange, in state that is restored, in sums.
func TestBigNumbersKeepTheirDigits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.json")
	var text strings.Builder
	for _, k := range []string{"9007199254740992", "9007199254740993", "1234567890123456789", "9223372036854775807", "-9223372036854775808"} {
		for range 2 {
			fmt.Fprintf(&text, `{"k": %s, "wide": 18446744073709551615}`+"\n", k)
		}
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, 2, 1, fmt.Sprintf(`
name: numbers
parallelism: 2
sources:
  in: {files: {path: %q}, format: json, schema: {k: bigint, wide: "decimal(20,0)"}}
steps:
  next: {from: in, where: k >= 9007199254740992 and k < 9223372036854775807, select: [{k: k + 1}, wide]}
  one: {from: in, where: k = 9007199254740993, select: [k]}
  counts: {from: in, key_by: [k], aggregate: {n: count(*), total: sum(wide)}, ttl: none}
sinks:
  a: {from: next, discard: {}}
  b: {from: one, discard: {}}
  c: {from: counts, discard: {}}
`, file))
	r := c.deploy()
	r.mustCheckpoint()
	c.kill(r.on[1])
	c.add("spare", c.engine.Log)
	c.deploy().finish()
	twice := func(lines ...string) (out []string) {
		for _, l := range lines {
			out = append(out, l, l)
		}
		return out
	}
	for sink, want := range map[string][]string{
		"a": twice("1234567890123456790 18446744073709551615", "9007199254740993 18446744073709551615", "9007199254740994 18446744073709551615"),
		"b": twice("9007199254740993"),
	} {
		if got := strings.ReplaceAll(strings.Join(c.out.rows(sink), "|"), "\t", " "); got != strings.Join(want, "|") {
			t.Errorf("%s: got  %s\nwant %s", sink, got, strings.Join(want, "|"))
		}
	}
	const each = " 2 36893488147419103230"
	want := strings.Join([]string{"-9223372036854775808" + each, "1234567890123456789" + each, "9007199254740992" + each, "9007199254740993" + each, "9223372036854775807" + each}, "|")
	if got := strings.ReplaceAll(strings.Join(c.out.table("c", 1), "|"), "\t", " "); got != want {
		t.Errorf("counts: got  %s\nwant %s", got, want)
	}
}

// What does not fit its type stops the job, named, and never comes out as another number.
func TestNumbersThatDoNotFitStop(t *testing.T) {
	for _, tc := range []struct{ name, rows, step, want string }{
		{"a sum", `{"k": 9223372036854775807}` + "\n" + `{"k": 1}`, "{from: in, aggregate: {n: sum(k)}, ttl: none}", "out of range"},
		{"arithmetic", `{"k": 9223372036854775807}`, "{from: in, select: [{n: k + 1}]}", "out of range"},
		{"a product", `{"k": 4611686018427387905}`, "{from: in, select: [{n: k * 2}]}", "out of range"},
		{"a cast", `{"k": 9007199254740993}`, "{from: in, select: [{n: cast(k as int)}]}", "out of range"},
		{"a record", `{"k": 9223372036854775808}`, "{from: in}", "in.json offset 0"},
		{"a record's float", `{"k": 1e400}`, "{from: in}", "in.json offset 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "in.json")
			if err := os.WriteFile(file, []byte(tc.rows+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c := newCluster(t, 1, 1, fmt.Sprintf("name: big\nsources:\n  in: {files: {path: %q}, format: json, schema: {k: bigint}}\nsteps:\n  s: %s\nsinks:\n  o: {from: s, discard: {}}\n", file, tc.step))
			c.tap.open()
			r := c.deploy()
			var sub *job.SubtaskError
			if err := r.outcome(r.on[0]); !errors.As(err, &sub) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the attempt ended with %v, want the subtask and %q", err, tc.want)
			}
			if rows := c.out.rows("o"); len(rows) > 0 {
				t.Errorf("committed %v", rows)
			}
		})
	}
}
