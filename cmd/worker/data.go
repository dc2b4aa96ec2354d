package worker

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/weirstream/weir/dataplane/job"
)

// dataDir is the directory of one process below the data_dir that processes may share. A lock file says that
// its process is alive; what a dead process left is removed by the next that starts.
type dataDir struct {
	path string
	lock *flock.Flock
}

func openDataDir(root string, id job.NodeID, log *slog.Logger) (*dataDir, error) {
	nodes := filepath.Join(root, "nodes")
	if err := os.MkdirAll(nodes, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	// One process at a time makes its directory: between its birth and its lock it looks like a dead one's.
	starting := flock.New(filepath.Join(root, "lock"))
	if err := starting.Lock(); err != nil {
		return nil, fmt.Errorf("data_dir: lock %s: %w", starting.Path(), err)
	}
	defer starting.Close()
	// One process at a time: between a directory and its lock there is a moment in which it looks dead.
	turn := flock.New(filepath.Join(root, "nodes.lock"))
	if err := turn.Lock(); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	defer turn.Close()
	removeDead(nodes, log)
	d := &dataDir{path: filepath.Join(nodes, job.Escape(string(id)))}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	d.lock = flock.New(filepath.Join(d.path, "lock"))
	switch ok, err := d.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("data_dir: lock %s: %w", d.lock.Path(), err)
	case !ok:
		return nil, fmt.Errorf("data_dir: lock %s: another process has it", d.lock.Path())
	}
	return d, nil
}

// removeDead removes the directories whose locks nobody holds.
func removeDead(nodes string, log *slog.Logger) {
	entries, err := os.ReadDir(nodes)
	if err != nil {
		log.Warn("list data_dir", "err", err)
		return
	}
	for _, e := range entries {
		dir := filepath.Join(nodes, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
			continue // no node's
		}
		l := flock.New(filepath.Join(dir, "lock"))
		if ok, err := l.TryLock(); err != nil || !ok {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Warn("remove a dead process's directory", "dir", dir, "err", err)
		} else {
			log.Info("removed a dead process's directory", "dir", dir)
		}
		l.Close()
	}
}

func (d *dataDir) close() error {
	if err := os.RemoveAll(d.path); err != nil {
		return err
	}
	return d.lock.Close()
}
