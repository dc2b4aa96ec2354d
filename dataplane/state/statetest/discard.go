package statetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/state"
)

// Discard implements state.Uploader for benchmarks: it reads files and computes their digest, as an upload does, and
// keeps nothing. The zero value is ready. Safe for concurrent use.
type Discard struct{ bytes atomic.Int64 }

var _ state.Uploader = (*Discard)(nil)

// Bytes is how much has been uploaded so far.
func (d *Discard) Bytes() int64 { return d.bytes.Load() }

// Upload implements state.Uploader. What is to be used again is.
func (d *Discard) Upload(_ context.Context, path, local string, reuse *checkpoint.File) (checkpoint.File, error) {
	if reuse != nil {
		return *reuse, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return checkpoint.File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return checkpoint.File{}, fmt.Errorf("read %s: %w", path, err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	return checkpoint.File{Name: fmt.Sprintf("shared/1-%d-%s", d.bytes.Add(n), digest), Local: local, Size: n, SHA256: digest}, nil
}
