package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// waiting is the number of fetches that wait for the consumer.
const waiting = 2

// reader reads its files in turns, a chunk at a time, so that their event times advance together. A file is open
// only while a chunk of it is read: their number is not limited.
type reader struct {
	source  *Source
	splits  []connector.Split
	fetches chan connector.Fetch
	once    sync.Once
	closing chan struct{}
	closed  chan struct{}
}

// Fetches implements connector.Reader.
func (r *reader) Fetches() <-chan connector.Fetch { return r.fetches }

// Committed implements connector.Reader: nobody outside watches the positions.
func (r *reader) Committed([]connector.Split) {}

// Close implements connector.Reader.
func (r *reader) Close() error {
	r.once.Do(func() { close(r.closing) })
	<-r.closed
	return nil
}

func (r *reader) run() {
	defer close(r.closed)
	defer close(r.fetches)
	for len(r.splits) > 0 {
		open := r.splits[:0]
		for _, split := range r.splits {
			f := r.source.fetch(split)
			select {
			case r.fetches <- f:
			case <-r.closing:
				return
			}
			if f.Err != nil {
				return
			}
			if !f.Split.Done() {
				open = append(open, f.Split)
			}
		}
		r.splits = open
	}
}

// fetch reads the next lines of split.
func (s *Source) fetch(split connector.Split) connector.Fetch {
	rs, next, err := s.read(split)
	if err != nil {
		return connector.Fetch{Split: split, Lag: -1, Err: fmt.Errorf("files: read %s at byte %d: %w", split.ID, split.Position, err)}
	}
	split.Position = next
	f := connector.Fetch{Split: split, Records: rs, Lag: -1}
	if split.Done() {
		f.Lag = 0
	}
	return f
}

// read reads a chunk, or as much more as one line needs, and returns its lines and the position behind them.
func (s *Source) read(split connector.Split) (*format.Records, int64, error) {
	file, err := os.Open(split.ID)
	if err != nil {
		return nil, 0, classify(err)
	}
	defer file.Close() // only read
	var buf []byte
	for size := s.chunkSize; ; size = min(2*size, s.maxLine) {
		want := int(min(int64(size), split.End-split.Position))
		from := len(buf)
		buf = append(make([]byte, 0, want), buf...)[:want]
		n, err := file.ReadAt(buf[from:], split.Position+int64(from))
		if n < want-from {
			if errors.Is(err, io.EOF) {
				return nil, 0, job.AsFatal(fmt.Errorf("the file has %d bytes, it had %d when the job began", split.Position+int64(from+n), split.End))
			}
			return nil, 0, err
		}
		if split.Position+int64(want) < split.End {
			end := bytes.LastIndexByte(buf[from:], '\n')
			if end < 0 {
				if size >= s.maxLine {
					return nil, 0, job.AsFatal(fmt.Errorf("a line is longer than %d bytes", s.maxLine))
				}
				continue
			}
			buf = buf[: from+end+1 : from+end+1]
		}
		return lines(buf, split), split.Position + int64(len(buf)), nil
	}
}

// lines finds the lines of buf, the part of the split at its position.
func lines(buf []byte, split connector.Split) *format.Records {
	n := bytes.Count(buf, newline) + 1
	rs := &format.Records{Buf: buf, Values: make([]format.Span, 0, n), Offsets: make([]int64, 0, n), Split: split.ID}
	for from := 0; from < len(buf); {
		next, end := len(buf), len(buf)
		if i := bytes.IndexByte(buf[from:], '\n'); i >= 0 {
			end = from + i
			next = end + 1
		}
		if end > from && buf[end-1] == '\r' {
			end--
		}
		if end > from {
			rs.Values = append(rs.Values, format.Span{Off: int32(from), Len: int32(end - from)})
			rs.Offsets = append(rs.Offsets, split.Position+int64(from))
		}
		from = next
	}
	return rs
}

var newline = []byte{'\n'}
