package config

import "strings"

// Job is a parsed job spec: every default filled in, params applied, references resolved to names that
// exist. Lists are in document order. Values that carry no Place of their own are found with PlaceOf.
type Job struct {
	// File is what ParseJob was told the document is called.
	File    string
	Name    string
	Version int

	Connections []Connection
	Sources     []Source
	Steps       []Step
	Sinks       []Sink

	// Parallelism is the default of sources, steps and sinks (already applied to each of them).
	Parallelism int
	// MaxParallelism is the number of key groups, fixed for the life of the state.
	MaxParallelism int

	Checkpoint Checkpoint
	State      State
	Restart    Restart

	places map[string]Place
}

// PlaceOf is the place of the value at a path such as "steps.hot.window"; of a key that was left out, the
// place of what should hold it, with the asked-for path.
func (j *Job) PlaceOf(path string) Place { return placeOf(j.places, j.File, path) }

func placeOf(places map[string]Place, file, path string) Place {
	for p := path; ; {
		if at, ok := places[p]; ok {
			at.Path = path
			return at
		}
		i := strings.LastIndexAny(p, ".[")
		if i < 0 {
			return Place{File: file, Path: path}
		}
		p = p[:i]
	}
}

// Source returns the source of that name, or nil.
func (j *Job) Source(name string) *Source { return find(j.Sources, name) }

// Step returns the step of that name, or nil.
func (j *Job) Step(name string) *Step { return find(j.Steps, name) }

// Sink returns the sink of that name, or nil.
func (j *Job) Sink(name string) *Sink { return find(j.Sinks, name) }

// Cluster is the connection that a Kafka source or sink uses: the named one, or one made of its own brokers.
func (j *Job) Cluster(e KafkaEndpoint) KafkaConnection {
	if c := find(j.Connections, e.Connection.Text); c != nil && len(e.Brokers) == 0 {
		return *c.Kafka
	}
	return KafkaConnection{Brokers: e.Brokers}
}

// Bounded says whether every source ends.
func (j *Job) Bounded() bool {
	for i := range j.Sources {
		if !j.Sources[i].Bounded() {
			return false
		}
	}
	return true
}

// Name is a reference to something by name, with its place.
type Name struct {
	Text string
	At   Place
}

// Expr is a SQL scalar expression as written, params already replaced by literals. It is parsed and typed by
// the planner.
type Expr struct {
	Text string
	At   Place
	// exact says that Text stands character by character at At, so that offsets into it are columns.
	exact bool
}

// IsZero says that no expression was given.
func (e Expr) IsZero() bool { return e.Text == "" }

// Place is the place of the byte at offset in Text, as exactly as the quoting allows.
func (e Expr) Place(offset int) Place {
	p := e.At
	if e.exact && offset > 0 && offset <= len(e.Text) {
		p.Column += len([]rune(e.Text[:offset]))
	}
	return p
}

// Input is what a step or sink reads: the rows of a source or step, or one of its side outputs.
type Input struct {
	Name string
	// Output is "" for the rows themselves, or "errors".
	Output string
	At     Place
}

// String is the input as written: name or name.output.
func (in Input) String() string {
	if in.Output == "" {
		return in.Name
	}
	return in.Name + "." + in.Output
}

// OnError says what happens to a bad record, event time, expression, limit or encoding.
type OnError string

// The answers to a bad row. Fail ends the attempt; Skip drops and counts; Divert sends the row to the side
// output "errors", which something must read.
const (
	Fail   OnError = "fail"
	Skip   OnError = "skip"
	Divert OnError = "divert"
)

// ErrorsOutput is the side output of everything with on_error: divert.
const ErrorsOutput = "errors"

// Common are the keys that sources, steps and sinks share.
type Common struct {
	Name string
	At   Place
	// UID names the state across changes of the spec; the name unless given. Unique in the job.
	UID string
	// Parallelism is at least 1 and at most the job's MaxParallelism.
	Parallelism int
	OnError     OnError
}

func (c *Connection) named() string { return c.Name }
func (c *Common) named() string     { return c.Name }

func find[T any, P interface {
	*T
	named() string
}](items []T, name string) P {
	for i := range items {
		if p := P(&items[i]); p.named() == name && name != "" {
			return p
		}
	}
	return nil
}
