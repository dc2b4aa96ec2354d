package plan

import (
	"time"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/task"
)

// Plan is the physical plan of a job.
type Plan struct {
	Job   *config.Job
	Graph job.Graph
	// Vertices are parallel to Graph.Vertices; EdgeSchemas and EdgeKeys to Graph.Edges.
	Vertices    []Vertex
	EdgeSchemas []*batch.Schema
	EdgeKeys    [][]int
	// Warnings are complete messages about what is allowed but seldom meant.
	Warnings []string
}

// Vertex is one chain: what task.Vertex is made of.
type Vertex struct {
	Source      *Source
	Inputs      []task.Target
	Stages      []Stage
	Sinks       []Sink
	Outputs     int
	Parallelism int
}

// Source is the head of a source vertex.
type Source struct {
	Spec     *config.Source
	Branches []Branch
	// TimeBranch is the index of the branch that Time is evaluated on, or −1.
	TimeBranch int
	Time       expr.Node
	Errors     []task.Target
}

// Branch is what one consumer reads of a source.
type Branch struct {
	format.Branch // Where is left nil
	// Full is Schema and the metadata columns behind it.
	Full *batch.Schema
	// Filters are the predicates that the source applies while decoding: one after the other, each to the rows that
	// those before it take.
	Filters  []Filter
	Metadata []task.MetadataColumn
	Targets  []task.Target
}

// Stage is one operator; exactly one of Row and Aggregate is set.
type Stage struct {
	UID       string
	Row       *Row
	Aggregate *Aggregate
	OnError   config.OnError
	Out       []task.Target
}

// Output is one column that a stage puts out: an expression, which may be a plain column.
type Output struct {
	Name  string
	Expr  expr.Node
	Place string
}

// Row filters and projects.
type Row struct {
	In *batch.Schema
	// Where is nil for "all rows".
	Where expr.Node
	// WherePlace names the predicate in messages.
	WherePlace string
	Columns    []Output
	Out        *batch.Schema
}

// Aggregate groups rows by the leading columns of its input.
type Aggregate struct {
	In *batch.Schema
	// Keys is the number of key columns: the first columns of In, called KeyNames in the output.
	Keys     int
	KeyNames []string
	Calls    []expr.AggregateCall
	// Columns are evaluated over Mid: the keys, window_start and window_end if there is a window, and the
	// calls as $0, $1, ….
	Mid     *batch.Schema
	Columns []Output
	Out     *batch.Schema
	// Window is the size of tumbling windows; 0 for a running aggregate.
	Window time.Duration
	Place  string
}

// Sink is the end of a pipeline.
type Sink struct {
	Spec *config.Sink
	In   *batch.Schema
	// Key are the columns (indices into In) of the record key; Upsert says that they identify a row.
	Key    []int
	Upsert bool
}

// Mode is the changelog mode of a relation: which changes its rows can be.
type Mode int

// The modes. Append: inserts only. Upsert: a row replaces the earlier one of the same key. Retract: old rows
// are taken back one by one.
const (
	Append Mode = iota
	Upsert
	Retract
)
