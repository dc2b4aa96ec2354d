// Package json decodes records that are JSON objects into columns and encodes rows as JSON objects.
//
// # What is read
//
// A decoder reads only the members that its branches ask for. Strings become views into the record buffer
// and are copied only if they have escapes. Numbers never pass through a float: a bigint is an RFC 8259
// number without fraction and exponent within 64 bits, a decimal is taken exactly at its declared scale
// (excess fraction digits must be zeros). Anything else is a bad record, as are a missing or null value that
// is not optional, a value of another JSON type, and a record without a value ([ErrNullValue]).
//
// # What is validated
//
// Of a record that a branch takes:
//
//   - asked-for values are validated in full: grammar, range, escapes, UTF-8 (invalid UTF-8 is never replaced);
//   - the path to the end of the record is walked: it must be one object, its members separated by commas,
//     with nothing behind it but white space; an asked-for name that occurs twice in its object is refused;
//   - inside members that nobody asked for only strings and the depth of brackets are followed, as needed to
//     find their end. A mistake in there is not noticed. Whatever a string contains, it is never taken
//     for structure.
//
// A record that every branch rejects by its predicate is read only up to the last column of the predicates.
//
// # How it is fast
//
// Producers write the members of a topic's records in the same order, record after record. After the full
// parser has read a record, the decoder keeps its layout: the literal bytes between the values, and what to do
// with each value. The next record is read by comparing these literals, and reading or skipping the values
// between them with the same routines that the parser uses. If anything differs, the next layout is tried, and
// in the end the parser reads the record from the start. A layout therefore accepts only what the parser
// accepts, with the same values; a fuzz test holds the two against each other.
package json
