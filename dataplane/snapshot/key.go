package snapshot

import (
	"fmt"
	"path"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
)

// MaxKeyBytes is the longest key that CheckKey accepts; S3 allows 1,024 bytes with the store's prefix.
const MaxKeyBytes = 768

// CheckKey refuses keys that Names cannot have made: what passes is a relative path of plain segments and safe
// as a file name and in a URL.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("key of %d bytes, want 1 to %d", len(key), MaxKeyBytes)
	}
	for i := range len(key) {
		c := key[i]
		ok := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '/' || c == '-' || c == '_' || c == '.'
		if !ok {
			return fmt.Errorf("key %q: byte %q at %d", key, c, i)
		}
	}
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return fmt.Errorf("key %q: segment %q", key, seg)
		}
	}
	return nil
}

// Key is the store's key of an object that a manifest or plan names relative to the job's prefix.
func (n Names) Key(name string) string { return path.Join(string(n.UID), name) }

// Listed translates a listing below Prefix into what package checkpoint plans with. Foreign objects are left
// out: nothing ever acts on them.
func (n Names) Listed(objects []Object) []checkpoint.Listed {
	var out []checkpoint.Listed
	for _, o := range objects {
		p := n.Parse(o.Key)
		if p.Kind == "" {
			continue
		}
		out = append(out, checkpoint.Listed{
			Name: strings.TrimPrefix(o.Key, n.Prefix()), Kind: checkpoint.ObjectKind(p.Kind), Attempt: p.Attempt, ID: p.Checkpoint, Modified: o.Modified,
		})
	}
	return out
}
