// Package batch is the unit in which records move: a columnar run of rows in Arrow's memory layout, the
// control elements that travel between runs, the canonical bytes of keys and the gather kernels.
//
// Layout follows Arrow's columnar format: validity and boolean bitmaps are least-significant-bit first,
// strings and bytes are 16-byte views (length, then either 12 inline bytes or 4 prefix bytes, buffer index
// and offset), decimals are 128-bit little-endian two's complement. Kernels are our own plain loops.
//
// A batch is built by one goroutine and is immutable once it has been handed on; its buffers may be shared
// by any number of batches. Nested values exist only as flat leaf columns named by their path ("bid.price").
package batch
