package worker

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/weirstream/weir/dataplane/job"
)

var quiet = slog.New(slog.DiscardHandler)

// What a dead process left is removed, what a living one has stays.
func TestDataDirOfDeadProcessesIsRemoved(t *testing.T) {
	root := t.TempDir()
	dead := filepath.Join(root, "nodes", "dead")
	if err := os.MkdirAll(filepath.Join(dead, "attempts"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := openDataDir(root, "a", quiet)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openDataDir(root, "b", quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead process's directory: %v, want it gone", err)
	}
	if _, err := os.Stat(a.path); err != nil {
		t.Errorf("the living process's directory: %v", err)
	}
	for _, d := range []*dataDir{a, b} {
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.path); !os.IsNotExist(err) {
			t.Errorf("%s after close: %v, want it gone", d.path, err)
		}
	}
}

// Processes that start together do not take each other for dead.
func TestDataDirsOpenTogether(t *testing.T) {
	root := t.TempDir()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			d, err := openDataDir(root, job.NodeID(fmt.Sprint("n", i)), quiet)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(d.path, "lock")); err != nil {
				t.Errorf("directory %d: %v", i, err)
			}
			if l := flock.New(d.lock.Path()); l != nil {
				if ok, _ := l.TryLock(); ok {
					t.Errorf("the lock of directory %d is free", i)
				}
				_ = l.Close()
			}
		})
	}
	all.Wait()
}

// slow is a worker whose activities do not end.
type slow struct{ sdkworker.Worker }

func (slow) Stop() { time.Sleep(stopTimeout) } //nolint:forbidigo // the bubble's clock

// Leaving takes the time of one worker, or it would not be over within ten seconds.
func TestWorkersStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		stopAll([]sdkworker.Worker{slow{}, slow{}})
		if took := time.Since(began); took != stopTimeout {
			t.Errorf("took %s, want %s", took, stopTimeout)
		}
	})
}
