package config

import "time"

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
