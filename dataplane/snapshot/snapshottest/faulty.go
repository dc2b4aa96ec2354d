package snapshottest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/dataplane/snapshot"
)

// ErrInjected is wrapped by every error that Faulty makes up. It is retryable, like a 5xx or a broken connection.
var ErrInjected = errors.New("injected fault")

// Op names a method of snapshot.Store.
type Op string

// The operations.
const (
	OpCreate Op = "create"
	OpPut    Op = "put"
	OpUpload Op = "upload"
	OpGet    Op = "get"
	OpOpen   Op = "open"
	OpList   Op = "list"
	OpDelete Op = "delete"
)

// Fault is what happens to one call. The zero value is no fault.
type Fault struct {
	// Refuse fails the call without carrying it out: a 5xx.
	Refuse bool
	// LoseReply carries the call out and fails it all the same.
	LoseReply bool
	// Truncate cuts what Get and Open return to half, without an error.
	Truncate bool
	// Wait delays the call until the channel is closed or the context ends: a slow or frozen caller.
	Wait <-chan struct{}
}

// Faulty wraps a store. Decide is asked before every call, concurrently if the calls are.
type Faulty struct {
	snapshot.Store
	Decide func(op Op, key string) Fault
}

var _ snapshot.Store = (*Faulty)(nil)

func (f *Faulty) do(ctx context.Context, op Op, key string, call func(Fault) error) error {
	fault := f.Decide(op, key)
	if fault.Wait != nil {
		select {
		case <-fault.Wait:
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", op, key, ctx.Err())
		}
	}
	if fault.Refuse {
		return fmt.Errorf("%s %s refused: %w", op, key, ErrInjected)
	}
	err := call(fault)
	if fault.LoseReply {
		return fmt.Errorf("%s %s: reply lost: %w", op, key, ErrInjected)
	}
	return err
}

// Create implements snapshot.Store.
func (f *Faulty) Create(ctx context.Context, key string, body []byte) error {
	return f.do(ctx, OpCreate, key, func(Fault) error { return f.Store.Create(ctx, key, body) })
}

// Put implements snapshot.Store.
func (f *Faulty) Put(ctx context.Context, key string, body []byte) error {
	return f.do(ctx, OpPut, key, func(Fault) error { return f.Store.Put(ctx, key, body) })
}

// Upload implements snapshot.Store.
func (f *Faulty) Upload(ctx context.Context, key, path string, size int64, sha256 string) error {
	return f.do(ctx, OpUpload, key, func(Fault) error { return f.Store.Upload(ctx, key, path, size, sha256) })
}

// Get implements snapshot.Store.
func (f *Faulty) Get(ctx context.Context, key string, limit int64) (b []byte, err error) {
	err = f.do(ctx, OpGet, key, func(fault Fault) error {
		b, err = f.Store.Get(ctx, key, limit)
		if fault.Truncate {
			b = b[:len(b)/2]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Open implements snapshot.Store.
func (f *Faulty) Open(ctx context.Context, key string) (r io.ReadCloser, err error) {
	var truncated bool
	err = f.do(ctx, OpOpen, key, func(fault Fault) error {
		truncated = fault.Truncate
		r, err = f.Store.Open(ctx, key)
		return err
	})
	if err != nil {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
		return nil, err
	}
	if !truncated {
		return r, nil
	}
	objects, err := f.Store.List(ctx, key)
	if err != nil || len(objects) == 0 {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, objects[0].Size/2), r}, nil
}

// List implements snapshot.Store.
func (f *Faulty) List(ctx context.Context, prefix string) (out []snapshot.Object, err error) {
	err = f.do(ctx, OpList, prefix, func(Fault) error {
		out, err = f.Store.List(ctx, prefix)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Delete implements snapshot.Store. Decide sees the first key.
func (f *Faulty) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return f.do(ctx, OpDelete, keys[0], func(Fault) error { return f.Store.Delete(ctx, keys...) })
}
