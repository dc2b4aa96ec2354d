package config

import (
	"strings"
	"time"
)

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

func (c *Common) common() *Common { return c }

// Source reads rows. Exactly one of Kafka, Nexmark and Files is set.
type Source struct {
	Common
	Kafka   *KafkaSource
	Nexmark *NexmarkSource
	Files   *FilesSource

	// Format and Schema are set except for Nexmark, which brings its own.
	Format    *Format
	KeyFormat *Format
	Schema    []Field
	Metadata  []MetadataColumn
	EventTime *EventTime
}

// Bounded says whether the source ends.
func (s *Source) Bounded() bool {
	switch {
	case s.Kafka != nil:
		return s.Kafka.Bounded
	case s.Nexmark != nil:
		return s.Nexmark.Events > 0
	}
	return true
}

// KafkaEndpoint says which Kafka cluster: a connection of the job (the sole one by default), or brokers.
type KafkaEndpoint struct {
	Connection Name
	Brokers    []Ref
}

// KafkaSource reads the partitions of one topic.
type KafkaSource struct {
	KafkaEndpoint
	Topic Ref
	Start Start
	// Bounded ends the source at the high watermarks seen at the start of the job (bounded: latest).
	Bounded bool
	OnLost  OnLost
}

// StartKind says where a Kafka source begins when the job starts for the first time.
type StartKind string

// The start positions.
const (
	StartEarliest  StartKind = "earliest"
	StartLatest    StartKind = "latest"
	StartTimestamp StartKind = "timestamp"
	StartOffsets   StartKind = "offsets"
)

// Start is a start position. Timestamp belongs to StartTimestamp, Offsets (by partition) to StartOffsets;
// partitions that Offsets does not name start at their earliest record.
type Start struct {
	Kind      StartKind
	Timestamp time.Time
	Offsets   map[int32]int64
}

// OnLost says what to do when the next offset no longer exists in the topic.
type OnLost string

// The answers to lost records.
const (
	LostFail     OnLost = "fail"
	LostEarliest OnLost = "earliest"
)

// NexmarkSource generates the events of the Nexmark benchmark.
type NexmarkSource struct {
	// Events is the number of events; 0 is without end.
	Events int64
	// Rate is the number of events per second of event time.
	Rate Rate
	// Pace keeps to the clock as well; otherwise events come as fast as they are taken.
	Pace bool
}

// FilesSource reads the files that match a path or glob, each record a line.
type FilesSource struct{ Path Ref }

// Format says how bytes become columns. JSON is the only one that is built.
type Format struct {
	At   Place
	JSON *JSONFormat
}

// JSONFormat are the settings of format json.
type JSONFormat struct{ Timestamps Timestamps }

// Timestamps says how JSON writes timestamps.
type Timestamps string

// The notations: RFC 3339, "2006-01-02 15:04:05.000000", or a number since 1970.
const (
	TimestampsISO     Timestamps = "iso"
	TimestampsSQL     Timestamps = "sql"
	TimestampsEpochS  Timestamps = "epoch_s"
	TimestampsEpochMS Timestamps = "epoch_ms"
	TimestampsEpochUS Timestamps = "epoch_us"
)

// MetadataKind is what of a Kafka record a metadata column shows.
type MetadataKind string

// The metadata of a record.
const (
	MetadataKey       MetadataKind = "key"
	MetadataTimestamp MetadataKind = "timestamp"
	MetadataPartition MetadataKind = "partition"
	MetadataOffset    MetadataKind = "offset"
	MetadataHeader    MetadataKind = "header"
)

// MetadataColumn is a column that shows metadata. Header is the header's name for MetadataHeader.
type MetadataColumn struct {
	Column string
	Kind   MetadataKind
	Header string
	At     Place
}

// EventTime says when rows happened and how far they may be out of order.
type EventTime struct {
	// Expr (key "at") gives the row's time.
	Expr          Expr
	MaxOutOfOrder time.Duration
	// IdleAfter is how long a split with nothing left to read holds the watermark back.
	IdleAfter time.Duration
	// MaxAhead of the clock; beyond, Ahead decides.
	MaxAhead time.Duration
	Ahead    Ahead
}

// Ahead says what to do with an event time too far in the future.
type Ahead string

// AheadBad makes it a bad record (on_error decides), AheadClamp limits it to the clock + max_ahead.
const (
	AheadBad   Ahead = "bad"
	AheadClamp Ahead = "clamp"
)

// Step is a filter, at most one operator, a projection, in that order. Nil means "not written".
type Step struct {
	Common
	// From are the inputs; more than one is the union of equal columns.
	From  []Input
	Where *Expr
	// KeyBy are paths or named expressions, never stars.
	KeyBy     []Column
	Window    *Window
	Aggregate *Aggregate
	// Select is nil for "all columns of the operator".
	Select []Column
	// KeepForever is ttl: none: unbounded state is meant.
	KeepForever bool
}

// Window groups rows by event time.
type Window struct {
	At Place
	// Tumble is the length of windows that follow each other.
	Tumble time.Duration
}

// Aggregate are the named aggregate expressions; an empty list keeps the distinct keys.
type Aggregate struct {
	At      Place
	Columns []NamedExpr
}

// NamedExpr is name: expr.
type NamedExpr struct {
	Name string
	Expr Expr
}

// Column is an item of a column list. It is one of
//
//	path            Name (its last part), Path and Expr (the path as an expression)
//	{name: expr}    Name, Expr
//	"*"             Star
//	path.*          Star, Path (what is expanded)
//	{"p_*": path.*} Star, Path, Prefix
type Column struct {
	At     Place
	Name   string
	Expr   Expr
	Path   Path
	Star   bool
	Prefix string
}

// Path is a column and the fields below it: bid.price is ["bid" "price"].
type Path []string

// Sink writes rows. Exactly one of Kafka, Files, Print and Discard is set.
type Sink struct {
	Common
	From    []Input
	Kafka   *KafkaSink
	Files   *FilesSink
	Print   bool
	Discard bool

	// Format is set for Kafka, Files and Print. KeyFormat is nil for "as Format".
	Format    *Format
	KeyFormat *Format
	// Delivery is empty for Print and Discard.
	Delivery Delivery
	// Upsert are the columns that identify a row; nil for inserts only.
	Upsert []Column
}

// Delivery is the guarantee of a sink.
type Delivery string

// The guarantees.
const (
	ExactlyOnce Delivery = "exactly_once"
	AtLeastOnce Delivery = "at_least_once"
)

// KafkaSink writes to one topic.
type KafkaSink struct {
	KafkaEndpoint
	Topic Ref
	// Key are the columns of the record key; nil for none (or Upsert's).
	Key []Column
	// TransactionTimeout is 0 for the broker's transaction.max.timeout.ms.
	TransactionTimeout time.Duration
}

// FilesSink writes part files below a path that all nodes share.
type FilesSink struct{ Path Ref }

// Checkpoint says how often and how the job is saved.
type Checkpoint struct {
	Interval time.Duration
	// Storage is an s3:// or file:// URL; empty for the cluster's default.
	Storage  string
	Keep     int
	Timeout  time.Duration
	MinPause time.Duration
	Mode     Delivery
}

// State says where keyed state lives. Exactly one is set.
type State struct {
	Pebble *PebbleState
	Memory *MemoryState
}

// PebbleState is state on the node's disk. Cache is in bytes, a slot.
type PebbleState struct{ Cache Size }

// MemoryState is state in the process.
type MemoryState struct{}

// Restart is the restart strategy. Exactly one is set.
type Restart struct {
	Backoff *Backoff
	Fixed   *FixedDelay
	Rate    *FailureRate
	None    bool
}

// Backoff doubles the delay from Initial to Max; a run of ResetAfter forgets earlier failures.
type Backoff struct{ Initial, Max, ResetAfter time.Duration }

// FixedDelay restarts at most Attempts times, each after Delay.
type FixedDelay struct {
	Delay    time.Duration
	Attempts int
}

// FailureRate gives up after more than Failures failures within Per; restarts come after Delay.
type FailureRate struct {
	Failures int
	Per      time.Duration
	Delay    time.Duration
}

// Connection is a named way to a system.
type Connection struct {
	Name  string
	At    Place
	Kafka *KafkaConnection
}

// KafkaConnection is how to reach a Kafka cluster.
type KafkaConnection struct {
	Brokers []Ref
	// TLS is nil for plain text.
	TLS *TLS
	// SASL is nil for no authentication.
	SASL *SASL
}

// TLS are the certificates of a connection. CA, Cert and Key are files on the node, or PEM text by reference.
type TLS struct {
	CA         Ref
	Cert       Ref
	Key        Ref
	ServerName Ref
	// SkipVerify turns off the check of the server's certificate.
	SkipVerify bool
}

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
)

// SASL is how a connection authenticates.
type SASL struct {
	Mechanism Mechanism
	User      Ref
	Password  Secret
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
