// Package memory keeps keyed state in memory only. Every checkpoint writes all of it, unless nothing has
// changed since the last one: it suits state that is small, and tests. The contract and the working copy are
// the same as those of the pebble backend.
//
// # Files
//
// A checkpoint is one or more files, split between key groups when a file exceeds 64 MiB. Numbers are little
// endian:
//
//	magic "weirmem1"
//	header length (4 bytes) · header: JSON with the version and the definition of every state
//	per key group: its records (op 1 · key · value, each with its length as uvarint; see internal/table)
//	index: per key group 2 bytes group · 8 offset · 8 length · 8 xxh3 of the records
//	footer: 8 offset of the index · 8 xxh3 of header and index · magic
//
// A restore reads the sections of its own key groups only, so any number of subtasks can share a file.
package memory
