package config

import (
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// envPrefix begins the environment variables of settings.
const envPrefix = "WEIR_"

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// SettingsFields lists the settings, for flags and help.
func SettingsFields() []Setting {
	table := settingsTable()
	out := make([]Setting, len(table))
	for i, f := range table {
		out[i] = Setting{
			Key: f.key, Env: envName(f.key), Flag: flagName(f.key), Kind: f.shape.kind, Default: f.def, Doc: f.doc,
			Bool: f.shape.json["type"] == "boolean",
		}
	}
	return out
}

// LoadSettings reads the settings of a worker from a file, the environment and flags, each stronger than the
// one before it. All mistakes are returned at once as Problems, those of overridden values too.
func LoadSettings(in SettingsInput) (*Settings, error) {
	d := newDecoder(in.FileName, in.Data)
	table := settingsTable()
	s := &Settings{}
	for _, f := range table {
		if f.def != "" {
			f.read(d, defaultNode(f.def), Place{Path: f.key}, s)
		}
	}
	if !onlyComments(in.Data) {
		if root := d.document(in.Data); root != nil {
			d.settingsFile(root, table, s)
		}
	}
	d.settingsEnv(in.Env, table, s)
	d.settingsFlags(in.Flags, table, s)
	if s.Slots == 0 {
		s.Slots = runtime.GOMAXPROCS(0)
	}
	d.checkSettings(s)
	if err := d.problems.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// onlyComments says that a settings file sets nothing, which is fine.
func onlyComments(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// settingsFile reads the nested form: cluster: {bind: …}.
func (d *decoder) settingsFile(root *yaml.Node, table []field[Settings], s *Settings) {
	var walk func(n *yaml.Node, prefix string, at Place)
	walk = func(n *yaml.Node, prefix string, at Place) {
		group := settingsGroup(table, prefix)
		if n.Kind != yaml.MappingNode {
			d.notAMap(n, at, group)
			return
		}
		for _, p := range d.pairs(n, at) {
			path := prefix + p.key
			switch i := indexOf(table, path); {
			case i >= 0:
				table[i].read(d, p.value, p.at, s)
			case slices.Contains(group.known(), p.key):
				walk(p.value, path+".", p.at)
			default:
				d.unknownKey(p, group)
			}
		}
	}
	walk(root, "", d.nodePlace(root, Place{File: d.file}))
}

func indexOf(table []field[Settings], key string) int {
	return slices.IndexFunc(table, func(f field[Settings]) bool { return f.key == key })
}

// settingsGroup lists the keys that may follow a prefix.
func settingsGroup(table []field[Settings], prefix string) *objectShape {
	o := &objectShape{name: "settings"}
	for _, f := range table {
		rest, ok := strings.CutPrefix(f.key, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(o.known(), name) {
			o.fields = append(o.fields, fieldShape{key: name})
		}
	}
	return o
}

// settingsEnv reads WEIR_… variables. One that nearly is a setting is a mistake; others are none of ours
// (an orchestrator may set WEIR_SERVICE_HOST).
func (d *decoder) settingsEnv(env []string, table []field[Settings], s *Settings) {
	names := make([]string, len(table))
	for i, f := range table {
		names[i] = envName(f.key)
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || value == "" {
			continue // an empty variable is as good as none
		}
		at := Place{File: "environment", Path: name}
		if i := slices.Index(names, name); i >= 0 {
			if isSecret(table[i]) && !Ref(value).IsReference() {
				value = "${env:" + name + "}" // stays in the environment
			}
			table[i].read(d, flatNode(value, table[i].shape), at, s)
			continue
		}
		for _, known := range names {
			if distance(name, known) <= 2 {
				d.failf(at, "did you mean "+known+"?", "unknown setting")
				break
			}
		}
	}
}

func isSecret(f field[Settings]) bool { return f.shape.kind == "secret" }

// settingsFlags reads the flags that were given.
func (d *decoder) settingsFlags(flags map[string]string, table []field[Settings], s *Settings) {
	names := make([]string, len(table))
	for i, f := range table {
		names[i] = flagName(f.key)
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		at := Place{File: "flags", Path: "--" + name}
		i := slices.Index(names, name)
		if i < 0 {
			d.failf(at, hintFor(name, names), "unknown setting")
			continue
		}
		table[i].read(d, flatNode(flags[name], table[i].shape), at, s)
	}
}

// flatNode is the node of a value given as one text: lists are divided by commas, text needs no quotes.
func flatNode(value string, sh *shape) *yaml.Node {
	if sh.form == listForm {
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				n.Content = append(n.Content, flatNode(part, sh.elem))
			}
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: value, Style: yaml.DoubleQuotedStyle}
	if t := sh.json["type"]; t == "integer" || t == "boolean" {
		n.Style = 0
	}
	return n
}

// checkSettings checks what only shows across settings.
func (d *decoder) checkSettings(s *Settings) {
	d.checkListener("cluster", s.Cluster.Listener)
	d.checkListener("exchange", s.Exchange)
	if len(d.problems) == 0 && (s.S3.AccessKey == "") != (s.S3.SecretKey == "") { // a refused key looks like none
		d.failf(d.at("s3"), "give both or none", "access_key and secret_key belong together")
	}
	f := &s.Failure
	if f.PeerTimeout > 0 && f.Keepalive >= f.PeerTimeout {
		d.failf(d.at("failure.keepalive"), "lower it", "%s is not below peer_timeout %s", formatDuration(f.Keepalive), formatDuration(f.PeerTimeout))
	}
	if f.ProbeInterval > 0 && f.ProbeTimeout > f.ProbeInterval {
		d.failf(d.at("failure.probe_timeout"), "lower it", "%s is above probe_interval %s", formatDuration(f.ProbeTimeout), formatDuration(f.ProbeInterval))
	}
}

func (d *decoder) checkListener(name string, l Listener) {
	host, _, err := net.SplitHostPort(l.Bind)
	if err != nil || l.Advertise != "" {
		return
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		d.failf(d.at(name+".bind"), fmt.Sprintf("set %s.advertise", name), "others cannot reach %s", l.Bind)
	}
}

// Values lists the effective settings; secrets are shown as their references, values that are not set as "".
func (s *Settings) Values() []SettingValue {
	table := settingsTable()
	out := make([]SettingValue, len(table))
	for i, f := range table {
		out[i].Key = f.key
		switch v := f.write(s).(type) {
		case nil:
		case []any:
			parts := make([]string, len(v))
			for j, p := range v {
				parts[j] = fmt.Sprint(p)
			}
			out[i].Value = strings.Join(parts, ",")
		default:
			out[i].Value = fmt.Sprint(v)
		}
	}
	return out
}

// SettingsReference is the reference page of the worker's settings in Markdown.
func SettingsReference() string {
	var b strings.Builder
	b.WriteString("# Worker settings\n\nStrongest last: defaults, the YAML file (keys nest at the dots), environment, flags. " +
		"Lists are divided by commas in the environment and in flags. Temporal's address, namespace and TLS come from Temporal's own " +
		"configuration (`TEMPORAL_ADDRESS`, …, or its profile file).\n\nSecrets are references, `${env:X}` or `${file:/path}`, " +
		"resolved on the node; in the environment they may stand as they are.\n\n" +
		"| key | environment | flag | value | default | meaning |\n|---|---|---|---|---|---|\n")
	for _, f := range SettingsFields() {
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | `--%s` | %s | %s | %s |\n", f.Key, f.Env, f.Flag, f.Kind, def, strings.ReplaceAll(f.Doc, "|", "\\|"))
	}
	return b.String()
}
