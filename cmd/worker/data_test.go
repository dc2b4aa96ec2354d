package worker

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

// TestDataDirsOfProcessesThatStartTogether: none takes another's new directory for a dead process's.
func TestDataDirsOfProcessesThatStartTogether(t *testing.T) {
	root := t.TempDir()
	dirs := make([]*dataDir, 30)
	errs := make([]error, len(dirs))
	var all sync.WaitGroup
	for i := range dirs {
		all.Go(func() {
			dirs[i], errs[i] = openDataDir(root, job.NodeID(fmt.Sprintf("n-%d", i)), slog.New(slog.DiscardHandler))
		})
	}
	all.Wait()
	for i, d := range dirs {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if _, err := os.Stat(d.lock.Path()); err != nil {
			t.Errorf("directory of process %d: %v", i, err)
		}
	}
	dead := dirs[0]
	if err := dead.lock.Unlock(); err != nil { // as when its process dies
		t.Fatal(err)
	}
	if _, err := openDataDir(root, "n-new", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead.path); !os.IsNotExist(err) {
		t.Errorf("the dead process's directory is still there: %v", err)
	}
}
