// Package format is the contract between bytes and columns: decoders that read only the asked-for columns
// of a record set, and encoders that write batches as records. Implementations live in format/json, ….
package format

import "github.com/weirstream/weir/dataplane/batch"

// Span is a piece of Records.Buf. Len −1 is a null key or value.
type Span struct{ Off, Len int32 }

// Records is a run of records of one split: one buffer and spans into it, no object a record. Buf is
// immutable from the moment Records is handed on; decoded strings may point into it.
type Records struct {
	Buf    []byte
	Keys   []Span // nil: no record has a key
	Values []Span
	// Times are the records' own timestamps in µs; nil: none.
	Times []int64
	// Offsets are the records' positions in their split, ascending, not necessarily contiguous.
	Offsets []int64
	// Split names where the records come from, for messages and metadata: "topic/3" or a file's path.
	Split string
	// Partition is the partition number, for metadata.
	Partition int32
}

// Len is the number of records.
func (r *Records) Len() int { return len(r.Values) }

// Value returns the value of record i; nil if it is null.
func (r *Records) Value(i int) []byte { return r.slice(r.Values[i]) }

// Key returns the key of record i; nil if it is null or there are none.
func (r *Records) Key(i int) []byte {
	if r.Keys == nil {
		return nil
	}
	return r.slice(r.Keys[i])
}

func (r *Records) slice(s Span) []byte {
	if s.Len < 0 {
		return nil
	}
	return r.Buf[s.Off : s.Off+s.Len : s.Off+s.Len]
}

// Column asks for one leaf value of the records.
type Column struct {
	// Name is the column's name in the batch; Path where the value lies in a record: ["bid", "price"].
	Name string
	Path []string
	Type batch.Type
	// Optional: the value, or any struct above it that is optional (see Requirement), may be missing or
	// null. A missing or null value that is not optional makes the record bad.
	Optional bool
	// OptionalAt is the number of leading path elements whose absence makes the whole column null instead
	// of bad: 0 if every enclosing struct is required. With Path [bid price] and OptionalAt 1 a record
	// without "bid" has a null price, but a bid without a price is bad (unless Optional).
	OptionalAt int
}

// Branch is one consumer of a source: the columns that it asks for and the rows that it wants.
type Branch struct {
	Schema  *batch.Schema // fields of Columns, in their order
	Columns []Column
	// Where, if set, rejects rows as soon as the columns in WhereColumns (indices) are read; nothing else
	// of a rejected row is read, and a mistake in a part that was not read is not noticed.
	Where        batch.Predicate
	WhereColumns []int
}

// Bad is a record that cannot be decoded.
type Bad struct {
	Record int // index in Records
	Err    error
}

// Decoder turns records into batches. Owned by one goroutine.
type Decoder interface {
	// Decode reads the records [from, to) and returns one batch per branch, in the order in which the
	// branches were given. Physical row i of every batch is record from+i; Sel leaves out bad records and
	// those that Where rejects (Sel is nil when none is left out). Bad records are appended to bad. A
	// *batch.RowError from a predicate is reported as a bad record too. err is a broken invariant only.
	Decode(rs *Records, from, to int, bad []Bad) (out []*batch.Batch, _ []Bad, err error)
}

// Encoded is a run of encoded values: value i is Buf[Ends[i-1]:Ends[i]] (Ends[-1] = 0).
type Encoded struct {
	Buf  []byte
	Ends []int32
}

// Reset empties e, keeping its memory.
func (e *Encoded) Reset() { e.Buf, e.Ends = e.Buf[:0], e.Ends[:0] }

// At returns value i.
func (e *Encoded) At(i int) []byte {
	from := int32(0)
	if i > 0 {
		from = e.Ends[i-1]
	}
	return e.Buf[from:e.Ends[i]]
}

// Encoder turns rows into bytes. Owned by one goroutine.
type Encoder interface {
	// Encode appends one value per logical row of b, made of the columns cols (indices, in that order). A
	// row that cannot be encoded (NaN in JSON, …) is a *batch.RowError and leaves dst as it was before that row.
	Encode(dst *Encoded, b *batch.Batch, cols []int) error
}
