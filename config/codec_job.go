package config

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// readNothing is the reader of a key that was read before.
func readNothing(*decoder, *yaml.Node, Place, *Job) bool { return true }

func nameShape() *shape {
	sh := scalarShape("name", "string")
	sh.json["pattern"] = namePattern.String()
	return sh
}

// nameRef is the name of something declared elsewhere.
func nameRef() codec[Name] {
	return codec[Name]{
		shape: nameShape(),
		read: func(d *decoder, n *yaml.Node, at Place) (Name, bool) {
			s, ok := d.plainText(n, at, "a name")
			return Name{Text: s, At: at}, ok && d.checkName(s, at)
		},
		write: func(v Name) any { return v.Text },
	}
}

// nameText is a name that is declared here.
func nameText() codec[string] {
	ref := nameRef()
	return codec[string]{
		shape: ref.shape,
		read: func(d *decoder, n *yaml.Node, at Place) (string, bool) {
			v, ok := ref.read(d, n, at)
			return v.Text, ok
		},
		write: func(v string) any { return v },
	}
}

// broker is host or host:port.
func broker() codec[Ref] {
	return refText("text", func(s string) error {
		if strings.Contains(s, "://") || strings.ContainsAny(s, "/@, ") {
			return errors.New("a broker is host:port, one an item; secrets belong in sasl")
		}
		_, port, found := strings.Cut(s, ":")
		if !found || strings.Contains(port, ":") { // no port, or IPv6
			return nil
		}
		if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
			return fmt.Errorf("%q is no port", port)
		}
		return nil
	})
}

func checkKeyFile(s string) error {
	if strings.Contains(s, "-----BEGIN") {
		return errors.New("plain text; use a file's path, ${env:X} or ${file:X}")
	}
	return nil
}

// storageURL is s3://bucket/prefix or file:///path. It passes through the control plane, so it holds no references.
func storageURL() codec[string] {
	c := textOf[string]("URL")
	read := c.read
	c.read = func(d *decoder, n *yaml.Node, at Place) (string, bool) {
		s, ok := read(d, n, at)
		if !ok {
			return "", false
		}
		if err := checkStorage(s); err != nil {
			d.failf(at, "write s3://bucket/prefix or file:///path", "%v", err)
			return "", false
		}
		return s, true
	}
	return c
}

// checkStorage never repeats the URL, which may hold a password.
func checkStorage(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("no URL")
	case u.User != nil:
		return errors.New("a URL must not hold a user or password")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("a storage URL has no ? and no #")
	case u.Scheme == "s3" && u.Host != "":
		return nil
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return nil
	}
	return errors.New("unknown storage")
}

// startCodec is earliest, latest, {timestamp: …} or {offsets: {partition: offset}}.
func startCodec() codec[Start] {
	c := objectOf(objectShape{
		name: "start", doc: "A start position.",
		choices: []choice{{"position", "start", []string{"timestamp", "offsets"}, true}},
	}, nil, func(_ *decoder, s *Start, written map[string]pair, _ Place) {
		s.Kind = StartTimestamp
		if _, ok := written["offsets"]; ok {
			s.Kind = StartOffsets
		}
	},
		key("timestamp", "The first record at or after this time (RFC 3339).", instant(), func(s *Start) *time.Time { return &s.Timestamp }),
		key("offsets", "`{partition: offset}`; other partitions start at their earliest record.", offsetsOf(),
			func(s *Start) *map[int32]int64 { return &s.Offsets }))
	at := func(k StartKind) word[Start] {
		return word[Start]{string(k), func(s *Start) { s.Kind = k }, func(s *Start) bool { return s.Kind == k }}
	}
	return orWord(c, nil, at(StartEarliest), at(StartLatest))
}

func instant() codec[time.Time] {
	return codec[time.Time]{
		shape: scalarShape("time", "string"),
		read: func(d *decoder, n *yaml.Node, at Place) (time.Time, bool) {
			s, ok := d.plainText(n, at, "a time such as 2026-01-31T13:00:00Z")
			if !ok {
				return time.Time{}, false
			}
			for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02"} {
				if t, err := time.Parse(layout, s); err == nil {
					return t.UTC(), true
				}
			}
			d.failf(at, "write 2026-01-31T13:00:00Z", "%q is no time", s)
			return time.Time{}, false
		},
		write: func(t time.Time) any {
			if t.IsZero() {
				return nil
			}
			return t.Format(time.RFC3339Nano)
		},
	}
}

func offsetsOf() codec[map[int32]int64] {
	offset := integer[int64](0, math.MaxInt64)
	return codec[map[int32]int64]{
		shape: &shape{form: mapForm, kind: "{partition: offset}", elem: offset.shape},
		read: func(d *decoder, n *yaml.Node, at Place) (map[int32]int64, bool) {
			if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
				d.failf(at, "write {0: 1500}", "must be a map of partitions and offsets")
				return nil, false
			}
			out := map[int32]int64{}
			for _, p := range d.pairs(n, at) {
				partition, err := strconv.ParseInt(p.key, 10, 32)
				if err != nil || partition < 0 || !jsonNumber.MatchString(p.key) {
					d.failf(p.keyPlace(), "", "%q is no partition", p.key)
					continue
				}
				if v, ok := offset.read(d, p.value, p.at); ok {
					out[int32(partition)] = v
				}
			}
			return out, true
		},
		write: func(m map[int32]int64) any {
			if m == nil {
				return nil
			}
			return m
		},
	}
}

// flagWord is a single word that, written, is true.
func flagWord(text, kind string, planned func(string) bool) codec[bool] {
	return codec[bool]{
		shape: &shape{form: scalarForm, kind: text, json: map[string]any{"const": text}},
		read: func(d *decoder, n *yaml.Node, at Place) (bool, bool) {
			s, ok := d.plainText(n, at, text)
			if !ok {
				return false, false
			}
			if s != text {
				if planned(s) {
					d.failf(at, "use "+text, "%s is not available yet", kind)
				} else {
					d.unknownWord(s, at, []string{text}, nil)
				}
			}
			return s == text, s == text
		},
		write: func(v bool) any {
			if !v {
				return nil
			}
			return text
		},
	}
}

func boundedCodec() codec[bool] {
	return flagWord("latest", "", func(string) bool { return false })
}

// ttlCodec is none: state that is let go by time is not built.
func ttlCodec() codec[bool] {
	c := flagWord("none", "a time to live", func(s string) bool { return durationRegexp.MatchString(s) })
	read := c.read
	c.read = func(d *decoder, n *yaml.Node, at Place) (bool, bool) {
		if n.Kind == yaml.MappingNode {
			d.failf(at, "use none", "a time to live is not available yet")
			return false, false
		}
		return read(d, n, at)
	}
	return c
}

// emptyObject is {}: a connector without settings.
func emptyObject(name string) codec[bool] {
	c := objectOf[struct{}](objectShape{name: name, doc: "No settings: `{}`."}, nil, nil)
	return codec[bool]{
		shape: c.shape,
		read: func(d *decoder, n *yaml.Node, at Place) (bool, bool) {
			_, ok := c.read(d, n, at)
			return ok, ok
		},
		write: func(v bool) any {
			if !v {
				return nil
			}
			return members{}
		},
	}
}

// inputsOf is an input or a list of inputs.
func inputsOf() codec[[]Input] {
	one := scalarShape("input", "string")
	one.json["pattern"] = `^[A-Za-z_][A-Za-z0-9_]*(\.[a-z_]+)?$`
	list := &shape{form: listForm, kind: "list of input", elem: one}
	return codec[[]Input]{
		shape: &shape{form: anyForm, kind: "input \\| list", alternatives: []*shape{one, list}},
		read: func(d *decoder, n *yaml.Node, at Place) ([]Input, bool) {
			if n.Kind == yaml.ScalarNode {
				in, ok := d.input(n, at)
				return []Input{in}, ok
			}
			return listOf(codec[Input]{shape: one, read: (*decoder).input}).read(d, n, at)
		},
		write: func(ins []Input) any {
			switch len(ins) {
			case 0:
				return nil
			case 1:
				return ins[0].String()
			}
			out := make([]string, len(ins))
			for i, in := range ins {
				out[i] = in.String()
			}
			return out
		},
	}
}

func (d *decoder) input(n *yaml.Node, at Place) (Input, bool) {
	s, ok := d.plainText(n, at, "an input")
	if !ok {
		return Input{}, false
	}
	name, output, dotted := strings.Cut(s, ".")
	in := Input{Name: name, Output: output, At: at}
	switch {
	case !namePattern.MatchString(name) || dotted && !namePattern.MatchString(output):
		d.failf(at, "write name, or name.output", "%q is no input", s)
		return in, false
	case output == "late" || output == "late_left" || output == "late_right" || output == "timeout":
		d.failf(at, "late rows are counted", "output %s is not available yet", output)
		return in, false
	case output != "" && output != ErrorsOutput:
		d.failf(at, hintFor(output, []string{ErrorsOutput}), "no output %q", output)
		return in, false
	}
	return in, true
}

var metadataKinds = []string{"key", "timestamp", "partition", "offset", "header.NAME"}

// metadataOf is {column: key | timestamp | partition | offset | header.NAME}.
func metadataOf() codec[[]MetadataColumn] {
	item := scalarShape("metadata", "string")
	item.json["pattern"] = `^(key|timestamp|partition|offset|header\..+)$`
	return codec[[]MetadataColumn]{
		shape: &shape{form: mapForm, kind: "{column: metadata}", elem: item},
		read: func(d *decoder, n *yaml.Node, at Place) ([]MetadataColumn, bool) {
			if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
				d.failf(at, "write {column: offset}", "must be a map of columns")
				return nil, false
			}
			var out []MetadataColumn
			for _, p := range d.pairs(n, at) {
				if c, ok := d.metadataColumn(p); ok {
					out = append(out, c)
				}
			}
			return out, true
		},
		write: func(cs []MetadataColumn) any {
			if cs == nil {
				return nil
			}
			ms := make(members, len(cs))
			for i, c := range cs {
				s := string(c.Kind)
				if c.Kind == MetadataHeader {
					s = "header." + c.Header
				}
				ms[i] = member{c.Column, s}
			}
			return ms
		},
	}
}

func (d *decoder) metadataColumn(p pair) (MetadataColumn, bool) {
	nameOK := d.checkColumnName(p.key, p.keyPlace())
	s, ok := d.plainText(p.value, p.at, "one of "+strings.Join(metadataKinds, ", "))
	if !ok {
		return MetadataColumn{}, false
	}
	c := MetadataColumn{Column: p.key, Kind: MetadataKind(s), At: p.at}
	header, isHeader := strings.CutPrefix(s, "header.")
	switch {
	case isHeader && header != "":
		c.Kind, c.Header = MetadataHeader, header
	case isHeader || !slices.Contains(metadataKinds, s):
		d.unknownWord(s, p.at, metadataKinds, nil)
		return c, false
	}
	return c, nameOK
}
