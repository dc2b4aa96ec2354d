package memory

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

const (
	magic         = "weirmem1"
	formatVersion = 1
	splitBytes    = 64 << 20
	indexEntry    = 2 + 8 + 8 + 8
	footerBytes   = 8 + 8 + len(magic)
	maxHeader     = 16 << 20
)

type fileHeader struct {
	Version int                `json:"version"`
	States  []table.Definition `json:"states"`
}

type section struct {
	group          job.KeyGroup
	offset, length uint64
	sum            uint64
}

// writer writes the files of one checkpoint.
type writer struct {
	dir         string
	id          job.CheckpointID
	definitions map[uint32]table.Definition
}

// write sorts the records of chunks by key group into files and returns their local names.
func (w *writer) write(ctx context.Context, chunks [][]byte) (locals []string, err error) {
	groups, err := byGroup(chunks)
	if err != nil {
		return nil, err
	}
	pending := slices.Sorted(maps.Keys(groups))
	for first := true; first || len(pending) > 0; first = false {
		local := fmt.Sprintf("state-%d-%d.weir", w.id, len(locals))
		locals = append(locals, local)
		n, err := w.writeFile(ctx, local, pending, groups)
		if err != nil {
			return locals, fmt.Errorf("write %s: %w", local, err)
		}
		pending = pending[n:]
	}
	return locals, nil
}

// byGroup lists the records of every key group; they are parts of chunks.
func byGroup(chunks [][]byte) (map[job.KeyGroup][][]byte, error) {
	groups := map[job.KeyGroup][][]byte{}
	for _, c := range chunks {
		for len(c) > 0 {
			r, rest, err := table.Next(c)
			if err != nil {
				return nil, err
			}
			g, _, _, err := table.ParseHeader(r.Key)
			if err != nil {
				return nil, err
			}
			groups[g] = append(groups[g], c[:len(c)-len(rest)])
			c = rest
		}
	}
	return groups, nil
}

// writeFile writes the sections of as many of pending as fit, at least one, and returns their number.
func (w *writer) writeFile(ctx context.Context, local string, pending []job.KeyGroup, groups map[job.KeyGroup][][]byte) (n int, err error) {
	f, err := os.OpenFile(filepath.Join(w.dir, local), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 256<<10)
	head, err := w.header()
	if err != nil {
		return 0, err
	}
	out.Write(head) // a bufio.Writer keeps its first error for Flush
	offset := uint64(len(head))
	var index []byte
	for n < len(pending) && (n == 0 || offset < splitBytes) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		s := writeSection(out, pending[n], offset, groups[pending[n]])
		index = appendSection(index, s)
		offset += s.length
		n++
	}
	out.Write(index)
	out.Write(footer(head, index, offset))
	return n, out.Flush()
}

func (w *writer) header() ([]byte, error) {
	h := fileHeader{Version: formatVersion}
	for _, id := range slices.Sorted(maps.Keys(w.definitions)) {
		h.States = append(h.States, w.definitions[id])
	}
	body, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	head := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(body)))
	return append(head, body...), nil
}

func writeSection(out io.Writer, g job.KeyGroup, offset uint64, records [][]byte) section {
	s := section{group: g, offset: offset}
	sum := xxh3.New()
	for _, r := range records {
		_, _ = out.Write(r) // keeps its first error for Flush
		sum.Write(r)
		s.length += uint64(len(r))
	}
	s.sum = sum.Sum64()
	return s
}

func appendSection(dst []byte, s section) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(s.group))
	dst = binary.LittleEndian.AppendUint64(dst, s.offset)
	dst = binary.LittleEndian.AppendUint64(dst, s.length)
	return binary.LittleEndian.AppendUint64(dst, s.sum)
}

func footer(head, index []byte, indexOffset uint64) []byte {
	dst := binary.LittleEndian.AppendUint64(nil, indexOffset)
	dst = binary.LittleEndian.AppendUint64(dst, checksum(head, index))
	return append(dst, magic...)
}

func checksum(head, index []byte) uint64 {
	sum := xxh3.New()
	sum.Write(head)
	sum.Write(index)
	return sum.Sum64()
}

// remove deletes staged files; one that stays behind goes with the directory.
func (w *writer) remove(locals []string) {
	for _, l := range locals {
		_ = os.Remove(filepath.Join(w.dir, l))
	}
}
