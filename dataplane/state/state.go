// Package state is the contract of keyed state: tables of fixed-width accumulators under canonical keys,
// addressed a batch at a time, frozen in O(1) at a barrier and persisted in the background. Implementations
// live in state/memory and state/pebble; both pass the suite in state/statetest.
//
// One backend belongs to one subtask; all methods but those of Frozen are called on its goroutine.
package state

import (
	"context"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// Slot addresses an entry of a table. It is valid until the next call of Backend.EndBatch.
type Slot uint32

// KeySet is a batch of keys: key i is Bytes[Ends[i-1]:Ends[i]] with Hash[i] its batch.HashBytes. Keys may
// repeat.
type KeySet struct {
	Bytes []byte
	Ends  []int32
	Hash  []uint64
}

// Len is the number of keys.
func (k *KeySet) Len() int { return len(k.Ends) }

// Key returns key i.
func (k *KeySet) Key(i int) []byte {
	from := int32(0)
	if i > 0 {
		from = k.Ends[i-1]
	}
	return k.Bytes[from:k.Ends[i]]
}

// Reset empties k, keeping its memory.
func (k *KeySet) Reset() { k.Bytes, k.Ends, k.Hash = k.Bytes[:0], k.Ends[:0], k.Hash[:0] }

// Layout is the shape of a table's values: Words 64-bit words (zero when an entry is new), then Vars
// variable-length byte fields (empty when new).
type Layout struct{ Words, Vars int }

// Table is a map from keys to values of one layout.
type Table interface {
	// Resolve finds or creates the entry of every key and stores its slot in slots (len = keys.Len()).
	// Entries count as changed from then on. Misses are read from below in one sorted pass.
	Resolve(keys *KeySet, slots []Slot) error
	// Words returns the fixed part of an entry, writable until EndBatch.
	Words(s Slot) []uint64
	// Var returns variable field i, to be read only and until the next SetVar or EndBatch.
	Var(s Slot, i int) []byte
	// SetVar stores a copy of v.
	SetVar(s Slot, i int, v []byte)
	// Delete removes an entry; its slot must not be used again.
	Delete(s Slot)
	// Each visits every entry, in no particular order, those that are not in memory included. visit may read
	// Words and Var of the slot, which is valid during the call; it must not call Resolve.
	Each(visit func(key []byte, s Slot) error) error
}

// Buckets is time-bucketed state: one table per bucket (a window's end, say, in µs), expired whole.
type Buckets interface {
	// Bucket returns the table of bucket t, creating it.
	Bucket(t int64) (Table, error)
	// Times lists the buckets that exist, ascending. The slice is valid until the next Bucket or Drop.
	Times() []int64
	// Drop removes bucket t with all its entries.
	Drop(t int64) error
}

// Backend is the keyed state of one subtask.
type Backend interface {
	// Table opens the table called name; opened before Restore and the first batch.
	Table(name string, l Layout) (Table, error)
	// Buckets opens the time-bucketed state called name; opened before Restore and the first batch.
	Buckets(name string, l Layout) (Buckets, error)
	// EndBatch tells that the slots handed out are no longer used. The backend evicts and pays down the
	// copying of a frozen epoch here, in quanta of at most about 200 µs.
	EndBatch() error
	// Freeze fixes the content for checkpoint id in O(1). Until the Frozen is persisted or dropped, entries
	// that are touched are first copied aside. Only one Frozen may be open: Freeze waits for nothing and
	// returns an error while another is in progress.
	Freeze(id job.CheckpointID) (Frozen, error)
	// Bytes is the memory in use, for metrics.
	Bytes() int64
	Close() error
}

// Frozen is the content of a backend at a barrier.
type Frozen interface {
	// Persist writes it to files and hands every file to up, from a background goroutine. It returns the
	// state's manifest entry (Operator, Subtask left empty). On error the backend stays usable and the
	// content is carried over into the next checkpoint.
	Persist(ctx context.Context, up Uploader) (checkpoint.OperatorState, error)
	// Drop gives the checkpoint up without persisting.
	Drop()
}

// Uploader makes files durable. Implemented by the node; safe for concurrent use.
type Uploader interface {
	// Upload stores the local file at path for the checkpoint in progress and returns its manifest entry,
	// whose Local is local. If reuse names a file of an earlier checkpoint and the node may still name that
	// one again, nothing is uploaded and it is returned instead.
	Upload(ctx context.Context, path, local string, reuse *checkpoint.File) (checkpoint.File, error)
}

// Downloader fetches files of the restored manifest, verifying size and SHA-256.
type Downloader interface {
	Download(ctx context.Context, f checkpoint.File, path string) error
}

// Config is what a backend is opened with.
type Config struct {
	// Dir is an empty directory of this subtask and attempt.
	Dir            string
	KeyRange       job.KeyGroupRange
	MaxParallelism int
	// CacheBytes bounds the memory of the working copy (pebble).
	CacheBytes int64
}

// Restorer is implemented by backends: it is called once, after the tables are opened and before the first
// batch, with every manifest entry whose key groups overlap the backend's range. It takes the entries of its
// own key groups only.
type Restorer interface {
	Restore(ctx context.Context, from []checkpoint.OperatorState, down Downloader) error
}

// Pending is implemented by backends whose EndBatch copies frozen content in quanta. While Pending returns
// true, a task that has no batch to work on calls EndBatch in a loop: Persist waits for the copying.
type Pending interface {
	Pending() bool
}
