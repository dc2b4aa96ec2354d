package pebble

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the on-disk format of the databases. A database of an older one is upgraded when it is
// opened; raising it makes new checkpoints unreadable for older programs.
const formatVersion = pebble.FormatColumnarBlocks

const (
	minCache, maxCache       = 4 << 20, 128 << 20
	minMemTable, maxMemTable = 1 << 20, 16 << 20
	memTables                = 4 // of which two are common; writes wait at the last
)

// tableBytes is the size of tables on every level. A filter is one block per table: that of a table of the
// usual 128 MB is larger than what a shard of a small block cache takes, and would be read for every look-up.
// Small tables also make for small uploads after a compaction.
const tableBytes = 4 << 20

// blockBytes is the size of a table's data blocks. A key that is not in memory costs the read and the decompression of a
// block: over a state of three times the working copy, blocks of 16 KiB made events a quarter dearer. Tables are hardly
// larger for it.
const blockBytes = 4 << 10

// indexBytes is more than a table's index of its blocks takes, so that it is one block: with parts of blockBytes every
// look-up would go through one of them more.
const indexBytes = 256 << 10

// runs is how many layers of tables lie on each other, a checkpoint's or a flushed memtable's each, before a compaction
// merges them. Pebble counts every one twice.
const (
	runs   = 4
	stopAt = 6 * runs // layers at which writes wait for compactions
)

// manifestBytes is the size at which a database begins a new manifest, once enough has happened to make the old one worth
// replacing. Every checkpoint copies the manifest record by record, with a buffer for each, and uploads it: with Pebble's
// 128 MB a checkpoint of a job that has taken a thousand allocated a hundred times as much as its first.
const manifestBytes = 16 << 10

// options are those of the subtask's database. The block cache is an eighth of the working copy and a memtable
// a sixteenth, within limits: what is hot is in the working copy. Pebble takes the memtables out of the size
// of its cache, so they are added to it: a cache smaller than the memtables would hold nothing, not even the
// tables' filters.
func options(fs vfs.FS, cacheBytes int64, events *pebble.EventListener) *pebble.Options {
	memTable := min(max(cacheBytes/16, minMemTable), maxMemTable)
	o := &pebble.Options{
		FS:                          fs,
		Logger:                      logger{},
		DisableWAL:                  true,
		FormatMajorVersion:          formatVersion,
		CacheSize:                   min(max(cacheBytes/8, minCache), maxCache) + memTables*memTable,
		MemTableSize:                uint64(memTable),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       2 * runs,
		L0StopWritesThreshold:       stopAt,
		MaxOpenFiles:                256,
		MaxManifestFileSize:         manifestBytes,
		EventListener:               events,
	}
	// What is ingested is newer than any memtable; without a log it cannot wait in their queue.
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.TargetFileSizes[i] = tableBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].IndexBlockSize = indexBytes
	}
	return o
}

// readOnly are the options with which a downloaded source is read once, from end to end.
func readOnly() *pebble.Options {
	o := options(vfs.Default, 0, &pebble.EventListener{})
	o.ReadOnly = true
	o.ErrorIfNotExists = true
	return o
}

// logger drops what Pebble says: errors are returned or reported by the event listener.
type logger struct{}

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

// Fatalf must not return: Pebble calls it when its manifest and its memory no longer agree. The process ends
// and another attempt restores the state from the last checkpoint.
func (logger) Fatalf(format string, args ...any) {
	panic("pebble: " + fmt.Sprintf(format, args...))
}

// volatile is a file system on which nothing is ever synced: the state's only durable copy is uploaded.
type volatile struct{ vfs.FS }

type unsynced struct{ vfs.File }

func (unsynced) Sync() error                { return nil }
func (unsynced) SyncData() error            { return nil }
func (unsynced) SyncTo(int64) (bool, error) { return true, nil }

func wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsynced{f}, nil
}

func (v volatile) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(v.FS.Create(name, c))
}

func (v volatile) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return wrap(v.FS.OpenReadWrite(name, c, o...))
}

func (v volatile) OpenDir(name string) (vfs.File, error) { return wrap(v.FS.OpenDir(name)) }

func (v volatile) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(v.FS.ReuseForWrite(from, to, c))
}

// Unwrap lets Pebble look at the file system below.
func (v volatile) Unwrap() vfs.FS { return v.FS }
