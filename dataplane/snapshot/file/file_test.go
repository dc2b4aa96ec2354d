package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	snapshottest.Run(t, snapshottest.Options{LargeFile: 1 << 20, Many: 30}, func(t *testing.T) snapshot.Store {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
	if left, err := os.ReadDir(filepath.Join(dir, tmpDir)); err != nil || len(left) != 0 {
		t.Errorf("temporary files left: %v, %v", left, err)
	}
}

// Ensure that a symbolic link in the store cannot lead out of it.
func TestNeverLeavesTheRoot(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Symlink(outside, filepath.Join(dir, "0a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "0a/attempt-1", []byte("x")); err == nil {
		t.Error("created an object through a link")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

func TestOpenSweepsOldTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	old, fresh := filepath.Join(dir, tmpDir, "old"), filepath.Join(dir, tmpDir, "fresh")
	for _, p := range []string{old, fresh} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * tmpAge)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("a dead process's file stays: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a fresh file is gone: %v", err)
	}
}
