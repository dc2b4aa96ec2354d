package statetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sync"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/state"
)

// Store implements state.Uploader and state.Downloader in memory. Safe for concurrent use.
type Store struct {
	mu struct {
		sync.Mutex
		objects  map[string][]byte
		fail     func(local string) error
		uploaded []string // local names, in order
		bytes    int64
		reused   int
	}
}

var (
	_ state.Uploader   = (*Store)(nil)
	_ state.Downloader = (*Store)(nil)
)

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{}
	s.mu.objects = map[string][]byte{}
	return s
}

// Upload implements state.Uploader. A file to reuse is reused if the store has it.
func (s *Store) Upload(ctx context.Context, path, local string, reuse *checkpoint.File) (checkpoint.File, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.File{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.fail != nil {
		if err := s.mu.fail(local); err != nil {
			return checkpoint.File{}, err
		}
	}
	if reuse != nil && s.mu.objects[reuse.Name] != nil {
		s.mu.reused++
		return *reuse, nil
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return checkpoint.File{}, err
	}
	sum := sha256.Sum256(body)
	f := checkpoint.File{Local: local, Size: int64(len(body)), SHA256: hex.EncodeToString(sum[:])}
	f.Name = fmt.Sprintf("shared/1-%d-%s", len(s.mu.objects), f.SHA256)
	s.mu.objects[f.Name] = body
	s.mu.uploaded = append(s.mu.uploaded, local)
	s.mu.bytes += f.Size
	return f, nil
}

// Download implements state.Downloader.
func (s *Store) Download(_ context.Context, f checkpoint.File, path string) error {
	s.mu.Lock()
	body, ok := s.mu.objects[f.Name]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("download %s: no such object", f.Name)
	}
	if sum := sha256.Sum256(body); int64(len(body)) != f.Size || hex.EncodeToString(sum[:]) != f.SHA256 {
		return fmt.Errorf("download %s: size or digest differs from the manifest", f.Name)
	}
	return os.WriteFile(path, body, 0o640)
}

// FailUploads makes Upload return what fail returns for a file, until it is called with nil.
func (s *Store) FailUploads(fail func(local string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fail = fail
}

// Corrupt changes the object of f by edit and returns f with the digest and size of the result, as if the
// store itself could not tell.
func (s *Store) Corrupt(f checkpoint.File, edit func(body []byte) []byte) checkpoint.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := edit(append([]byte(nil), s.mu.objects[f.Name]...))
	sum := sha256.Sum256(body)
	f.Name += "-corrupt"
	f.Size, f.SHA256 = int64(len(body)), hex.EncodeToString(sum[:])
	s.mu.objects[f.Name] = body
	return f
}

// Damage flips a bit of the object of f, behind the manifest's back.
func (s *Store) Damage(f checkpoint.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := append([]byte(nil), s.mu.objects[f.Name]...)
	body[len(body)/2] ^= 1
	s.mu.objects[f.Name] = body
}

// Traffic is what has been uploaded since the last call.
type Traffic struct {
	Uploaded []string // local names
	Bytes    int64
	Reused   int // files
}

// Traffic returns the figures since the last call.
func (s *Store) Traffic() Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := Traffic{Uploaded: s.mu.uploaded, Bytes: s.mu.bytes, Reused: s.mu.reused}
	s.mu.uploaded, s.mu.bytes, s.mu.reused = nil, 0, 0
	return t
}
