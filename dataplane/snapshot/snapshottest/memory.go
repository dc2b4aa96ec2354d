// Package snapshottest has the in-memory snapshot store, a wrapper that injects faults, and the conformance
// suite that every implementation of snapshot.Store passes.
package snapshottest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// Memory is a store in memory. Now is the clock of Object.Modified; nil is time.Now.
type Memory struct {
	Now func() time.Time

	mu struct {
		sync.Mutex
		objects map[string]object
	}
}

type object struct {
	body     []byte
	modified time.Time
}

var _ snapshot.Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.objects = map[string]object{}
	return m
}

// String implements snapshot.Store.
func (m *Memory) String() string { return "memory://" }

// Create implements snapshot.Store.
func (m *Memory) Create(ctx context.Context, key string, body []byte) error {
	return m.write(ctx, "create", key, body, true)
}

// Put implements snapshot.Store.
func (m *Memory) Put(ctx context.Context, key string, body []byte) error {
	return m.write(ctx, "put", key, body, false)
}

// Upload implements snapshot.Store.
func (m *Memory) Upload(ctx context.Context, key, path string, size int64, digest string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("upload memory://%s: %w", key, err)
	}
	if int64(len(b)) != size || checkpoint.Digest(b) != digest {
		return job.AsFatal(fmt.Errorf("upload memory://%s: local file %s is not of %d bytes and digest %s", key, path, size, digest))
	}
	return m.write(ctx, "upload", key, b, true)
}

func (m *Memory) write(ctx context.Context, op, key string, body []byte, create bool) error {
	if err := check(ctx, op, key); err != nil {
		return err
	}
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.mu.objects[key]; ok && create {
		return fmt.Errorf("%s memory://%s: %w", op, key, snapshot.ErrExists)
	}
	m.mu.objects[key] = object{body: bytes.Clone(body), modified: now()}
	return nil
}

func check(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s memory://%s: %w", op, key, err)
	}
	if err := snapshot.CheckKey(key); err != nil {
		return job.AsFatal(fmt.Errorf("%s memory://%s: %w", op, key, err))
	}
	return nil
}

// Get implements snapshot.Store.
func (m *Memory) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	if err := check(ctx, "get", key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.mu.objects[key]
	if !ok {
		return nil, fmt.Errorf("get memory://%s: %w", key, snapshot.ErrNotFound)
	}
	if int64(len(o.body)) > limit {
		return nil, job.AsFatal(fmt.Errorf("get memory://%s: more than %d bytes", key, limit))
	}
	return bytes.Clone(o.body), nil
}

// Open implements snapshot.Store.
func (m *Memory) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	b, err := m.Get(ctx, key, 1<<62)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// List implements snapshot.Store.
func (m *Memory) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list memory://%s: %w", prefix, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []snapshot.Object
	for k, o := range m.mu.objects {
		if strings.HasPrefix(k, prefix) {
			out = append(out, snapshot.Object{Key: k, Size: int64(len(o.body)), Modified: o.modified})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, nil
}

// Delete implements snapshot.Store.
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	for _, k := range keys {
		if err := check(ctx, "delete", k); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.mu.objects, k)
	}
	return nil
}
