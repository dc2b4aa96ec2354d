package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/weirstream/weir/dataplane/snapshot"
)

// bucket is the model of S3: a map of objects with conditional PUTs, strongly consistent.
type bucket struct {
	service
	w       *world
	objects map[string]object
	// age are the days that have passed while nothing happened.
	age time.Duration
}

type object struct {
	body []byte
	at   time.Time
}

// store is the bucket as one process reaches it. It implements snapshot.Store, so that the production code
// of package snapshot runs on it as it is; each of its requests can be lost, late or doubled.
type store struct{ p *proc }

var _ snapshot.Store = store{}

func (p *proc) store() store { return store{p} }

func (s store) bucket() *bucket { return s.p.w.s3 }

// kindOf is the kind of a key, for labels: "manifest", "committed", "part", ….
func kindOf(key string) string {
	if k := (snapshot.Names{UID: uid}).Parse(key).Kind; k != "" {
		return k
	}
	return "object"
}

// Create implements snapshot.Store.
func (s store) Create(_ context.Context, key string, body []byte) error {
	b := s.bucket()
	return s.write("create "+kindOf(key), key, func() error {
		if _, ok := b.objects[key]; ok && !b.w.broken(UnconditionalPut) {
			return fmt.Errorf("create %s: %w", key, snapshot.ErrExists)
		}
		b.put(key, body)
		return nil
	})
}

// Put implements snapshot.Store.
func (s store) Put(_ context.Context, key string, body []byte) error {
	return s.write("put "+kindOf(key), key, func() error { s.bucket().put(key, body); return nil })
}

// Upload implements snapshot.Store; path is the content itself, as no file is on disk here.
func (s store) Upload(_ context.Context, key, path string, _ int64, _ string) error {
	b := s.bucket()
	return s.write("upload", key, func() error {
		if _, ok := b.objects[key]; ok {
			return fmt.Errorf("upload %s: %w", key, snapshot.ErrExists)
		}
		b.put(key, []byte(path))
		return nil
	})
}

func (s store) write(label, key string, apply func() error) error {
	err, none := ask(s.p, &s.bucket().service, label, apply)
	if none != nil {
		return fmt.Errorf("%s %s: %w", label, key, none)
	}
	return err
}

// Get implements snapshot.Store.
func (s store) Get(_ context.Context, key string, limit int64) ([]byte, error) {
	b := s.bucket()
	o, err := ask(s.p, &b.service, "get "+kindOf(key), func() object { return b.objects[key] })
	switch {
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", key, err)
	case o.body == nil:
		return nil, fmt.Errorf("get %s: %w", key, snapshot.ErrNotFound)
	case int64(len(o.body)) > limit:
		return nil, fmt.Errorf("get %s: %d bytes, at most %d", key, len(o.body), limit)
	}
	return o.body, nil
}

// Open implements snapshot.Store.
func (s store) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	b, err := s.Get(ctx, key, 1<<20)
	return io.NopCloser(bytes.NewReader(b)), err
}

// List implements snapshot.Store.
func (s store) List(_ context.Context, prefix string) ([]snapshot.Object, error) {
	b := s.bucket()
	out, err := ask(s.p, &b.service, "list", func() []snapshot.Object {
		var out []snapshot.Object
		for k, o := range b.objects {
			if strings.HasPrefix(k, prefix) {
				out = append(out, snapshot.Object{Key: k, Size: int64(len(o.body)), Modified: o.at})
			}
		}
		sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
		return out
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return out, nil
}

// Delete implements snapshot.Store, one request a key.
func (s store) Delete(_ context.Context, keys ...string) error {
	b := s.bucket()
	for _, key := range keys {
		if _, err := ask(s.p, &b.service, "delete "+kindOf(key), func() bool { b.remove(key); return true }); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
	}
	return nil
}

// String implements snapshot.Store.
func (s store) String() string { return "sim:" }

func (b *bucket) put(key string, body []byte) {
	old := b.objects[key].body
	b.objects[key] = object{body: body, at: b.w.clock().Add(b.age)}
	b.w.wrote(key, old, body)
}

func (b *bucket) remove(key string) {
	if o, ok := b.objects[key]; ok {
		delete(b.objects, key)
		b.w.removed(key, o.body)
	}
}
