package table

import "github.com/weirstream/weir/dataplane/state"

// The index is a directory of segments; the top depth bits of a tag select the directory's cell. A segment
// is an open-addressing table with linear probing whose home position is taken from the tag's low bits.
// Segments grow by doubling to segmentCells, then split in two.
const (
	minCells     = 16
	segmentCells = 1024
	// maxDepth bounds the directory; a segment that cannot split any more (a million keys of one tag
	// prefix) doubles instead.
	maxDepth = 20
)

// A cell is tag<<32 | slot+1; zero is free.
type segment struct {
	cells []uint64
	depth uint8
	used  int
}

type index struct {
	dir   []uint32
	depth uint8
	segs  []segment
	cells int // sum of len(cells), for the accounting
}

func newIndex() index {
	return index{dir: []uint32{0}, segs: []segment{{cells: make([]uint64, minCells)}}, cells: minCells}
}

// segment returns the cells in which tag lies or would lie. There is always a free one among them.
func (x *index) segment(tag uint32) []uint64 {
	return x.segs[x.dir[tag>>(32-x.depth)]].cells
}

// insert adds a tag that find has not found.
func (x *index) insert(tag uint32, s state.Slot) {
	at := x.dir[tag>>(32-x.depth)]
	for x.segs[at].used+1 > len(x.segs[at].cells)*3/4 {
		x.grow(at)
		at = x.dir[tag>>(32-x.depth)]
	}
	seg := &x.segs[at]
	seg.put(uint64(tag)<<32 | uint64(s) + 1)
	seg.used++
}

func (g *segment) put(cell uint64) {
	mask := uint32(len(g.cells) - 1)
	i := uint32(cell>>32) & mask
	for g.cells[i] != 0 {
		i = (i + 1) & mask
	}
	g.cells[i] = cell
}

// grow doubles or splits segment at.
func (x *index) grow(at uint32) {
	old := x.segs[at].cells
	if len(old) < segmentCells || x.segs[at].depth == maxDepth {
		seg := &x.segs[at]
		seg.cells = make([]uint64, 2*len(old))
		x.cells += len(old)
		for _, c := range old {
			if c != 0 {
				seg.put(c)
			}
		}
		return
	}
	x.split(at)
}

func (x *index) split(at uint32) {
	if x.segs[at].depth == x.depth {
		dir := make([]uint32, 2*len(x.dir))
		for i, s := range x.dir {
			dir[2*i], dir[2*i+1] = s, s
		}
		x.dir, x.depth = dir, x.depth+1
	}
	old, depth := x.segs[at].cells, x.segs[at].depth+1
	halves := [2]segment{
		{cells: make([]uint64, segmentCells), depth: depth},
		{cells: make([]uint64, segmentCells), depth: depth},
	}
	var prefix uint32
	for _, c := range old {
		if c == 0 {
			continue
		}
		prefix = uint32(c>>32) >> (33 - depth)
		h := &halves[uint32(c>>32)>>(32-depth)&1]
		h.put(c)
		h.used++
	}
	x.cells += 2*segmentCells - len(old)
	right := uint32(len(x.segs))
	x.segs[at] = halves[0]
	x.segs = append(x.segs, halves[1])
	// The directory's cells of the right half: those whose top bits are prefix and a one.
	width := uint32(1) << (x.depth - depth)
	from := (prefix<<1 | 1) * width
	for i := from; i < from+width; i++ {
		x.dir[i] = right
	}
}

// remove takes the cell of s out and closes the gap, so that no tombstones gather.
func (x *index) remove(tag uint32, s state.Slot) {
	seg := &x.segs[x.dir[tag>>(32-x.depth)]]
	mask := uint32(len(seg.cells) - 1)
	cell := uint64(tag)<<32 | uint64(s) + 1
	i := tag & mask
	for seg.cells[i] != cell {
		if seg.cells[i] == 0 {
			panic("state table: an entry is not in its index")
		}
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; seg.cells[j] != 0; j = (j + 1) & mask {
		// The cell at j may move to the gap at i unless its home lies cyclically in (i, j].
		if home := uint32(seg.cells[j]>>32) & mask; (j-home)&mask >= (j-i)&mask {
			seg.cells[i] = seg.cells[j]
			i = j
		}
	}
	seg.cells[i] = 0
	seg.used--
}
