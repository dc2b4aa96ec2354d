package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// result is what a command line led to.
type result struct {
	status   int
	out, err string
}

func weir(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	status := Main(args, strings.NewReader(in), &out, &errs)
	return result{status, out.String(), errs.String()}
}

func specFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const goodSpec = `name: totals
params: {least: 5}
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  moves:
    kafka: {topic: moves}
    format: json
    schema: {account: string, amount: bigint}
steps:
  sums:
    from: moves
    where: amount > ${param:least}
    key_by: [account]
    aggregate: {total: sum(amount)}
sinks:
  out: {from: sums, upsert: [account], kafka: {topic: out}, format: json}
`

func TestThreeMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, spec, want string }{
		{"of the shape", strings.NewReplacer("topic: moves", "topik: moves", "aggregate:", "agregate:", "name: totals", "name: totals\ncheckpoint: {interval: 10}").Replace(goodSpec), `
weir: the spec has 3 problems
FILE:2:24: checkpoint.interval: 10 has no unit; write 10s
FILE:7:13: sources.moves.kafka.topik: unknown key; did you mean topic?
FILE:15:5: steps.sums.agregate: unknown key; did you mean aggregate?
`},
		{"of columns", strings.NewReplacer("amount >", "ammount >", "key_by: [account]", "key_by: [acount]", "sum(amount)", "sum(amout)").Replace(goodSpec), `
weir: the spec has 3 problems
FILE:12:12: steps.sums.where: no column "ammount"; did you mean amount?
FILE:13:14: steps.sums.key_by[0]: no column "acount"; did you mean account?
FILE:14:28: steps.sums.aggregate.total: no column "amout"; did you mean amount?
`},
		{"of both", strings.NewReplacer("topic: moves", "topik: moves", "amount >", "ammount >", "name: totals", "name: totals\ncheckpoint: {interval: 10}").Replace(goodSpec), `
weir: the spec has 3 problems
FILE:2:24: checkpoint.interval: 10 has no unit; write 10s
FILE:7:13: sources.moves.kafka.topik: unknown key; did you mean topic?
FILE:13:12: steps.sums.where: no column "ammount"; did you mean amount?
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := specFile(t, tt.spec)
			for _, verb := range []string{"validate", "explain", "render", "start"} {
				got := weir(t, "", "job", verb, file)
				if got.status != 1 || got.out != "" {
					t.Errorf("%s: got status %d, output %q, want 1 and none", verb, got.status, got.out)
				}
				if got, want := strings.ReplaceAll(got.err, file, "FILE"), tt.want[1:]; got != want {
					t.Errorf("%s: got\n%s\nwant\n%s", verb, got, want)
				}
			}
		})
	}
}

func TestValidSpec(t *testing.T) {
	t.Parallel()
	file := specFile(t, goodSpec)
	if got := weir(t, "", "job", "validate", file); got.status != 0 || !strings.Contains(got.out, "is valid: moves → out") {
		t.Errorf("validate: got %+v", got)
	}
	if got := weir(t, goodSpec, "job", "validate", "-"); got.status != 0 {
		t.Errorf("validate standard input: got %+v", got)
	}
	if got := weir(t, "", "job", "validate", file); !strings.Contains(got.err, "ttl") {
		t.Errorf("validate: got %q, want a warning about state without ttl", got.err)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	file := specFile(t, goodSpec)
	got := weir(t, "", "job", "render", "--param", "least=70", file)
	var spec struct {
		Name  string
		Steps map[string]struct{ Where string }
	}
	if err := json.Unmarshal([]byte(got.out), &spec); err != nil || got.status != 0 {
		t.Fatalf("got status %d, %v, want JSON\n%s%s", got.status, err, got.out, got.err)
	}
	if spec.Name != "totals" || !strings.Contains(spec.Steps["sums"].Where, "70") {
		t.Errorf("got %+v, want the name and the parameter in its place", spec)
	}
	if !strings.Contains(got.out, "${env:KAFKA}") {
		t.Error("the reference to the environment is not left to the node")
	}
	// What is rendered is a spec itself, the same one.
	again := weir(t, got.out, "job", "render", "-")
	if again.out != got.out {
		t.Errorf("rendered twice: got\n%s\nwant\n%s%s", again.out, got.out, again.err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	got := weir(t, "", "job", "explain", specFile(t, strings.Replace(goodSpec, "name: totals", "name: totals\nparallelism: 2", 1)))
	for _, want := range []string{"job totals", "2 slots", "moves × 2", "hash", "sum(amount)", "keeps a row per account", "exactly once, upsert"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("got no %q in\n%s%s", want, got.out, got.err)
		}
	}
}

func TestSchemaIsJSON(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal([]byte(weir(t, "", "job", "schema").out), &schema); err != nil || schema["$schema"] == nil {
		t.Errorf("got %v, %v, want a JSON Schema", schema["$schema"], err)
	}
}

func TestMistakesInTheCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		want string
	}{
		{"bogus", `unknown command "bogus"`},
		{"job validat x", "did you mean validate?"},
		{"job validate", "takes one file"},
		{"job validate a b", "takes one file"},
		{"job validate --prams x", "unknown flag: --prams"},
		{"job validate absent.yaml", "absent.yaml"},
		{"job validate --param x absent.yaml", "absent.yaml"},
		{"job start --from later x.yaml", "write latest or fresh"},
		{"settings show --slots none", "slots"},
		{"settings show --config absent.yaml", "absent.yaml"},
		{"dev --workers 0", "at least 1"},
		{"dev --topic a:b", "name:partitions"},
		{"dev absent.yaml", "absent.yaml"},
		{"demo now", "takes no arguments"},
		{"demo --records 0", "--records 0"},
		{"demo --state disk", "pebble or memory"},
		{"demo --duration 3", "--duration"},
		{"topic create", "names of topics"},
		{"topic write", "takes one topic"},
	}
	for _, tt := range tests {
		got := weir(t, "", strings.Fields(tt.args)...)
		if got.status != 2 || !strings.Contains(got.err, tt.want) || got.out != "" {
			t.Errorf("weir %s: got %+v, want status 2 and %q", tt.args, got, tt.want)
		}
	}
}

// TestSettingsOrder shows that flags win over the environment, and the environment over the file.
func TestSettingsOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("slots: 1\nlog: {level: warn, format: json}\nstorage: s3://b/p\ns3: {access_key: \"${env:SECRET}\", secret_key: \"${env:SECRET}\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_CONFIG", file)
	t.Setenv("WEIR_SLOTS", "2")
	t.Setenv("WEIR_LOG_LEVEL", "debug")
	t.Setenv("SECRET", "hunter2")
	got := weir(t, "", "settings", "show", "--slots", "3")
	values := map[string]string{}
	for line := range strings.Lines(got.out) {
		if f := strings.Fields(line); len(f) == 2 {
			values[f[0]] = f[1]
		}
	}
	for key, want := range map[string]string{"slots": "3", "log.level": "debug", "log.format": "json", "storage": "s3://b/p"} {
		if values[key] != want {
			t.Errorf("%s: got %q, want %q", key, values[key], want)
		}
	}
	if strings.Contains(got.out, "hunter2") {
		t.Error("a secret is shown")
	}
}

// TestHelp wants every command to say what it is, and every flag what it does.
func TestHelp(t *testing.T) {
	t.Parallel()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "help" || c.Name() == "completion" {
			return
		}
		got := weir(t, "", append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if got.status != 0 || got.err != "" || !strings.Contains(got.out, c.UseLine()) || c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: status %d, short %q, help\n%s%s", c.CommandPath(), got.status, c.Short, got.out, got.err)
		}
		for _, line := range strings.Split(c.LocalFlags().FlagUsages(), "\n") {
			if f := strings.Fields(line); len(f) == 1 {
				t.Errorf("%s: flag %s has no description", c.CommandPath(), f[0])
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(streams{}))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := weir(t, "", "--version"); got.status != 0 || !strings.HasPrefix(got.out, "weir version ") {
		t.Errorf("got %+v", got)
	}
}

// TestNoTemporal asks for a server that is not there: the answer names its address and the variable.
func TestNoTemporal(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	for _, args := range [][]string{{"job", "list"}, {"job", "status", "x"}, {"job", "cancel", "x"}, {"job", "start", specFile(t, goodSpec)}} {
		got := weir(t, "", args...)
		if got.status != 1 || !strings.Contains(got.err, "cannot reach Temporal at 127.0.0.1:1 (set TEMPORAL_ADDRESS)") {
			t.Errorf("weir %v: got %+v", args, got)
		}
	}
}
