package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// Keys and values outlive versions of the program: they lie in snapshots.
//
//	key     key group (2 bytes, big endian) · state id (4) · [bucket (8, order-preserving)] · key bytes
//	value   version (1 byte) · lengths of the words (4 bits each) · words · per field: length (uvarint) · bytes
//
// A word is stored as an integer with its sign in the lowest bit, in as many bytes as it needs (0 to 8, little endian):
// counts and sums, of which most states consist, need few. In version 1 every word has its 8 bytes and there are no lengths.
// The state id is the lower half of the hash of the state's name, so that it is the same in every subtask
// and attempt.
const (
	valueVersion = 2
	plainVersion = 1 // still read
	// HeaderBytes is the length of a key's prefix of key group and state id.
	HeaderBytes = 2 + 4
	// BucketBytes is the length of the bucket in the keys of time-bucketed state.
	BucketBytes = 8
)

var errCutOff = errors.New("cut off")

// AppendHeader appends the prefix of the keys of state id in key group g.
func AppendHeader(dst []byte, g job.KeyGroup, id uint32) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(g))
	return binary.BigEndian.AppendUint32(dst, id)
}

// AppendBucket appends bucket t such that the order of bytes is the order of buckets.
func AppendBucket(dst []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(t)^1<<63)
}

// ParseBucket reverses AppendBucket on the first bytes of key.
func ParseBucket(key []byte) (t int64, rest []byte, err error) {
	if len(key) < BucketBytes {
		return 0, nil, fmt.Errorf("bucket of a key: %w", errCutOff)
	}
	return int64(binary.BigEndian.Uint64(key) ^ 1<<63), key[BucketBytes:], nil
}

// ParseHeader takes key group and state id off a key.
func ParseHeader(key []byte) (g job.KeyGroup, id uint32, rest []byte, err error) {
	if len(key) < HeaderBytes {
		return 0, 0, nil, fmt.Errorf("key of %d bytes: %w", len(key), errCutOff)
	}
	return job.KeyGroup(binary.BigEndian.Uint16(key)), binary.BigEndian.Uint32(key[2:]), key[HeaderBytes:], nil
}

// appendKey appends the whole key of an entry.
func (t *Table) appendKey(dst []byte, e []uint64) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(e[0]>>16))
	dst = append(dst, t.suffix...)
	return t.appendUserKey(dst, e)
}

func (t *Table) appendUserKey(dst []byte, e []uint64) []byte {
	n := int(e[0] >> 8 & 0xff)
	if n == arenaKey {
		return append(dst, t.arena.bytes(ref(e[2]))...)
	}
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, e[2])
	dst = binary.LittleEndian.AppendUint64(dst, e[3])
	return dst[:at+n]
}

func (t *Table) appendValue(dst []byte, e []uint64) []byte {
	dst = append(dst, valueVersion)
	dst = appendWords(dst, e[header+t.layout.Vars:])
	for i := range t.layout.Vars {
		r := ref(e[header+i])
		dst = binary.AppendUvarint(dst, uint64(r.len()))
		dst = append(dst, t.arena.bytes(r)...)
	}
	return dst
}

// appendWords appends the lengths of the words, the even one of two in the lower half of a byte, and their bytes.
func appendWords(dst []byte, words []uint64) []byte {
	at, n := len(dst), (len(words)+1)/2
	most := n + 8*len(words)
	dst = slices.Grow(dst, most)[:at+most]
	out := dst[at:]
	clear(out[:n])
	for i, w := range words {
		w = w<<1 ^ uint64(int64(w)>>63)
		size := (bits.Len64(w) + 7) / 8
		out[i/2] |= byte(size) << (i & 1 * 4)
		binary.LittleEndian.PutUint64(out[n:], w)
		n += size
	}
	return dst[:at+n]
}

// decodeValue fills a fresh entry.
func (t *Table) decodeValue(e []uint64, v []byte) error {
	if len(v) == 0 {
		return fmt.Errorf("value: %w", errCutOff)
	}
	version, v := v[0], v[1:]
	words := e[header+t.layout.Vars:]
	var err error
	switch version {
	case valueVersion:
		v, err = decodeWords(words, v)
	case plainVersion:
		v, err = decodePlainWords(words, v)
	default:
		return fmt.Errorf("value of version %d, this program reads up to version %d", version, valueVersion)
	}
	if err != nil {
		return err
	}
	for i := range t.layout.Vars {
		n, w := binary.Uvarint(v)
		if w <= 0 || n > uint64(len(v)-w) || n > maxLength {
			return fmt.Errorf("value: field %d: %w", i, errCutOff)
		}
		e[header+i] = uint64(t.arena.replace(ref(e[header+i]), v[w:w+int(n)]))
		v = v[w+int(n):]
	}
	if len(v) != 0 {
		return fmt.Errorf("value: %d bytes too many", len(v))
	}
	return nil
}

// decodeWords reverses appendWords and returns what follows.
func decodeWords(words []uint64, v []byte) (rest []byte, err error) {
	n := (len(words) + 1) / 2
	if len(v) < n {
		return nil, fmt.Errorf("lengths of %d words in %d bytes: %w", len(words), len(v), errCutOff)
	}
	sizes, v := v[:n], v[n:]
	for i := range words {
		size := int(sizes[i/2] >> (i & 1 * 4) & 15)
		if size > min(8, len(v)) {
			return nil, fmt.Errorf("word %d of %d bytes, %d are left: %w", i, size, len(v), errCutOff)
		}
		var w uint64
		if len(v) >= 8 {
			w = binary.LittleEndian.Uint64(v) & (1<<(8*size) - 1)
		} else {
			for at, b := range v[:size] {
				w |= uint64(b) << (8 * at)
			}
		}
		words[i], v = w>>1^-(w&1), v[size:]
	}
	return v, nil
}

func decodePlainWords(words []uint64, v []byte) (rest []byte, err error) {
	if len(v) < 8*len(words) {
		return nil, fmt.Errorf("%d words in %d bytes: %w", len(words), len(v), errCutOff)
	}
	for i := range words {
		words[i], v = binary.LittleEndian.Uint64(v), v[8:]
	}
	return v, nil
}

// Op is what a record of a chunk does.
type Op byte

// The operations: set Key to Value; delete Key; delete all keys in [Key, Value).
const (
	OpSet Op = iota + 1
	OpDelete
	OpDeleteRange
)

// Record is one operation of a chunk. Its bytes belong to the chunk.
type Record struct {
	Op         Op
	Key, Value []byte
}

func appendBytes(dst, v []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// Next takes the first record off a chunk: op (1 byte) · key · value, both with their length (uvarint).
func Next(chunk []byte) (r Record, rest []byte, err error) {
	if len(chunk) == 0 {
		return r, nil, fmt.Errorf("record: %w", errCutOff)
	}
	r.Op, rest = Op(chunk[0]), chunk[1:]
	if r.Op < OpSet || r.Op > OpDeleteRange {
		return r, nil, fmt.Errorf("record: unknown operation %d", r.Op)
	}
	for _, to := range []*[]byte{&r.Key, &r.Value} {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w) {
			return r, nil, fmt.Errorf("record: %w", errCutOff)
		}
		*to, rest = rest[w:w+int(n)], rest[w+int(n):]
	}
	return r, rest, nil
}

// Definition describes a state: it is stored beside the entries and compared when they are restored.
type Definition struct {
	Name           string       `json:"name"`
	Layout         state.Layout `json:"layout"`
	Bucketed       bool         `json:"bucketed"`
	MaxParallelism int          `json:"max_parallelism"`
}
