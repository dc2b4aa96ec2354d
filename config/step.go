package config

import "time"

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
