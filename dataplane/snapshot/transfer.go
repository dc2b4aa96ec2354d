package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// ErrContent is wrapped by Download when an object is not what the manifest says: wrong size or digest.
var ErrContent = errors.New("content differs from the manifest")

// HashFile returns size and SHA-256 (hexadecimal) of a local file.
func HashFile(path string) (size int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", fmt.Errorf("hash file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return 0, "", fmt.Errorf("hash file %s: %w", path, err)
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
}

// UploadFile hashes the local file at path and creates it as a state file of checkpoint n. local is the name under
// which the state backend wants it back. The key says attempt, checkpoint and digest, so an object that is there
// already can only be ours (a lost reply, or the same content from another subtask): its size is checked.
func UploadFile(ctx context.Context, s Store, ref job.Ref, n job.CheckpointID, path, local string) (checkpoint.File, error) {
	size, digest, err := HashFile(path)
	if err != nil {
		return checkpoint.File{}, err
	}
	return UploadHashed(ctx, s, ref, n, path, local, size, digest)
}

// UploadHashed is UploadFile for a file whose size and SHA-256 the caller knows already.
func UploadHashed(ctx context.Context, s Store, ref job.Ref, n job.CheckpointID, path, local string, size int64, digest string) (checkpoint.File, error) {
	f := checkpoint.File{Name: checkpoint.SharedName(ref.Attempt, n, digest), Local: local, Size: size, SHA256: digest}
	if err := f.Validate(); err != nil {
		return checkpoint.File{}, job.AsFatal(fmt.Errorf("upload %s: %w", path, err))
	}
	key := Names{UID: ref.UID}.Key(f.Name)
	failpoint.Hit("upload.before")
	err := s.Upload(ctx, key, path, size, digest)
	if errors.Is(err, ErrExists) {
		err = checkSize(ctx, s, key, size)
	}
	if err != nil {
		return checkpoint.File{}, err
	}
	failpoint.Hit("upload.after")
	return f, nil
}

func checkSize(ctx context.Context, s Store, key string, size int64) error {
	objects, err := s.List(ctx, key)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.Key != key {
			continue
		}
		if o.Size != size {
			return job.AsFatal(fmt.Errorf("upload %s/%s: %d bytes stand there, want %d: %w", s, key, o.Size, size, ErrContent))
		}
		return nil
	}
	return fmt.Errorf("upload %s/%s: created by someone and gone again: %w", s, key, ErrNotFound)
}

// Download streams f, which a manifest names, into dir under its local name: into a temporary file, which is renamed
// only when size and digest are right. It wraps ErrContent when they are not, twice, since the first transfer may
// have been cut, or ErrNotFound; both are damage to the checkpoint, so it wraps checkpoint.ErrDamaged too. dir must
// exist; nothing outside it is ever written.
func Download(ctx context.Context, s Store, uid job.UID, f checkpoint.File, dir string) error {
	err := download(ctx, s, uid, f, dir)
	if errors.Is(err, ErrContent) {
		err = download(ctx, s, uid, f, dir)
	}
	if errors.Is(err, ErrContent) || errors.Is(err, ErrNotFound) {
		return job.AsFatal(fmt.Errorf("%w: %w", checkpoint.ErrDamaged, err))
	}
	return err
}

func download(ctx context.Context, s Store, uid job.UID, f checkpoint.File, dir string) error {
	if err := f.Validate(); err != nil {
		return job.AsFatal(fmt.Errorf("download %q: %w", f.Name, err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("download %s: %w", f.Name, err)
	}
	defer root.Close()
	src, err := s.Open(ctx, Names{UID: uid}.Key(f.Name))
	if err != nil {
		return err
	}
	defer src.Close()
	tmp := f.Local + ".part"
	if err := fetch(root, tmp, src, f); err != nil {
		root.Remove(tmp) // best effort: the directory is wiped before it is used again
		return fmt.Errorf("download %s/%s: %w", s, Names{UID: uid}.Key(f.Name), err)
	}
	if err := root.Rename(tmp, f.Local); err != nil {
		return fmt.Errorf("download %s: %w", f.Name, err)
	}
	return nil
}

func fetch(root *os.Root, tmp string, src io.Reader, f checkpoint.File) (err error) {
	dst, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, h), io.LimitReader(src, f.Size+1))
	if err != nil {
		return err
	}
	if n != f.Size {
		return fmt.Errorf("%d bytes (or more), want %d: %w", n, f.Size, ErrContent)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("digest %s, want %s: %w", got, f.SHA256, ErrContent)
	}
	return nil
}
