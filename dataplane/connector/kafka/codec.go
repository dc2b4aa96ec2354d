package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// errTooLarge says that a batch would decompress to more than is allowed.
var errTooLarge = errors.New("decompresses to more than the limit")

// codec is the compression of a record batch, the lowest three bits of its attributes.
type codec uint8

const (
	codecNone codec = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// codecs decompresses batches, never to more than max bytes each. It is safe for concurrent use.
type codecs struct {
	max  int
	gzip sync.Pool // *gzip.Reader
	lz4  sync.Pool // *lz4.Reader
	zstd sync.Pool // *zstd.Decoder; one goroutine each, none in the background
}

func newCodecs(limit int) *codecs { return &codecs{max: limit} }

// decompress appends the decompressed src to dst.
func (c *codecs) decompress(dst, src []byte, kind codec) ([]byte, error) {
	switch kind {
	case codecNone:
		return append(dst, src...), nil
	case codecGzip:
		return c.unGzip(dst, src)
	case codecSnappy:
		return c.unSnappy(dst, src)
	case codecLZ4:
		r, _ := c.lz4.Get().(*lz4.Reader)
		if r == nil {
			r = lz4.NewReader(nil)
		}
		defer c.lz4.Put(r)
		r.Reset(bytes.NewReader(src))
		return c.drain(dst, r)
	case codecZstd:
		return c.unZstd(dst, src)
	}
	return dst, fmt.Errorf("unknown compression codec %d", kind)
}

func (c *codecs) unGzip(dst, src []byte) ([]byte, error) {
	r, _ := c.gzip.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	defer c.gzip.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return dst, err
	}
	return c.drain(dst, r)
}

func (c *codecs) unZstd(dst, src []byte) ([]byte, error) {
	d, _ := c.zstd.Get().(*zstd.Decoder)
	if d == nil {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(c.max)))
		if err != nil {
			return dst, err
		}
	}
	defer c.zstd.Put(d)
	// A destination of its own would count against the decoder's limit if it already held something.
	out, err := d.DecodeAll(src, dst[len(dst):])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(out) > c.max {
		return dst, errTooLarge
	}
	if err != nil {
		return dst, err
	}
	return append(dst, out...), nil
}

// drain appends all of r, up to the limit.
func (c *codecs) drain(dst []byte, r io.Reader) ([]byte, error) {
	start := len(dst)
	for {
		if cap(dst)-len(dst) < 512 {
			dst = append(dst, make([]byte, max(4096, cap(dst)))...)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > c.max {
			return dst[:start], errTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst[:start], err
		}
	}
}

// xerial is the frame that Java producers put around snappy blocks: a 16-byte header, then blocks of a
// 4-byte big-endian length and a plain snappy block.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func (c *codecs) unSnappy(dst, src []byte) ([]byte, error) {
	if !bytes.HasPrefix(src, xerial) {
		return c.snappyBlock(dst, src, c.max)
	}
	if len(src) < 16 {
		return dst, errors.New("snappy: header cut off")
	}
	start := len(dst)
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 {
			return dst[:start], errors.New("snappy: block length cut off")
		}
		n := binary.BigEndian.Uint32(src)
		if src = src[4:]; uint64(n) > uint64(len(src)) {
			return dst[:start], errors.New("snappy: block cut off")
		}
		var err error
		if dst, err = c.snappyBlock(dst, src[:n], c.max-(len(dst)-start)); err != nil {
			return dst[:start], err
		}
		src = src[n:]
	}
	return dst, nil
}

func (c *codecs) snappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	if n > limit {
		return dst, errTooLarge
	}
	start := len(dst)
	if cap(dst)-start < n {
		dst = append(dst, make([]byte, n)...)
	}
	out, err := s2.Decode(dst[start:start+n:start+n], src)
	if err != nil {
		return dst[:start], err
	}
	if n > 0 && &out[0] != &dst[:start+n][start] {
		copy(dst[start:start+n], out)
	}
	return dst[:start+n], nil
}
