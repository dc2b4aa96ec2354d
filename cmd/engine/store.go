package engine

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/file"
	"github.com/weirstream/weir/dataplane/snapshot/s3"
)

// Stores opens snapshot stores by URL and keeps them open. It is safe for concurrent use.
type Stores struct {
	// Default is the URL used for "".
	Default string
	S3      config.S3Settings

	mu   sync.Mutex
	open map[string]snapshot.Store
}

// Open returns the store at s3://bucket/prefix or file:///path.
func (s *Stores) Open(ctx context.Context, at string) (snapshot.Store, error) {
	if at == "" {
		at = s.Default
	}
	if at == "" {
		return nil, job.AsFatal(fmt.Errorf("no snapshot storage: give the job checkpoint.storage, or the workers the setting storage"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.open[at]; ok {
		return st, nil
	}
	st, err := s.dial(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	if s.open == nil {
		s.open = map[string]snapshot.Store{}
	}
	s.open[at] = st
	return st, nil
}

func (s *Stores) dial(ctx context.Context, at string) (snapshot.Store, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, job.AsFatal(fmt.Errorf("storage URL: %w", err))
	}
	if u.Scheme == "file" {
		if !filepath.IsAbs(u.Path) {
			return nil, job.AsFatal(fmt.Errorf("storage URL %s: write file:///absolute/path", at))
		}
		return file.Open(u.Path)
	}
	cfg, err := s3.ParseURL(at)
	if err != nil {
		return nil, job.AsFatal(err)
	}
	cfg.Endpoint, cfg.Region, cfg.PathStyle = s.S3.Endpoint, s.S3.Region, s.S3.PathStyle
	for _, f := range []struct {
		to   *string
		from config.Secret
	}{{&cfg.AccessKey, s.S3.AccessKey}, {&cfg.SecretKey, s.S3.SecretKey}, {&cfg.SessionToken, s.S3.SessionToken}} {
		if *f.to, err = f.from.Resolve(); err != nil {
			return nil, job.AsFatal(fmt.Errorf("s3 credentials: %w", err))
		}
	}
	return s3.Open(ctx, cfg)
}
