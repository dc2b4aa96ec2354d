package json

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNullValue is why a record without a value (a tombstone) is bad.
var ErrNullValue = errors.New("record has no value")

// Error says why and where a record is bad.
type Error struct {
	// Path is the asked-for path concerned, such as "bid.price"; empty for a mistake in the record's structure.
	Path string
	// Offset is the position of the mistake in the record's value, in bytes.
	Offset int
	Reason string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("json: byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("json: %s: %s (byte %d)", e.Path, e.Reason, e.Offset)
}

// fault is the reason of an Error; faults cost nothing while a layout is only tried.
type fault uint8

const (
	ok fault = iota
	faultSyntax
	faultObject
	faultNumber
	faultString
	faultEscape
	faultUTF8
	faultEnd
	faultDuplicate
	faultMissing
	faultNull
	faultStruct
	faultType
	faultRange
	faultFraction
	faultDigits
	faultTime
	faultBase64
)

var reasons = [...]string{
	ok:             "ok",
	faultSyntax:    "not valid JSON",
	faultObject:    "not a JSON object",
	faultNumber:    "not a valid number",
	faultString:    "string is not closed, or has an unescaped control character",
	faultEscape:    "invalid escape in a string",
	faultUTF8:      "invalid UTF-8 in a string",
	faultEnd:       "something follows the object",
	faultDuplicate: "name occurs twice",
	faultMissing:   "missing, and not optional",
	faultNull:      "null, and not optional",
	faultStruct:    "not an object",
	faultType:      "value does not have the type",
	faultRange:     "out of range for",
	faultFraction:  "a fraction or exponent is no",
	faultDigits:    "more digits after the point than fit",
	faultTime:      "not in the configured notation of",
	faultBase64:    "not base64 as needed for",
}

// newError makes the Error of f. l is nil for structural mistakes, path names a struct above columns.
func newError(f fault, offset int, l *leaf, path []string) *Error {
	e := &Error{Offset: offset, Reason: reasons[f], Path: strings.Join(path, ".")}
	if l == nil {
		return e
	}
	e.Path = strings.Join(l.path, ".")
	if f >= faultType {
		e.Reason += " " + l.typ.String()
	}
	return e
}
