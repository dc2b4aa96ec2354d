package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// Committer ends the transactions of the sinks of one directory. It implements connector.Committer; its state is
// the directory alone.
type Committer struct{ dir directory }

var _ connector.Committer = (*Committer)(nil)

// NewCommitter returns a committer for the sinks with this SinkConfig.Dir.
func NewCommitter(dir string) *Committer { return &Committer{directory(dir)} }

// Close implements connector.Committer.
func (c *Committer) Close() {}

// Commit implements connector.Committer. A prepared part that has another size than its transaction says is a
// fatal error: somebody has touched it.
func (c *Committer) Commit(ctx context.Context, t checkpoint.Transaction) (connector.Outcome, error) {
	p, d, err := c.parse(ctx, t)
	if err != nil {
		return 0, err
	}
	outcome, err := c.commit(p, d)
	if err != nil {
		return 0, fmt.Errorf("files: commit %s: %w", t.ID, err)
	}
	return outcome, nil
}

func (c *Committer) commit(p part, d data) (connector.Outcome, error) {
	committed, err := c.complete(p)
	if err != nil || committed {
		return connector.Committed, err
	}
	info, err := os.Stat(c.dir.prepared(p))
	if errors.Is(err, fs.ErrNotExist) {
		return c.missing(p, d)
	}
	if err != nil {
		return 0, classify(err)
	}
	if info.Size() != d.Size {
		return 0, job.AsFatal(fmt.Errorf("it has %d bytes, its transaction %d", info.Size(), d.Size))
	}
	if err := touch(c.dir.marker(p)); err != nil {
		return 0, classify(err)
	}
	if err := c.dir.sync(); err != nil {
		return 0, err
	}
	if _, err := c.complete(p); err != nil {
		return 0, err
	}
	return connector.Committed, nil
}

// complete makes the part visible if its marker exists, and reports whether it does.
func (c *Committer) complete(p part) (marked bool, err error) {
	if _, err := os.Stat(c.dir.marker(p)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, classify(err)
	}
	// Another committer may have been faster: then there is nothing left to rename.
	if err := os.Rename(c.dir.prepared(p), c.dir.visible(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, classify(err)
	}
	return true, c.dir.sync()
}

// missing answers for a part without marker and prepared file: the marker of a committed part may have been
// removed since, or another committer is between its two steps.
func (c *Committer) missing(p part, d data) (connector.Outcome, error) {
	if marked, err := c.complete(p); err != nil || marked {
		return connector.Committed, err
	}
	info, err := os.Stat(c.dir.visible(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return connector.Lost, nil
	case err != nil:
		return 0, classify(err)
	case info.Size() != d.Size:
		return 0, job.AsFatal(fmt.Errorf("it has %d bytes, its transaction %d", info.Size(), d.Size))
	}
	return connector.Committed, nil
}

// Abort implements connector.Committer.
func (c *Committer) Abort(ctx context.Context, t checkpoint.Transaction) (connector.Outcome, error) {
	p, d, err := c.parse(ctx, t)
	if err != nil {
		return 0, err
	}
	outcome, err := c.abort(p, d)
	if err != nil {
		return 0, fmt.Errorf("files: abort %s: %w", t.ID, err)
	}
	return outcome, nil
}

func (c *Committer) abort(p part, d data) (connector.Outcome, error) {
	committed, err := c.complete(p)
	if err != nil || committed {
		return connector.Committed, err
	}
	if err := os.Remove(c.dir.prepared(p)); errors.Is(err, fs.ErrNotExist) {
		return c.missing(p, d)
	} else if err != nil {
		return 0, classify(err)
	}
	return connector.Lost, c.dir.sync()
}

// Open implements connector.Committer: the hidden parts of uid that no marker has decided. A part that is still
// being written has its open name as id.
func (c *Committer) Open(ctx context.Context, uid job.UID) ([]connector.Open, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("files: list: %w", err)
	}
	if err := checkUID(uid); err != nil {
		return nil, err
	}
	found, err := c.dir.list(uid, openSuffix, preparedSuffix, markerSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no writer has made the directory yet
	}
	if err != nil {
		return nil, fmt.Errorf("files: list %s: %w", c.dir, classify(err))
	}
	marked := map[part]bool{}
	for _, p := range found[markerSuffix] {
		marked[p] = true
	}
	var open []connector.Open
	for _, p := range found[preparedSuffix] {
		if !marked[p] {
			open = append(open, connector.Open{Transaction: p.transaction(p.name()), Attempt: p.attempt})
		}
	}
	for _, p := range found[openSuffix] {
		t := p.transaction(p.name() + openSuffix)
		t.Checkpoint = 0 // not known
		open = append(open, connector.Open{Transaction: t, Attempt: p.attempt})
	}
	return open, nil
}

// AbortOpen implements connector.Committer.
func (c *Committer) AbortOpen(ctx context.Context, o connector.Open) error {
	if name, is := strings.CutSuffix(o.Transaction.ID, openSuffix); is {
		p, err := parsePart(name)
		if err != nil {
			return job.AsFatal(err)
		}
		if err := os.Remove(c.dir.open(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("files: abort %s: %w", o.Transaction.ID, classify(err))
		}
		return nil
	}
	t := o.Transaction
	if t.Data == nil {
		t.Data = json.RawMessage(`{}`)
	}
	p, _, err := c.parse(ctx, t)
	if err != nil {
		return err
	}
	if marked, err := c.complete(p); err != nil || marked {
		return err
	}
	if err := os.Remove(c.dir.prepared(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("files: abort %s: %w", t.ID, classify(err))
	}
	return nil
}

// parse checks that t is one of ours.
func (c *Committer) parse(ctx context.Context, t checkpoint.Transaction) (p part, d data, err error) {
	if err := ctx.Err(); err != nil {
		return p, d, fmt.Errorf("files: transaction %s: %w", t.ID, err)
	}
	if p, err = parsePart(t.ID); err != nil {
		return p, d, job.AsFatal(err)
	}
	if err := json.Unmarshal(t.Data, &d); err != nil {
		return p, d, job.AsFatal(fmt.Errorf("files: transaction %s: data %q: %w", t.ID, t.Data, err))
	}
	return p, d, nil
}

// touch makes sure that an empty file exists.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}
