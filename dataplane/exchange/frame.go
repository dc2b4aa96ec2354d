package exchange

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/weirstream/weir/dataplane/job"
)

// frameType says what a frame carries.
type frameType uint8

const (
	helloFrame     frameType = iota + 1 // hello
	welcomeFrame                        // nothing
	refuseFrame                         // refusal
	heartbeatFrame                      // nothing
	batchFrame                          // batch.AppendBatch
	barrierFrame                        // checkpoint.Barrier
	endFrame                            // nothing
	creditFrame                         // grants
	announceFrame                       // checkpoint.Barrier
	goodbyeFrame                        // goodbye
	declineFrame                        // decline
	lastFrame      = declineFrame
)

const (
	magic        = 'W' | 'E'<<8 | 'I'<<16 | 'R'<<24
	wireVersion  = 1
	headerSize   = 56
	checksumAt   = 48
	maxControl   = 64 << 10 // bytes of payload, all frames but batches
	maxBatch     = 16 << 20 // bytes of payload of a batch frame
	maxChannelID = 1 << 20  // edges and subtasks of a job
)

// header is a decoded frame header; see the package documentation.
type header struct {
	typ      frameType
	tag      uint64
	attempt  job.Attempt
	channel  job.Channel
	length   int
	seq      uint64
	checksum uint32
}

// inChannel reports whether frames of the type belong to a channel and are numbered within it.
func (t frameType) inChannel() bool { return t == batchFrame || t == barrierFrame || t == endFrame }

func (t frameType) limit() int {
	if t == batchFrame {
		return maxBatch
	}
	return maxControl
}

// uidTag is how frames name a uid.
func uidTag(uid job.UID) uint64 { return xxh3.HashString(string(uid)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// reserveHeader appends room for a header to an empty dst; the payload follows, then seal.
func reserveHeader(dst []byte) []byte {
	var zero [headerSize]byte
	return append(dst[:0], zero[:]...)
}

// seal writes the header of the frame whose payload stands behind the room for it. Length and checksum of h
// are taken from frame.
func seal(frame []byte, h header) {
	le := binary.LittleEndian
	le.PutUint32(frame, magic)
	frame[4], frame[5], frame[6], frame[7] = wireVersion, byte(h.typ), 0, 0
	le.PutUint64(frame[8:], h.tag)
	le.PutUint64(frame[16:], uint64(h.attempt))
	le.PutUint32(frame[24:], uint32(h.channel.Edge))
	le.PutUint32(frame[28:], uint32(h.channel.From))
	le.PutUint32(frame[32:], uint32(h.channel.To))
	le.PutUint32(frame[36:], uint32(len(frame)-headerSize))
	le.PutUint64(frame[40:], h.seq)
	le.PutUint64(frame[checksumAt:], 0)
	le.PutUint32(frame[checksumAt:], crc32.Checksum(frame, castagnoli))
}

// parseHeader checks everything that can be checked without the payload.
func parseHeader(b *[headerSize]byte) (header, error) {
	le := binary.LittleEndian
	if m := le.Uint32(b[:]); m != magic {
		return header{}, fmt.Errorf("frame: magic %#x, want %#x: the peer does not speak this protocol", m, uint32(magic))
	}
	if b[4] != wireVersion {
		return header{}, fmt.Errorf("frame: version %d, want %d", b[4], wireVersion)
	}
	h := header{
		typ:     frameType(b[5]),
		tag:     le.Uint64(b[8:]),
		attempt: job.Attempt(le.Uint64(b[16:])),
		seq:     le.Uint64(b[40:]), checksum: le.Uint32(b[checksumAt:]),
	}
	if h.typ < helloFrame || h.typ > lastFrame {
		return header{}, fmt.Errorf("frame: unknown type %d", h.typ)
	}
	if le.Uint16(b[6:]) != 0 || le.Uint32(b[52:]) != 0 {
		return header{}, fmt.Errorf("frame: reserved bytes are not zero")
	}
	edge, from, to := le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:])
	if max(edge, from, to) > maxChannelID {
		return header{}, fmt.Errorf("frame: no such channel %d:%d→%d", edge, from, to)
	}
	h.channel = job.Channel{Edge: int(edge), From: int(from), To: int(to)}
	length := le.Uint32(b[36:])
	if limit := h.typ.limit(); length > uint32(limit) {
		return header{}, fmt.Errorf("frame: %d bytes of payload, at most %d are allowed", length, limit)
	}
	h.length = int(length)
	return h, nil
}

// frameReader reads the frames of one connection.
type frameReader struct {
	r io.Reader
	// want, once set, is what every header must say; before, only control frames are accepted.
	want    *job.Ref
	tag     uint64
	head    [headerSize]byte
	scratch []byte // payload of the last control frame
}

func (f *frameReader) expect(ref job.Ref) { f.want, f.tag = &ref, uidTag(ref.UID) }

// next returns the next frame. The payload of a batch is the caller's; that of another frame is valid until
// the next call. At the end of the stream the error is io.EOF, within a frame io.ErrUnexpectedEOF.
func (f *frameReader) next() (header, []byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return header{}, nil, err
	}
	h, err := parseHeader(&f.head)
	if err != nil {
		return header{}, nil, err
	}
	if f.want == nil && h.typ == batchFrame {
		return header{}, nil, fmt.Errorf("frame: a batch before the handshake")
	}
	if f.want != nil && (h.tag != f.tag || h.attempt != f.want.Attempt) {
		return header{}, nil, fmt.Errorf("frame: of attempt %d, uid tag %x; the connection is attempt %s's", h.attempt, h.tag, *f.want)
	}
	payload, err := f.payload(h)
	if err != nil {
		return header{}, nil, err
	}
	clear(f.head[checksumAt : checksumAt+4])
	sum := crc32.Update(crc32.Checksum(f.head[:], castagnoli), castagnoli, payload)
	if sum != h.checksum {
		return header{}, nil, fmt.Errorf("frame: checksum %08x, want %08x", sum, h.checksum)
	}
	return h, payload, nil
}

func (f *frameReader) payload(h header) ([]byte, error) {
	if h.length == 0 {
		return nil, nil
	}
	var b []byte
	if h.typ == batchFrame {
		b = make([]byte, h.length) // decoded batches keep pointing into it
	} else {
		if cap(f.scratch) < h.length {
			f.scratch = make([]byte, h.length)
		}
		b = f.scratch[:h.length]
	}
	if _, err := io.ReadFull(f.r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}
