package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSettingsDefaults(t *testing.T) {
	s, err := LoadSettings(SettingsInput{Data: []byte("# nothing\n")})
	if err != nil {
		t.Fatalf("LoadSettings: %v", err)
	}
	for _, v := range []string{s.Cluster.Bind, s.Exchange.Bind, s.HTTP} {
		if !strings.HasPrefix(v, "127.0.0.1:") {
			t.Errorf("default listener: got %s, want loopback", v)
		}
	}
	if s.Slots < 1 || s.Failure.PeerTimeout != 2*time.Second {
		t.Errorf("defaults: got %+v", s)
	}
	if got, want := s.Failure.Keepalive+s.Failure.PeerTimeout, 2500*time.Millisecond; got > want {
		t.Errorf("a silent peer is noticed after %s, want at most %s", got, want)
	}
}

func TestSettingsPrecedence(t *testing.T) {
	s, err := LoadSettings(SettingsInput{
		FileName: "weir.yaml",
		Data: []byte("slots: 2\ncluster: {join: [\"a:1\", \"b:2\"]}\ns3:\n  region: file\n  access_key: ${env:AK}\n" +
			"log: {level: warn, format: json}\n"),
		Env: []string{"WEIR_SLOTS=3", "WEIR_S3_REGION=12", "WEIR_S3_SECRET_KEY=canary", "WEIR_CLUSTER_JOIN=c:3, d:4",
			"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_LOG_LEVEL=", "HOME=/"},
		Flags: map[string]string{"slots": "4", "s3-path-style": "true"},
	})
	if err != nil {
		t.Fatalf("LoadSettings: %v", err)
	}
	values := map[string]string{}
	for _, v := range s.Values() {
		values[v.Key] = v.Value
	}
	for key, want := range map[string]string{
		"slots": "4", "s3.region": "12", "s3.path_style": "true", "s3.access_key": "${env:AK}", "s3.secret_key": "${env:WEIR_S3_SECRET_KEY}",
		"cluster.join": "c:3,d:4", "log.level": "warn", "log.format": "json", "storage": "", "failure.keepalive": "500ms",
	} {
		if got := values[key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(got, "canary") {
		t.Errorf("settings print a secret: %s", got)
	}
}

func TestSettingsProblems(t *testing.T) {
	tests := []struct {
		name string
		in   SettingsInput
		want []string
	}{
		{"unknown key", SettingsInput{Data: []byte("slotz: 2")}, []string{"w:1:1: slotz: unknown key; did you mean slots?"}},
		{"nested typo", SettingsInput{Data: []byte("cluster: {bnd: \"a:1\"}")}, []string{"w:1:11: cluster.bnd: unknown key; did you mean bind?"}},
		{"double key", SettingsInput{Data: []byte("slots: 2\nslots: 3")}, []string{"w:2:1: slots: written twice, first in line 1; remove one"}},
		{"no unit", SettingsInput{Data: []byte("failure: {keepalive: 5}")}, []string{"w:1:22: failure.keepalive: 5 has no unit; write 5s"}},
		{"group is text", SettingsInput{Data: []byte("log: debug")}, []string{"w:1:6: log: must be a map, not a single value; its keys: level, format"}},
		{"enum", SettingsInput{Env: []string{"WEIR_LOG_LEVEL=inf"}}, []string{`environment: WEIR_LOG_LEVEL: unknown value "inf"; did you mean info?`}},
		{"near miss in env", SettingsInput{Env: []string{"WEIR_DATADIR=/x"}}, []string{"environment: WEIR_DATADIR: unknown setting; did you mean WEIR_DATA_DIR?"}},
		{"flag", SettingsInput{Flags: map[string]string{"slot": "2"}}, []string{"flags: --slot: unknown setting; did you mean slots?"}},
		{"flag value", SettingsInput{Flags: map[string]string{"slots": "0"}}, []string{"flags: --slots: 0 is below 1"}},
		{"address", SettingsInput{Data: []byte("http: {bind: \"9090\"}")}, []string{`w:1:14: http.bind: "9090" is not host:port`}},
		{"wildcard", SettingsInput{Data: []byte("exchange: {bind: \"0.0.0.0:1\"}")}, []string{"w:1:18: exchange.bind: others cannot reach 0.0.0.0:1; set exchange.advertise"}},
		{"plain secret", SettingsInput{Data: []byte("s3: {access_key: \"${env:A}\", secret_key: hunter2}")}, []string{
			"w:1:42: s3.secret_key: plain text; use ${env:X} or ${file:X}"}},
		{"half a key", SettingsInput{Data: []byte("s3: {access_key: \"${env:A}\"}")}, []string{"w:1:1: s3: access_key and secret_key belong together; give both or none"}},
		{"unquoted brace", SettingsInput{Data: []byte("s3: {access_key: ${env:A}}")}, []string{"w:1:1: no YAML: did not find expected ',' or '}'; inside braces and brackets quote what holds , [ ] { } or ?"}},
		{"endpoint", SettingsInput{Data: []byte("s3: {endpoint: \"http://u:hunter2@h\"}")}, []string{"w:1:16: s3.endpoint: a URL must not hold a user or password"}},
		{"timings", SettingsInput{Data: []byte("failure: {keepalive: 3s, probe_timeout: 2s}")}, []string{
			"w:1:22: failure.keepalive: 3s is not below peer_timeout 2s; lower it",
			"w:1:41: failure.probe_timeout: 2s is above probe_interval 1s; lower it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.FileName = "w"
			_, err := LoadSettings(tt.in)
			wantProblems(t, err, tt.want...)
		})
	}
}

func TestSettingsReferenceNamesEverySetting(t *testing.T) {
	ref := SettingsReference()
	seen := map[string]string{}
	for _, f := range SettingsFields() {
		if !strings.Contains(ref, "`"+f.Env+"`") || f.Doc == "" {
			t.Errorf("setting %s is not in the reference", f.Key)
		}
		if other := seen[f.Env] + seen[f.Flag]; other != "" {
			t.Errorf("settings %s and %s share a name", f.Key, other)
		}
		seen[f.Env], seen[f.Flag] = f.Key, f.Key
	}
}

func TestRefResolve(t *testing.T) {
	t.Setenv("WEIRTEST_A", "a:1, b:2")
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	brokers, err := ResolveAll([]Ref{"${env:WEIRTEST_A}", "c:3"})
	if got := fmt.Sprint(brokers, err); got != "[a:1 b:2 c:3] <nil>" {
		t.Errorf("ResolveAll: got %s", got)
	}
	secret := Secret("${file:" + file + "}")
	if got, err := secret.Resolve(); got != "canary" || err != nil {
		t.Errorf("Resolve: got %q, %v; want canary", got, err)
	}
	for ref, want := range map[Ref]string{
		"x-${env:WEIRTEST_NONE}": "resolve ${env:WEIRTEST_NONE}: the environment variable WEIRTEST_NONE is not set on this node",
		"${file:/nowhere}":       "resolve ${file:/nowhere}: stat /nowhere: no such file or directory",
		"${x:y}":                 `resolve ${x:y}: unknown kind of reference "x"`,
	} {
		if _, err := ref.Resolve(); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", string(ref), err, want)
		}
	}
}
