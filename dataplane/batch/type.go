package batch

import (
	"fmt"
	"strings"
)

// Kind is the physical kind of a column.
type Kind uint8

// The kinds. Int64 is SQL's bigint (and int, range-checked where it is read). Timestamp is microseconds
// since 1970-01-01 UTC, Date is days since then; both are stored as int64.
const (
	Invalid Kind = iota
	Bool
	Int64
	Float64
	Decimal
	Timestamp
	Date
	String
	Bytes
)

// Type is a column's type: a kind and, for decimals, precision (≤ 38) and scale; for timestamps Precision
// is the number of fractional digits shown (0–6). Types are comparable with ==.
type Type struct {
	Kind      Kind
	Precision uint8
	Scale     uint8
}

// String returns the type as the job language writes it.
func (t Type) String() string {
	switch t.Kind {
	case Bool:
		return "boolean"
	case Int64:
		return "bigint"
	case Float64:
		return "double"
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Timestamp:
		return fmt.Sprintf("timestamp(%d)", t.Precision)
	case Date:
		return "date"
	case String:
		return "string"
	case Bytes:
		return "bytes"
	}
	return "invalid"
}

// IsInt64 reports whether values of the type are stored in Column.Ints.
func (t Type) IsInt64() bool { return t.Kind == Int64 || t.Kind == Timestamp || t.Kind == Date }

// IsView reports whether values of the type are stored in Column.Views.
func (t Type) IsView() bool { return t.Kind == String || t.Kind == Bytes }

// Field is one named column of a schema. Name is a path such as "bid.price".
type Field struct {
	Name     string
	Type     Type
	Nullable bool
}

// Schema is the shape of batches. It is immutable and shared.
type Schema struct {
	Fields []Field
	// HasTime says that batches of this schema carry event time.
	HasTime bool
}

// Index returns the position of the field called name, or -1.
func (s *Schema) Index(name string) int {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// String lists names and types.
func (s *Schema) String() string {
	var b strings.Builder
	for i, f := range s.Fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Name)
		b.WriteByte(' ')
		b.WriteString(f.Type.String())
	}
	return b.String()
}
