// Package snapshot is the contract of the durable store of checkpoints: a flat space of immutable objects
// with create-if-absent, and the names of the objects in it. Implementations live in snapshot/s3 and
// snapshot/file, the in-memory twin in snapshottest; all pass the suite in snapshottest.
package snapshot

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound is returned by Get and Open for a key that does not exist.
var ErrNotFound = errors.New("object not found")

// ErrExists is returned by Create when the key already holds an object (another writer was first, or our
// own lost reply): read it and obey.
var ErrExists = errors.New("object exists")

// Object is one entry of a listing.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Store is a bucket with a prefix. Keys are relative, '/'-separated, and made only by this package's Names.
// All methods may be called concurrently. Reads and listings see every completed write (strong consistency).
// Errors wrap the operation and the key; those without a class are retryable.
type Store interface {
	// Create writes body at key if and only if nothing stands there (If-None-Match: *), else ErrExists. It
	// is durable when it returns. A failed call may or may not have written.
	Create(ctx context.Context, key string, body []byte) error
	// Put writes or overwrites; only for objects whose content does not depend on who writes (markers,
	// tombstones).
	Put(ctx context.Context, key string, body []byte) error
	// Upload creates key from a local file of known size and SHA-256 (hexadecimal), verified by the store
	// where it can. ErrExists when the key is taken.
	Upload(ctx context.Context, key, path string, size int64, sha256 string) error
	// Get returns the whole object, at most limit bytes (more is an error).
	Get(ctx context.Context, key string, limit int64) ([]byte, error)
	// Open streams the object; the caller closes it.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// List returns the objects whose keys begin with prefix, sorted by key.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Delete removes the objects; a missing one is no error.
	Delete(ctx context.Context, keys ...string) error
	// String names the store for messages, without secrets: s3://bucket/prefix.
	String() string
}
