package config

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"
)

// specWords are words of the language that may be misspelt where they do not belong at all.
var specWords = []string{
	"aggregate", "top", "dedup", "unnest", "join", "match", "window", "over", "where", "select", "key_by", "from",
	"with", "when", "range", "as_of", "broadcast", "pattern", "define", "within", "emit", "ttl", "unique",
	"delivery", "checkpoint", "interval", "parallelism", "max_parallelism", "schema", "metadata", "watermark",
}

// ParseJob reads a job spec, YAML or JSON. It returns either a job that is complete and consistent in
// itself, or all its mistakes as Problems. filename is only shown.
func ParseJob(filename string, data []byte) (*Job, error) {
	return ParseJobWith(filename, data, nil)
}

// ParseJobWith is ParseJob with values for the spec's params.
func ParseJobWith(filename string, data []byte, params map[string]string) (*Job, error) {
	j, problems := ReadJob(filename, data, params)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

// ReadJob is ParseJobWith that also returns what it understood of a spec with mistakes, for whoever looks for more
// of them: what a mistake is about is missing from the job, or not what was meant. The job is nil where nothing was
// understood.
func ReadJob(filename string, data []byte, params map[string]string) (*Job, Problems) {
	d := newDecoder(filename, data)
	table := jobCodec()
	d.learn(table.shape)
	root := d.document(data)
	if root == nil {
		return nil, d.problems
	}
	top := Place{File: filename}
	if root.Kind == yaml.MappingNode {
		d.readParams(childOf(root, "params"), d.nodePlace(root, top).Key("params"), params)
	}
	j, ok := table.read(d, root, d.nodePlace(root, top))
	if !ok {
		return nil, d.problems
	}
	j.File, j.places = filename, d.places
	d.checkJob(&j)
	return &j, d.problems
}

// learn notes which object knows which key, for the hint at a misplaced key.
func (d *decoder) learn(s *shape) {
	for _, o := range s.objects() {
		for _, f := range o.fields {
			d.owners[f.key] = append(d.owners[f.key], o.name)
		}
	}
}

func childOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// JSON is the spec in canonical form, for temporal workflow start --input-file: params applied, defaults
// written out, references to secrets still references. ParseJob of it gives an equal job.
func (j *Job) JSON() []byte {
	text, err := marshal(jobCodec().write(*j))
	if err != nil {
		panic("config: render job: " + err.Error()) // text, numbers, lists and maps always marshal
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		panic("config: render job: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// MarshalJSON is JSON, so that a job can be part of a larger document.
func (j *Job) MarshalJSON() ([]byte, error) { return j.JSON(), nil }
