package table

import (
	"encoding/binary"
	"math/bits"
)

// Ref refers to bytes in an arena: page (20 bits), offset (16), length (28). Zero is the empty value.
type ref uint64

const (
	arenaPage = 64 << 10
	maxLength = 1<<28 - 1
	maxPages  = 1 << 20
	// Blocks up to smallBlock are rounded up to 16 bytes, larger ones to an eighth of a power of two.
	smallBlock = 1024
)

func makeRef(page, offset, length int) ref {
	return ref(uint64(page)<<44 | uint64(offset)<<28 | uint64(length))
}

func (r ref) page() int   { return int(r >> 44) }
func (r ref) offset() int { return int(r>>28) & (arenaPage - 1) }
func (r ref) len() int    { return int(r & maxLength) }

// arena holds keys and variable fields. Freed blocks are used again by blocks of the same size; when less
// than half of the arena is in use, compaction moves what is left, a quantum at a time.
type arena struct {
	pages []arenaBlock
	spare []int // numbers of pages that are gone
	cur   int   // page that is being filled, -1 for none
	fill  int
	// free[class] is the first block of a list; the next one is noted in the block's first eight bytes.
	free map[int]ref
	live int64 // bytes of blocks in use
	// used adds up live over the arenas of a set.
	used *int64
	size int64 // bytes of pages
}

type arenaBlock struct {
	bytes []byte
	old   bool // being compacted: nothing is placed here any more
}

func newArena(used *int64) arena { return arena{cur: -1, free: map[int]ref{}, used: used} }

func (a *arena) count(n int64) {
	a.live += n
	*a.used += n
}

// blockSize is the size that is set aside for n bytes.
func blockSize(n int) int {
	step := 16
	if n > smallBlock {
		step = 1 << (bits.Len(uint(n-1)) - 4)
	}
	return (n + step - 1) &^ (step - 1)
}

func (a *arena) bytes(r ref) []byte {
	if r == 0 {
		return nil
	}
	from, to := r.offset(), r.offset()+r.len()
	return a.pages[r.page()].bytes[from:to:to]
}

// store copies v into the arena.
func (a *arena) store(v []byte) ref {
	if len(v) == 0 {
		return 0
	}
	if len(v) > maxLength {
		panic("state table: a key or field is longer than 256 MiB")
	}
	r := a.alloc(len(v))
	copy(a.pages[r.page()].bytes[r.offset():], v)
	return r
}

// replace stores v where r was, in place if the block fits.
func (a *arena) replace(r ref, v []byte) ref {
	if r != 0 && len(v) != 0 && blockSize(len(v)) == blockSize(r.len()) {
		r = makeRef(r.page(), r.offset(), len(v))
		copy(a.pages[r.page()].bytes[r.offset():], v)
		return r
	}
	a.release(r)
	return a.store(v)
}

func (a *arena) alloc(n int) ref {
	size := blockSize(n)
	a.count(int64(size))
	if size > arenaPage {
		return makeRef(a.addPage(size), 0, n)
	}
	if head, ok := a.free[size]; ok {
		block := a.pages[head.page()].bytes[head.offset():]
		if next := ref(binary.LittleEndian.Uint64(block)); next != 0 {
			a.free[size] = next
		} else {
			delete(a.free, size)
		}
		return makeRef(head.page(), head.offset(), n)
	}
	if a.cur < 0 || a.fill+size > len(a.pages[a.cur].bytes) {
		a.cur, a.fill = a.addPage(a.nextPage(size)), 0
	}
	r := makeRef(a.cur, a.fill, n)
	a.fill += size
	return r
}

// nextPage lets the pages of a small arena be small: a table of a few keys is cheap.
func (a *arena) nextPage(size int) int {
	return max(size, min(arenaPage, max(1024, 1<<bits.Len64(uint64(a.size)))))
}

func (a *arena) addPage(size int) int {
	a.size += int64(size)
	block := arenaBlock{bytes: make([]byte, size)}
	if n := len(a.spare); n > 0 {
		at := a.spare[n-1]
		a.spare = a.spare[:n-1]
		a.pages[at] = block
		return at
	}
	if len(a.pages) == maxPages {
		panic("state table: an arena is full (64 GiB)")
	}
	a.pages = append(a.pages, block)
	return len(a.pages) - 1
}

func (a *arena) release(r ref) {
	if r == 0 {
		return
	}
	size := blockSize(r.len())
	a.count(-int64(size))
	p := &a.pages[r.page()]
	switch {
	case size > arenaPage:
		a.dropPage(r.page())
	case !p.old:
		binary.LittleEndian.PutUint64(p.bytes[r.offset():], uint64(a.free[size]))
		a.free[size] = makeRef(r.page(), r.offset(), size)
	}
}

func (a *arena) dropPage(at int) {
	a.size -= int64(len(a.pages[at].bytes))
	a.pages[at] = arenaBlock{}
	a.spare = append(a.spare, at)
}

// wasteful reports whether compaction is worth its while.
func (a *arena) wasteful() bool { return a.size > 1<<20 && a.live < a.size/2 }

// beginCompaction marks the present pages: move empties them, endCompaction gives them back.
func (a *arena) beginCompaction() {
	for i := range a.pages {
		if b := a.pages[i].bytes; b != nil && len(b) <= arenaPage {
			a.pages[i].old = true
		}
	}
	a.cur = -1
	clear(a.free)
}

// move takes r out of a marked page.
func (a *arena) move(r ref) ref {
	if r == 0 || !a.pages[r.page()].old {
		return r
	}
	v := a.bytes(r)
	a.count(-int64(blockSize(r.len())))
	return a.store(v)
}

func (a *arena) endCompaction() {
	for i := range a.pages {
		if a.pages[i].old {
			a.dropPage(i)
		}
	}
}
