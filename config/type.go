package config

// TypeName is the name of a column type.
type TypeName string

// The types. Timestamps are instants; Struct has Fields. Optional is a flag of Type, not a type of its own.
const (
	TypeBoolean   TypeName = "boolean"
	TypeInt       TypeName = "int"
	TypeBigint    TypeName = "bigint"
	TypeDouble    TypeName = "double"
	TypeString    TypeName = "string"
	TypeBytes     TypeName = "bytes"
	TypeDate      TypeName = "date"
	TypeDecimal   TypeName = "decimal"
	TypeTimestamp TypeName = "timestamp"
	TypeStruct    TypeName = "struct"
	// TypeArray is part of the language but refused by the parser until it is built.
	TypeArray TypeName = "array"
)

// Type is a column's type as written in a schema.
type Type struct {
	Name TypeName
	// Precision is the number of digits of a decimal (1 to 38), or of the fraction of a timestamp's second
	// (0 to 6; 6 unless written).
	Precision int
	// Scale is the number of a decimal's digits after the point, at most Precision.
	Scale int
	// Elem is the element of an array.
	Elem *Type
	// Fields are those of a struct, in document order.
	Fields []Field
	// Optional allows missing and null.
	Optional bool
	At       Place
}

// Field is a named, typed column or struct field.
type Field struct {
	Name string
	Type Type
	At   Place
}
