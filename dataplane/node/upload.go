package node

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// maxUploads bounds the transfers of one attempt at a time.
const maxUploads = 4

// uploader makes the state files of one checkpoint durable. It implements state.Uploader.
type uploader struct {
	b        *book
	id       job.CheckpointID
	uploaded atomic.Int64
}

// Upload implements state.Uploader.
func (u *uploader) Upload(ctx context.Context, path, local string, reuse *checkpoint.File) (checkpoint.File, error) {
	if reuse != nil {
		if f, ok := u.find(reuse.SHA256, reuse.Size); ok {
			f.Local = local
			u.named(f)
			return f, nil
		}
	}
	size, sum, err := snapshot.HashFile(path)
	if err != nil {
		return checkpoint.File{}, fmt.Errorf("digest %s: %w", local, err)
	}
	if f, ok := u.find(sum, size); ok {
		f.Local = local
		u.named(f)
		return f, nil
	}
	select {
	case u.b.a.transfers <- struct{}{}:
		defer func() { <-u.b.a.transfers }()
	case <-ctx.Done():
		return checkpoint.File{}, context.Cause(ctx)
	}
	f, err := snapshot.UploadHashed(ctx, u.b.a.store, u.b.a.dep.Ref, u.id, path, local, size, sum)
	if err != nil {
		return checkpoint.File{}, err
	}
	u.uploaded.Add(f.Size)
	u.named(f)
	return f, nil
}

func (u *uploader) find(sum string, size int64) (checkpoint.File, bool) {
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	return u.b.mu.reuse.Find(sum, size)
}

func (u *uploader) named(f checkpoint.File) {
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	u.b.mu.reuse.Named(u.id, f)
}

// downloader fetches files of the restored manifest. It implements state.Downloader.
type downloader struct{ a *attempt }

// Download implements state.Downloader.
func (d downloader) Download(ctx context.Context, f checkpoint.File, path string) error {
	select {
	case d.a.transfers <- struct{}{}:
		defer func() { <-d.a.transfers }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f.Local = filepath.Base(path)
	return snapshot.Download(ctx, d.a.store, d.a.dep.UID, f, filepath.Dir(path))
}
