package memory

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/zeebo/xxh3"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/state/internal/table"
)

// localName is what Local of a file in a manifest must look like.
var localName = regexp.MustCompile(`^state-[0-9]{1,19}-[0-9]{1,9}\.weir$`)

// errDamaged says that a file is not what was written.
var errDamaged = errors.New("the file is damaged")

// Restore implements state.Restorer.
func (b *Backend) Restore(ctx context.Context, from []checkpoint.OperatorState, down state.Downloader) error {
	for _, s := range from {
		if len(s.Files) == 0 {
			continue
		}
		if s.Backend != Name {
			return fmt.Errorf("restore memory state: the checkpoint has state of backend %q: the backend of a job cannot change", s.Backend)
		}
		for _, f := range s.Files {
			if err := b.restoreFile(ctx, f, down); err != nil {
				return fmt.Errorf("restore memory state of %s[%d]: file %s (%s): %w", s.Operator, s.Subtask, f.Local, f.Name, err)
			}
		}
	}
	return nil
}

func (b *Backend) restoreFile(ctx context.Context, f checkpoint.File, down state.Downloader) error {
	if !localName.MatchString(f.Local) {
		return fmt.Errorf("local name %q is not one of this backend", f.Local)
	}
	path := filepath.Join(b.cfg.Dir, "restore-"+f.Local)
	if err := down.Download(ctx, f, path); err != nil {
		return err
	}
	defer os.Remove(path)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h, sections, err := readIndex(file)
	if err != nil {
		return err
	}
	for _, d := range h.States {
		if err := b.set.Check(d); err != nil {
			return err
		}
	}
	for _, s := range sections {
		if !b.cfg.KeyRange.Contains(s.group) {
			continue
		}
		if err := b.restoreSection(file, s); err != nil {
			return fmt.Errorf("key group %d: %w", s.group, err)
		}
	}
	return nil
}

// readIndex reads header and index and checks them.
func readIndex(f *os.File) (h fileHeader, sections []section, err error) {
	info, err := f.Stat()
	if err != nil {
		return h, nil, err
	}
	size := info.Size()
	fixed := int64(len(magic) + 4)
	if size < fixed+int64(footerBytes) {
		return h, nil, fmt.Errorf("%w: %d bytes are too few", errDamaged, size)
	}
	start, end := make([]byte, fixed), make([]byte, footerBytes)
	if _, err := f.ReadAt(start, 0); err != nil {
		return h, nil, err
	}
	if _, err := f.ReadAt(end, size-int64(footerBytes)); err != nil {
		return h, nil, err
	}
	if string(start[:len(magic)]) != magic || string(end[16:]) != magic {
		return h, nil, fmt.Errorf("%w: no magic at both ends", errDamaged)
	}
	headLen := fixed + int64(binary.LittleEndian.Uint32(start[len(magic):]))
	indexAt := binary.LittleEndian.Uint64(end)
	indexEnd := uint64(size) - uint64(footerBytes)
	if headLen > maxHeader || indexAt < uint64(headLen) || indexAt > indexEnd || (indexEnd-indexAt)%indexEntry != 0 {
		return h, nil, fmt.Errorf("%w: impossible lengths", errDamaged)
	}
	head, index := make([]byte, headLen), make([]byte, indexEnd-indexAt)
	if _, err := f.ReadAt(head, 0); err != nil {
		return h, nil, err
	}
	if _, err := f.ReadAt(index, int64(indexAt)); err != nil {
		return h, nil, err
	}
	if checksum(head, index) != binary.LittleEndian.Uint64(end[8:]) {
		return h, nil, fmt.Errorf("%w: checksum of the header", errDamaged)
	}
	if err := json.Unmarshal(head[fixed:], &h); err != nil {
		return h, nil, fmt.Errorf("header: %w", err)
	}
	if h.Version != formatVersion {
		return h, nil, fmt.Errorf("version %d, this program reads version %d", h.Version, formatVersion)
	}
	sections, err = parseSections(index, uint64(headLen), indexAt)
	return h, sections, err
}

func parseSections(index []byte, from, to uint64) (sections []section, err error) {
	for ; len(index) > 0; index = index[indexEntry:] {
		s := section{
			group:  job.KeyGroup(binary.LittleEndian.Uint16(index)),
			offset: binary.LittleEndian.Uint64(index[2:]),
			length: binary.LittleEndian.Uint64(index[10:]),
			sum:    binary.LittleEndian.Uint64(index[18:]),
		}
		if s.offset < from || s.offset > to || s.length > to-s.offset {
			return nil, fmt.Errorf("%w: key group %d lies outside", errDamaged, s.group)
		}
		sections = append(sections, s)
	}
	return sections, nil
}

func (b *Backend) restoreSection(f *os.File, s section) error {
	buf := make([]byte, s.length)
	if _, err := f.ReadAt(buf, int64(s.offset)); err != nil {
		return err
	}
	if xxh3.Hash(buf) != s.sum {
		return fmt.Errorf("%w: checksum", errDamaged)
	}
	for len(buf) > 0 {
		r, rest, err := table.Next(buf)
		if err != nil {
			return err
		}
		if g, _, _, err := table.ParseHeader(r.Key); err != nil || g != s.group || r.Op != table.OpSet {
			return fmt.Errorf("%w: a foreign record", errDamaged)
		}
		if err := b.set.Insert(r.Key, r.Value); err != nil {
			return err
		}
		buf = rest
	}
	return nil
}
