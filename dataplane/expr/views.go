package expr

import (
	"unsafe"

	"github.com/weirstream/weir/dataplane/batch"
)

// viewWords shows views as pairs of words. A View is 16 bytes; Go aligns it to 4 only, but the allocator
// aligns slices of it to 8 at least, and the platforms that Weir runs on read unaligned words anyway.
func viewWords(v []batch.View) [][2]uint64 {
	return unsafe.Slice((*[2]uint64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}
