package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/format"
)

// A record batch (format v2), as brokers store and send it:
//
//	 0 base offset          int64   | 23 last offset delta  int32
//	 8 length after this    int32   | 27 first timestamp    int64 (ms)
//	12 leader epoch         int32   | 35 max timestamp      int64 (ms)
//	16 magic                int8, 2 | 43 producer id        int64
//	17 crc32c of 21…        uint32  | 51 producer epoch     int16
//	21 attributes           int16   | 53 base sequence      int32
//	                                | 57 number of records  int32
//	61 records, compressed as a whole if the codec says so:
//	   length, attributes (1 byte), timestamp delta, offset delta, key length, key, value length, value,
//	   headers; all numbers are zigzag varints and a length of −1 is a null
//
// attributes: 0–2 codec, 3 timestamps are the broker's, 4 transactional, 5 control.
const (
	batchHeader   = 61
	minRecord     = 7 // length, attributes and five varints of a byte each
	attrLogAppend = 1 << 3
	attrTx        = 1 << 4
	attrControl   = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCorrupt is wrapped by every complaint about the bytes of a batch.
var errCorrupt = errors.New("corrupt record batch")

// walker walks the batches of one partition of a fetch response in place and makes Records of them, read
// committed: control batches and those of aborted transactions only move the position. A batch that is cut
// off at the end of the response is left for the next fetch. Not safe for concurrent use.
type walker struct {
	codecs    *codecs
	split     string
	partition int32
	// src is the whole response of the partition, at how far it has been walked.
	src []byte
	at  int
	// position is the offset of the next record to hand on; end is where the split ends, or a huge number.
	// Records outside [position, end) are skipped.
	position, end int64
	// aborted holds, per producer, the first offsets of its aborted transactions, ascending, that no abort
	// marker has passed yet.
	aborted map[int64][]int64
}

// newWalker prepares to walk rp from position to end (exclusive).
func newWalker(c *codecs, split string, rp *kmsg.FetchResponseTopicPartition, position, end int64) *walker {
	w := &walker{codecs: c, split: split, partition: rp.Partition, src: rp.RecordBatches, position: position, end: end}
	for _, a := range rp.AbortedTransactions {
		if w.aborted == nil {
			w.aborted = make(map[int64][]int64)
		}
		w.aborted[a.ProducerID] = append(w.aborted[a.ProducerID], a.FirstOffset)
	}
	for _, first := range w.aborted {
		slices.Sort(first)
	}
	return w
}

// batchHead is what the walk needs of a batch's header.
type batchHead struct {
	first, last int64 // offsets
	attributes  uint16
	firstTime   int64 // ms
	maxTime     int64 // ms
	producer    int64
	count       int
	next        int // index in src after the batch
}

// head reads and checks the header at w.at. ok is false when no whole batch is left.
func (w *walker) head() (h batchHead, ok bool, err error) {
	b := w.src[w.at:]
	if len(b) < 17 {
		return h, false, nil
	}
	h.first = int64(binary.BigEndian.Uint64(b))
	n := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 12
	if n > int64(len(b)) {
		return h, false, nil
	}
	if magic := b[16]; magic != 2 {
		return h, false, w.corrupt(h.first, "format v%d is not supported: the topic holds records from before Kafka 0.11", magic)
	}
	if n < batchHeader {
		return h, false, w.corrupt(h.first, "length %d is too short", n)
	}
	if got, want := crc32.Checksum(b[21:n], castagnoli), binary.BigEndian.Uint32(b[17:]); got != want {
		return h, false, w.corrupt(h.first, "checksum is %08x, should be %08x", got, want)
	}
	h.attributes = binary.BigEndian.Uint16(b[21:])
	h.last = h.first + int64(int32(binary.BigEndian.Uint32(b[23:])))
	h.firstTime = int64(binary.BigEndian.Uint64(b[27:]))
	h.maxTime = int64(binary.BigEndian.Uint64(b[35:]))
	h.producer = int64(binary.BigEndian.Uint64(b[43:]))
	h.count = int(int32(binary.BigEndian.Uint32(b[57:])))
	h.next = w.at + int(n)
	if h.first < 0 || h.last < h.first || h.count < 0 {
		return h, false, w.corrupt(h.first, "last offset %d, %d records", h.last, h.count)
	}
	return h, true, nil
}

// next returns the records of as many batches as share one buffer: all uncompressed ones up to the next
// compressed one, or compressed ones until about limit decompressed bytes. It returns nil when the response
// is used up; w.position is then past everything in it.
func (w *walker) next(limit int) (*format.Records, error) {
	rs := &format.Records{Split: w.split, Partition: w.partition}
	inPlace := false
	for w.position < w.end {
		h, ok, err := w.head()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if h.last < w.position || w.skips(h) {
			w.pass(h)
			continue
		}
		kind := codec(h.attributes & 7)
		if len(rs.Values) > 0 && (inPlace != (kind == codecNone) || !inPlace && len(rs.Buf) >= limit) {
			return rs, nil
		}
		body := w.at + batchHeader
		stop := h.next
		if inPlace = kind == codecNone; inPlace {
			rs.Buf = w.src
		} else {
			body = len(rs.Buf)
			rs.Buf, err = w.codecs.decompress(rs.Buf, w.src[w.at+batchHeader:h.next], kind)
			if err != nil {
				return nil, w.corrupt(h.first, "%w", err)
			}
			stop = len(rs.Buf)
		}
		if err := w.read(rs, h, body, stop); err != nil {
			return nil, err
		}
		w.pass(h)
	}
	if len(rs.Values) == 0 {
		return nil, nil
	}
	return rs, nil
}

// pass moves behind the batch.
func (w *walker) pass(h batchHead) {
	w.at = h.next
	w.position = min(max(w.position, h.last+1), w.end)
}

// skips reports whether the batch holds nothing for readers of committed records, and keeps the book of
// aborted transactions.
func (w *walker) skips(h batchHead) bool {
	if h.attributes&attrControl != 0 {
		w.endTransaction(h)
		return true
	}
	if h.attributes&attrTx == 0 {
		return false
	}
	first := w.aborted[h.producer]
	return len(first) > 0 && h.first >= first[0]
}

// endTransaction notes that an abort marker closes the producer's earliest aborted transaction. A control
// record's key is a version and a type, both int16: 0 aborts, 1 commits.
func (w *walker) endTransaction(h batchHead) {
	first := w.aborted[h.producer]
	if len(first) == 0 || h.first < first[0] || h.attributes&7 != 0 {
		return
	}
	b := w.src[w.at+batchHeader : h.next]
	_, i := varint(b, 0) // length
	_, i = varint(b, i+1)
	_, i = varint(b, i)
	key, i := varint(b, i)
	if i < 0 || key < 4 || i+4 > len(b) || binary.BigEndian.Uint16(b[i+2:]) != 0 {
		return
	}
	w.aborted[h.producer] = first[1:]
}

// read appends the records of a batch, which lie in rs.Buf[i:stop].
func (w *walker) read(rs *format.Records, h batchHead, i, stop int) error {
	if h.count > (stop-i)/minRecord {
		return w.corrupt(h.first, "%d records in %d bytes", h.count, stop-i)
	}
	w.grow(rs, h)
	buf := rs.Buf[:stop]
	previous := h.first - 1
	for k := range h.count {
		length, j := varint(buf, i)
		if j < 0 || length < minRecord-1 || length > int64(stop-j) {
			return w.corrupt(h.first, "record %d: length %d", k, length)
		}
		i = j + int(length)
		rec := buf[:i]
		millis, j := varint(rec, j+1)
		delta, j := varint(rec, j)
		key, j := span(rec, j)
		value, j := span(rec, j)
		offset := h.first + delta
		if j < 0 || offset <= previous || offset > h.last {
			return w.corrupt(h.first, "record %d is malformed", k)
		}
		previous = offset
		if offset < w.position {
			continue
		}
		if offset >= w.end {
			return nil
		}
		millis += h.firstTime
		if h.attributes&attrLogAppend != 0 {
			millis = h.maxTime
		}
		if key.Len >= 0 && rs.Keys == nil {
			rs.Keys = nullKeys(len(rs.Values), cap(rs.Values))
		}
		if rs.Keys != nil {
			rs.Keys = append(rs.Keys, key)
		}
		rs.Values = append(rs.Values, value)
		rs.Times = append(rs.Times, millis*1000)
		rs.Offsets = append(rs.Offsets, offset)
	}
	if i != stop {
		return w.corrupt(h.first, "%d bytes after the last record", stop-i)
	}
	return nil
}

// grow makes room for the records of a batch, and with the first of a response's batches for about as many as will
// come if the others are like it.
func (w *walker) grow(rs *format.Records, h batchHead) {
	n := h.count
	if len(rs.Values) == 0 && h.attributes&7 == 0 {
		n += n * (len(w.src) - h.next) / (h.next - w.at) * 17 / 16
	}
	rs.Values = slices.Grow(rs.Values, n)
	rs.Times = slices.Grow(rs.Times, n)
	rs.Offsets = slices.Grow(rs.Offsets, n)
}

// nullKeys are the keys of n records before the first that has one.
func nullKeys(n, room int) []format.Span {
	keys := make([]format.Span, n, room)
	for i := range keys {
		keys[i].Len = -1
	}
	return keys
}

func (w *walker) corrupt(offset int64, f string, args ...any) error {
	return fmt.Errorf("%s: %w at offset %d: %w", w.split, errCorrupt, offset, fmt.Errorf(f, args...))
}

// span reads a length and passes that many bytes of b, which it returns as a span. The index is −1 if they
// are not there.
func span(b []byte, i int) (format.Span, int) {
	n, i := varint(b, i)
	if n < 0 {
		return format.Span{Off: 0, Len: -1}, i
	}
	if i < 0 || n > int64(len(b)-i) {
		return format.Span{}, -1
	}
	return format.Span{Off: int32(i), Len: int32(n)}, i + int(n)
}

// varint reads a zigzag varint of b at i and returns the index behind it, or −1. An index of −1 stays −1, so
// that a run of reads needs one check at its end.
func varint(b []byte, i int) (int64, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return int64(b[i]>>1) ^ -int64(b[i]&1), i + 1
	}
	return varintLong(b, i)
}

// varintLong reads what is longer than a byte; lengths and deltas mostly have two.
func varintLong(b []byte, i int) (int64, int) {
	if uint(i) < uint(len(b)) && uint(i+1) < uint(len(b)) && b[i+1] < 0x80 {
		u := uint64(b[i]&0x7f) | uint64(b[i+1])<<7
		return int64(u>>1) ^ -int64(u&1), i + 2
	}
	if i < 0 || i >= len(b) {
		return 0, -1
	}
	v, n := binary.Varint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}
