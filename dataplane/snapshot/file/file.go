// Package file is the snapshot store on a file system that every node shares (or on one machine).
package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// tmpDir holds objects that are being written. Keys never begin with it: Names begin with a uid or "jobs".
const tmpDir = ".tmp"

// maxPublish bounds how often a directory is made again that concurrent deletes keep removing.
const maxPublish = 100

// tmpAge is the age at which a temporary file can only be a dead process's.
const tmpAge = 24 * time.Hour

// Store is a directory. An object is written to a temporary file, synced, and then linked to its key: link fails
// if the key exists, which makes Create atomic on every POSIX file system, NFS included. The directories on the
// way are synced too, so that what Create returned is durable. Nothing outside the directory is ever touched
// (os.Root).
type Store struct {
	dir  string
	root *os.Root
}

var _ snapshot.Store = (*Store)(nil)

// Open opens the store in dir, which is created if needed.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open snapshot store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open snapshot store: %w", err)
	}
	if err := root.MkdirAll(tmpDir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("open snapshot store %s: %w", dir, err), root.Close())
	}
	s := &Store{dir: dir, root: root}
	if err := s.sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("open snapshot store %s: %w", dir, err), root.Close())
	}
	return s, nil
}

// sweep removes what dead processes left in tmpDir.
func (s *Store) sweep() error {
	entries, err := fs.ReadDir(s.root.FS(), tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < tmpAge {
			continue // gone already, or perhaps in use
		}
		if err := s.root.Remove(path.Join(tmpDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.root.Close() }

// String implements snapshot.Store.
func (s *Store) String() string { return "file://" + s.dir }

func (s *Store) fail(op, key string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", snapshot.ErrNotFound, err)
	case errors.Is(err, fs.ErrExist):
		err = fmt.Errorf("%w: %w", snapshot.ErrExists, err)
	case errors.Is(err, fs.ErrPermission):
		err = job.AsFatal(err)
	}
	return fmt.Errorf("%s %s/%s: %w", op, s, key, err)
}

func check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := snapshot.CheckKey(key); err != nil {
		return job.AsFatal(err)
	}
	return nil
}

// Create implements snapshot.Store.
func (s *Store) Create(ctx context.Context, key string, body []byte) error {
	err := check(ctx, key)
	if err == nil {
		err = s.write(key, strings.NewReader(string(body)), s.root.Link)
	}
	if err != nil {
		return s.fail("create", key, err)
	}
	return nil
}

// Put implements snapshot.Store.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	err := check(ctx, key)
	if err == nil {
		err = s.write(key, strings.NewReader(string(body)), s.root.Rename)
	}
	if err != nil {
		return s.fail("put", key, err)
	}
	return nil
}

// Upload implements snapshot.Store. The digest is checked on what was read.
func (s *Store) Upload(ctx context.Context, key, path string, size int64, digest string) error {
	err := check(ctx, key)
	if err == nil {
		err = s.upload(ctx, key, path, size, digest)
	}
	if err != nil {
		return s.fail("upload", key, err)
	}
	return nil
}

func (s *Store) upload(ctx context.Context, key, path string, size int64, digest string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("local file: %v", err) //nolint:errorlint // not wrapped: a missing local file is no missing object
	}
	defer f.Close()
	h := sha256.New()
	verified := func(tmp, key string) error {
		if got := hex.EncodeToString(h.Sum(nil)); got != digest {
			return job.AsFatal(fmt.Errorf("local file %s has digest %s, want %s", path, got, digest))
		}
		return s.root.Link(tmp, key)
	}
	return s.write(key, io.TeeReader(io.LimitReader(&reader{ctx, f}, size+1), h), verified)
}

// reader gives up when its context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// write writes body to a synced temporary file and publishes it under key.
func (s *Store) write(key string, body io.Reader, publish func(tmp, key string) error) (err error) {
	tmp := path.Join(tmpDir, rand.Text())
	defer s.root.Remove(tmp) // after a rename there is nothing left to remove
	if err := s.writeTemp(tmp, body); err != nil {
		return err
	}
	dir := path.Dir(key)
	for range maxPublish {
		if err := s.root.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// A Delete may remove the empty directory in between: then make it again.
		if err = publish(tmp, key); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	return s.syncUp(dir)
}

func (s *Store) writeTemp(tmp string, body io.Reader) (err error) {
	f, err := s.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("temporary file: %v", err) //nolint:errorlint // not wrapped: it says nothing about the key
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, body); err != nil {
		return err
	}
	return f.Sync()
}

// syncUp syncs dir and its parents, so that the new entries survive a power cut.
func (s *Store) syncUp(dir string) error {
	for {
		if err := s.syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir == "." {
			return nil
		}
		dir = path.Dir(dir)
	}
}

func (s *Store) syncDir(dir string) (err error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems cannot sync directories
		return err
	}
	return nil
}

// Get implements snapshot.Store.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	r, err := s.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = job.AsFatal(fmt.Errorf("more than %d bytes", limit))
	}
	if err != nil {
		return nil, s.fail("get", key, err)
	}
	return b, nil
}

// Open implements snapshot.Store.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	err := check(ctx, key)
	if err != nil {
		return nil, s.fail("open", key, err)
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, s.fail("open", key, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() { // the prefix of other keys
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(s.fail("open", key, err), f.Close())
	}
	return f, nil
}

// List implements snapshot.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	var out []snapshot.Object
	dir := path.Dir(prefix + "x") // the directory that every match lies in
	err := fs.WalkDir(s.root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // no such prefix, or removed while we walk
		case err != nil:
			return err
		case d.IsDir():
			if p == tmpDir {
				return fs.SkipDir
			}
			return nil
		case !strings.HasPrefix(p, prefix):
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		out = append(out, snapshot.Object{Key: p, Size: info.Size(), Modified: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, s.fail("list", prefix, err)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, nil
}

// Delete implements snapshot.Store. Directories that become empty go too.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		err := check(ctx, key)
		if err == nil {
			err = s.root.Remove(key)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.fail("delete", key, err)
		}
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			if s.root.Remove(dir) != nil {
				break // not empty
			}
		}
	}
	return nil
}
