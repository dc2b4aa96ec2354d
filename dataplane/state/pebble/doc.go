// Package pebble keeps keyed state in one Pebble database per subtask, below a working copy in memory. State
// may be larger than memory, and a checkpoint uploads only what has changed.
//
// # Storage
//
// Keys and values are those of internal/table:
//
//	key     key group (2 bytes, big endian) · state id (4) · [bucket (8, order-preserving)] · key bytes
//	value   version (1 byte) · lengths of the words (4 bits each) · words · per field: length (uvarint) · bytes
//
// Key group 0xffff holds the definitions of the states, by id, as JSON. The database has no write-ahead log
// and is never synced: nothing survives a process but what is in the checkpoint's store, and a new attempt
// starts from there in a new directory.
//
// # Working copy
//
// Records are worked on in the tables of package table, bounded by Config.CacheBytes. Reads go below only for
// keys of a key group from which something was evicted (or not loaded by Restore), in one sorted pass per
// batch. EndBatch evicts clean entries by second chance. If those do not suffice, it writes dirty ones into
// the database, but never while a frozen content is being written there: until the database's checkpoint n
// exists, nothing newer than n may reach it. Meanwhile the working copy may grow to twice its bound; beyond
// that EndBatch copies the rest of the frozen content at once and waits for the database's checkpoint (not
// for the uploads). It cannot wait for a Persist that nobody has called: call it, or Drop, promptly. The database's own block cache and memtables come on top of CacheBytes.
//
// # Checkpoint
//
// Persist sorts the frozen content, in runs of 64 MiB at most, writes it into tables, which the database takes as they are
// (no memtable sees it), and makes a hard-link checkpoint. Its files are uploaded unless the store may still name the same
// file of an earlier checkpoint. A run is a layer, and so are the range deletions of dropped buckets, which go first, through
// the memtable: compactions merge what four layers have of the same keys.
// Restoring the same key groups opens the files as they are; otherwise the own key groups of every overlapping source
// are copied.
package pebble
