package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// Source reads the lines of files. It implements connector.Source and is safe for concurrent use.
type Source struct {
	path      string
	chunkSize int
	maxLine   int
}

var _ connector.Source = (*Source)(nil)

// Bounds of what is read at a time and of a line, in bytes.
const (
	chunkSize = 1 << 20
	maxLine   = 256 << 20
)

// NewSource returns a source of the file, of the files in the directory (not below), or of the files that match
// the pattern (see filepath.Match) path.
func NewSource(path string) *Source {
	return &Source{path: path, chunkSize: chunkSize, maxLine: maxLine}
}

// Resolve implements connector.Source. A path that names no file is a fatal error.
func (s *Source) Resolve(context.Context) ([]connector.Split, error) {
	paths, err := s.find()
	if err != nil {
		return nil, fmt.Errorf("files: resolve %q: %w", s.path, classify(err))
	}
	if len(paths) == 0 {
		return nil, job.AsFatal(fmt.Errorf("files: %q names no file", s.path))
	}
	splits := make([]connector.Split, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("files: resolve: %w", classify(err))
		}
		splits[i] = connector.Split{ID: path, End: info.Size()}
	}
	return splits, nil
}

// find lists the regular files that the path means, sorted.
func (s *Source) find() ([]string, error) {
	pattern := s.path
	info, err := os.Stat(s.path)
	switch {
	case err == nil && !info.IsDir():
		return []string{filepath.Clean(s.path)}, nil
	case err == nil:
		return regularFiles(s.path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, job.AsFatal(err)
	}
	var paths []string
	for _, m := range matches {
		info, err := os.Stat(m)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() && !hidden(filepath.Base(m)) {
			paths = append(paths, m)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

func regularFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if e.Type().IsRegular() && !hidden(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

func hidden(name string) bool { return name[0] == '.' || name[0] == '_' }

// Owner implements connector.Source.
func (s *Source) Owner(id string, p int) int {
	return int(batch.HashBytes([]byte(id)) % uint64(max(p, 1)))
}

// Open implements connector.Source.
func (s *Source) Open(_ context.Context, _, _ int, splits []connector.Split) (connector.Reader, error) {
	r := &reader{
		source: s, fetches: make(chan connector.Fetch, waiting),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	for _, split := range splits {
		if split.Position < 0 || split.End < 0 {
			return nil, job.AsFatal(fmt.Errorf("files: split %q from %d to %d is none of ours", split.ID, split.Position, split.End))
		}
		if !split.Done() {
			r.splits = append(r.splits, split)
		}
	}
	go r.run()
	return r, nil
}

// classify marks errors that no repetition heals.
func classify(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return job.AsFatal(err)
	}
	return err
}
