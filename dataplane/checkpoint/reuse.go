package checkpoint

import (
	"github.com/weirstream/weir/dataplane/job"
)

// ReuseSet is a node's knowledge of which state files the next checkpoint may name again instead of uploading
// them: exactly those that this node named in the manifest which the barrier calls the latest durable one, or
// in the manifest that the attempt was restored from. Only of that manifest is it certain that retention keeps
// it until a later one is durable, so a late delete can only hit files that nobody refers to.
//
// It is pure; the caller serialises access.
type ReuseSet struct {
	base job.CheckpointID
	// files are those of base, by digest.
	files map[string]File
	// named are the files of checkpoints that are not yet known to be durable; what was aborted among them goes
	// when a later one is durable.
	named map[job.CheckpointID][]File
}

// NewReuseSet returns the set of an attempt that is restored from m; states are those of m that this node
// restores from, after a rescale too. A file may only be named again by content, never by local name.
func NewReuseSet(m Manifest) *ReuseSet {
	r := &ReuseSet{base: m.ID, named: map[job.CheckpointID][]File{}}
	var fs []File
	for _, s := range m.States {
		fs = append(fs, s.Files...)
	}
	r.set(fs)
	return r
}

func (r *ReuseSet) set(fs []File) {
	r.files = make(map[string]File, len(fs))
	for _, f := range fs {
		r.files[f.SHA256] = f
	}
}

// Advance applies the number that barrier n carries as latest durable; it comes before anything is named for
// n. If this node did not take part in that checkpoint, nothing may be reused: what was the base before may be
// retired at any time.
func (r *ReuseSet) Advance(durable job.CheckpointID) {
	if durable <= r.base {
		return
	}
	fs := r.named[durable]
	r.base = durable
	r.set(fs)
	for n := range r.named {
		if n <= durable {
			delete(r.named, n)
		}
	}
}

// Named records a file that this node's share of checkpoint n names.
func (r *ReuseSet) Named(n job.CheckpointID, f File) { r.named[n] = append(r.named[n], f) }

// Find returns the object that already holds the content with this digest and size, if it may be named again.
// The caller sets Local to its own name of the file.
func (r *ReuseSet) Find(sha256 string, size int64) (File, bool) {
	f, ok := r.files[sha256]
	return f, ok && f.Size == size
}

// Base is the checkpoint whose files may be named again.
func (r *ReuseSet) Base() job.CheckpointID { return r.base }
