package task

import (
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
)

// Program is a compiled job: the graph and, for each of its vertices, how to make the parts of a subtask. It
// is immutable; its factories may be called concurrently.
type Program struct {
	Graph job.Graph
	// Vertices are parallel to Graph.Vertices.
	Vertices []Vertex
	// EdgeSchemas and EdgeKeys are parallel to Graph.Edges: what flows, and the indices of the key columns of
	// a Hash edge.
	EdgeSchemas []*batch.Schema
	EdgeKeys    [][]int
}

// Vertex is one chain. Exactly one of Source and Inputs is used.
type Vertex struct {
	Source *Source
	// Inputs says for each incoming edge (in the order of Graph.Inputs) where its batches go.
	Inputs []Target
	// Stages are in topological order: a target is always a later stage.
	Stages []Stage
	Sinks  []Sink
	// Outputs is the number of outgoing edges (in the order of Graph.Outputs).
	Outputs int
}

// TargetKind says what a Target points at.
type TargetKind uint8

// The kinds of target.
const (
	ToStage  TargetKind = iota // input Input of Stages[Index]
	ToSink                     // Sinks[Index]
	ToOutput                   // outgoing edge Index of the vertex
)

// Target is where batches go next within a vertex.
type Target struct {
	Kind  TargetKind
	Index int
	Input int
}

// Stage is one operator of a chain.
type Stage struct {
	UID string
	// New makes an instance for one subtask.
	New func() (operator.Operator, error)
	// Keyed asks for keyed state.
	Keyed   bool
	OnError operator.OnError
	Out     []Target
}

// Sink is the end of a pipeline.
type Sink struct {
	UID       string
	Connector connector.Sink
	// OnError says what happens to a row that cannot be encoded.
	OnError operator.OnError
}

// TimeFunc computes the event time (µs) of the rows of a decoded batch into a column whose nulls are
// records without one. The column is kept with the batch and must not be used again. It belongs to one subtask.
type TimeFunc func(b *batch.Batch) (*batch.Column, error)

// Source is the head of a source vertex.
type Source struct {
	UID       string
	Connector connector.Source
	// NewDecoder makes the decoder of one subtask.
	NewDecoder func() (format.Decoder, error)
	// Branches says for each of the decoder's branches where its batches go. The time branch, if any, goes
	// nowhere.
	Branches [][]Target
	// Schemas are what the batches of each branch carry: the decoded columns, then those of Metadata.
	Schemas []*batch.Schema
	// TimeBranch is the branch that NewTime reads, or −1 for sources without event time. It has no predicate,
	// so that rows which no consumer wants still move the watermark.
	TimeBranch int
	NewTime    func() (TimeFunc, error)
	// MaxOutOfOrder bounds how much later than the newest record an older one may come.
	MaxOutOfOrder time.Duration
	// IdleAfter is how long a split that has nothing left to read holds the watermark back.
	IdleAfter time.Duration
	// MaxAhead bounds how far ahead of the clock an event time may lie; ClampAhead takes the bound instead
	// of refusing the record. 0 means no bound.
	MaxAhead   time.Duration
	ClampAhead bool
	// Metadata are columns that the connector knows: filled in after decoding, by branch.
	Metadata []MetadataColumn
	OnError  operator.OnError
	// Errors is where diverted records go (schema ErrorsSchema).
	Errors []Target
}

// MetadataColumn asks for a property of the record itself in column Column of branch Branch.
type MetadataColumn struct {
	Branch, Column int
	Kind           MetadataKind
}

// MetadataKind is a property of a record.
type MetadataKind uint8

// The kinds of metadata.
const (
	MetaKey MetadataKind = iota
	MetaTimestamp
	MetaPartition
	MetaOffset
)

// ErrorsSchema is the shape of the side output "errors".
var ErrorsSchema = &batch.Schema{Fields: []batch.Field{
	{Name: "at", Type: batch.Type{Kind: batch.Timestamp, Precision: 3}},
	{Name: "place", Type: batch.Type{Kind: batch.String}},
	{Name: "error", Type: batch.Type{Kind: batch.String}},
	{Name: "key", Type: batch.Type{Kind: batch.Bytes}, Nullable: true},
	{Name: "value", Type: batch.Type{Kind: batch.Bytes}, Nullable: true},
}}
