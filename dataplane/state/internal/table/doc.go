// Package table is the in-memory half of keyed state, shared by the backends: hash tables whose entries lie
// in pointer-free pages, and the freezing of their content at a barrier.
//
// # Memory
//
// An entry is a run of 64-bit words in a page of 128 entries:
//
//	word 0      tag (32 bits of the hash) · key group (16) · key length or 255 (8) · flags (8)
//	word 1      epoch of the last change (62) · dead (1) · dirty (1)
//	words 2, 3  the key, if it has at most 16 bytes; else word 2 refers to the arena
//	then        a reference into the arena per variable field
//	then        the fixed words of the value
//
// Pages, arenas and index cells hold no Go pointers, so the garbage collector looks only at one pointer per
// page. The index is extendible hashing (Fagin et al. 1979): a directory of small open-addressing segments
// which split one at a time, so that growth never rehashes a whole table in one step. The index uses the
// upper half of the hash; the key group is taken from all of it modulo the parallelism. Keys are compared
// whole: equal hashes do not make equal keys.
//
// # Freezing
//
// A Set has an epoch. A change marks its entry with the current epoch and, the first time in that epoch,
// notes its slot in the table's list of changes. Freeze starts a new epoch: whatever is dirty with an older
// epoch is frozen. The owner copies a frozen entry into the current chunk before it changes it, and walks
// the rest in quanta during EndBatch. Full chunks go into a Queue, the only thing that another goroutine
// sees. Chunks lie in the queue in the order in which they were written, so that what an abandoned
// checkpoint has left there is simply consumed first by the next one.
//
// A Set is either full (every checkpoint copies every entry; nothing is ever dirty or dead) or incremental
// (a checkpoint copies the entries that changed; a storage below holds the rest, a deleted entry stays as
// dead until the storage has heard of it, and clean entries can be evicted).
package table
