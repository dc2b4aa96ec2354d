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
	minCache, maxCache       = 1 << 20, 64 << 20
	minMemTable, maxMemTable = 1 << 20, 32 << 20
)

// options are those of the subtask's database. Block cache and memtables are an eighth of the working copy,
// within limits: what is hot is in the working copy.
func options(cacheBytes int64, failed func(error), works func()) *pebble.Options {
	o := &pebble.Options{
		FS:                          volatile{vfs.Default},
		Logger:                      logger{},
		DisableWAL:                  true,
		FormatMajorVersion:          formatVersion,
		CacheSize:                   min(max(cacheBytes/8, minCache), maxCache),
		MemTableSize:                uint64(min(max(cacheBytes/8, minMemTable), maxMemTable)),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		MaxOpenFiles:                256,
		EventListener: &pebble.EventListener{
			BackgroundError: failed,
			DataCorruption:  func(i pebble.DataCorruptionInfo) { failed(fmt.Errorf("%s", i)) },
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					works()
				}
			},
		},
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 16 << 10
	}
	return o
}

// readOnly are the options with which a downloaded source is read once, from end to end.
func readOnly() *pebble.Options {
	o := options(0, func(error) {}, func() {})
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
