package snapshottest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// Options say what to leave out or how far to go.
type Options struct {
	// LargeFile is the size of the largest upload; choose it above the implementation's multipart limit.
	LargeFile int
	// Many is the number of objects listed and deleted at once; choose it above the page size.
	Many int
	// NoDigests says that the server behind the store does not verify digests of uploads.
	NoDigests bool
}

// Run runs the conformance suite. open returns a store; all that it returns during one call of Run must share
// their content, as two processes do, and be empty at first.
func Run(t *testing.T, o Options, open func(t *testing.T) snapshot.Store) {
	s := open(t)
	for name, test := range map[string]func(*testing.T, snapshot.Store){
		"create only if absent":          testCreate,
		"first writer wins":              func(t *testing.T, s snapshot.Store) { testRace(t, s, open(t)) },
		"put overwrites":                 testPut,
		"get is bounded":                 testGet,
		"upload":                         func(t *testing.T, s snapshot.Store) { testUpload(t, s, o) },
		"list and delete":                func(t *testing.T, s snapshot.Store) { testList(t, s, o.Many) },
		"keys are checked":               testKeys,
		"a cancelled context ends calls": testCancelled,
		"transfer of state files":        testTransfer,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func mustGet(t *testing.T, s snapshot.Store, key, want string) {
	t.Helper()
	if b, err := s.Get(t.Context(), key, 1<<20); err != nil || string(b) != want {
		t.Errorf("get %s: got %.40q, %v, want %.40q", key, b, err, want)
	}
}

func testCreate(t *testing.T, s snapshot.Store) {
	const key = "0a/chk-1/manifest"
	if err := s.Create(t.Context(), key, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), key, []byte("second")); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("second create: got %v, want ErrExists", err)
	}
	mustGet(t, s, key, "first")
	if err := s.Create(t.Context(), "0a/chk-2/manifest", nil); err != nil {
		t.Errorf("create an empty object: %v", err)
	}
	mustGet(t, s, "0a/chk-2/manifest", "")
}

func testRace(t *testing.T, stores ...snapshot.Store) {
	for round := range 5 {
		key := fmt.Sprintf("0b/chk-%d/manifest", round)
		var wins []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				body := fmt.Sprintf("writer %d", w)
				err := stores[w%len(stores)].Create(t.Context(), key, []byte(body))
				if err == nil {
					mu.Lock()
					wins = append(wins, body)
					mu.Unlock()
				} else if !errors.Is(err, snapshot.ErrExists) {
					t.Errorf("create: got %v, want nil or ErrExists", err)
				}
			})
		}
		wg.Wait()
		if len(wins) != 1 {
			t.Fatalf("round %d: %d writers won (%v), want 1", round, len(wins), wins)
		}
		for _, s := range stores {
			mustGet(t, s, key, wins[0])
		}
	}
}

func testPut(t *testing.T, s snapshot.Store) {
	for _, body := range []string{"one", "two", ""} {
		if err := s.Put(t.Context(), "0a/chk-1/committed", []byte(body)); err != nil {
			t.Fatal(err)
		}
		mustGet(t, s, "0a/chk-1/committed", body)
	}
}

func testGet(t *testing.T, s snapshot.Store) {
	if err := s.Create(t.Context(), "0a/attempt-1", []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Get(t.Context(), "0a/attempt-1", 5); err != nil || string(b) != "12345" {
		t.Errorf("limit 5: got %q, %v", b, err)
	}
	if _, err := s.Get(t.Context(), "0a/attempt-1", 4); err == nil || errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("limit 4: got %v, want an error about the size", err)
	}
	if _, err := s.Get(t.Context(), "0a/attempt-2", 5); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("missing: got %v, want ErrNotFound", err)
	}
	if _, err := s.Open(t.Context(), "0a/attempt-2"); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("open missing: got %v, want ErrNotFound", err)
	}
	if _, err := s.Get(t.Context(), "0a", 5); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("a prefix is no object: got %v, want ErrNotFound", err)
	}
}

func writeFile(t *testing.T, body []byte) (path, digest string) {
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, checkpoint.Digest(body)
}

func testUpload(t *testing.T, s snapshot.Store, o Options) {
	for _, size := range []int{0, 1, 100_000, o.LargeFile} {
		body := bytes.Repeat([]byte("weir, a barrier laid across a stream\n"), size/37+1)[:size]
		path, digest := writeFile(t, body)
		key := "0a/shared/1-1-" + digest
		if err := s.Upload(t.Context(), key, path, int64(size), digest); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		r, err := s.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || checkpoint.Digest(got) != digest {
			t.Errorf("%d bytes: read %d, digest %s, %v, want %s", size, len(got), checkpoint.Digest(got), err, digest)
		}
		if err := s.Upload(t.Context(), key, path, int64(size), digest); !errors.Is(err, snapshot.ErrExists) {
			t.Errorf("%d bytes again: got %v, want ErrExists", size, err)
		}
		if o.NoDigests {
			continue
		}
		other := checkpoint.Digest([]byte("something else"))
		if err := s.Upload(t.Context(), "0a/shared/1-2-"+digest, path, int64(size), other); err == nil {
			t.Errorf("%d bytes with a wrong digest: accepted", size)
		}
		if _, err := s.Open(t.Context(), "0a/shared/1-2-"+digest); !errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("%d bytes with a wrong digest: left an object (%v)", size, err)
		}
	}
	if err := s.Upload(t.Context(), "0a/shared/1-3-x", filepath.Join(t.TempDir(), "none"), 1, "x"); err == nil || errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("missing local file: got %v, want an error other than ErrNotFound", err)
	}
}

func testList(t *testing.T, s snapshot.Store, many int) {
	var want []string
	for i := range many {
		key := fmt.Sprintf("0c/chk-%d/part-1-n", i)
		if err := s.Put(t.Context(), key, []byte("xyz")); err != nil {
			t.Fatal(err)
		}
		want = append(want, key)
	}
	slices.Sort(want)
	for _, foreign := range []string{"0c1/attempt-1", "0b/attempt-1"} {
		if err := s.Put(t.Context(), foreign, nil); err != nil {
			t.Fatal(err)
		}
	}
	list := func(prefix string) (keys []string) {
		objects, err := s.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.Size != 3 || o.Modified.IsZero() {
				t.Errorf("%s: size %d, modified %v", o.Key, o.Size, o.Modified)
			}
			keys = append(keys, o.Key)
		}
		return keys
	}
	if got := list("0c/"); !slices.Equal(got, want) {
		t.Errorf("list: got %d keys, want %d, sorted, nothing foreign", len(got), len(want))
	}
	if got := list("0c/chk-1/"); !slices.Equal(got, []string{"0c/chk-1/part-1-n"}) {
		t.Errorf("list of a folder: got %v", got)
	}
	if got := list("0c/chk-1"); len(got) < 2 {
		t.Errorf("list of a prefix that ends within a name: got %v", got)
	}
	if got := list("0d/"); len(got) != 0 {
		t.Errorf("list of nothing: got %v", got)
	}
	if err := s.Delete(t.Context(), append(slices.Clone(want), "0c/missing")...); err != nil {
		t.Errorf("delete with a missing key: %v", err)
	}
	if err := s.Delete(t.Context(), want[0]); err != nil {
		t.Errorf("delete again: %v", err)
	}
	if err := s.Delete(t.Context()); err != nil {
		t.Errorf("delete of nothing: %v", err)
	}
	if got := list("0c/"); len(got) != 0 {
		t.Errorf("after delete: got %d keys", len(got))
	}
	if err := s.Create(t.Context(), want[0], []byte("xyz")); err != nil {
		t.Errorf("create after delete: %v", err)
	}
}

func testKeys(t *testing.T, s snapshot.Store) {
	for _, key := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\x00b", "a b", `a\b`} {
		if err := s.Create(t.Context(), key, nil); err == nil {
			t.Errorf("create %q: accepted", key)
		}
		if err := s.Delete(t.Context(), key); err == nil {
			t.Errorf("delete %q: accepted", key)
		}
		if _, err := s.Get(t.Context(), key, 1); err == nil || job.ClassOf(err) != job.Fatal {
			t.Errorf("get %q: got %v, want a fatal error", key, err)
		}
	}
}

func testCancelled(t *testing.T, s snapshot.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Create(ctx, "0a/chk-99/manifest", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("create: got %v, want context.Canceled", err)
	}
	if _, err := s.Get(ctx, "0a/chk-1/manifest", 10); !errors.Is(err, context.Canceled) {
		t.Errorf("get: got %v, want context.Canceled", err)
	}
	if _, err := s.List(ctx, "0a/"); !errors.Is(err, context.Canceled) {
		t.Errorf("list: got %v, want context.Canceled", err)
	}
}

// testTransfer uploads a state file, finds it there on a retry, and downloads it; then it downloads what is not
// what the manifest says.
func testTransfer(t *testing.T, s snapshot.Store) {
	ref := job.Ref{UID: "0e", Attempt: 2}
	path, digest := writeFile(t, []byte("state"))
	var f checkpoint.File
	for range 2 {
		var err error
		if f, err = snapshot.UploadFile(t.Context(), s, ref, 7, path, "000001.sst"); err != nil {
			t.Fatal(err)
		}
	}
	if want := "shared/2-7-" + digest; f.Name != want || f.Size != 5 {
		t.Errorf("uploaded as %s, %d bytes, want %s, 5 bytes", f.Name, f.Size, want)
	}
	dir := t.TempDir()
	if err := snapshot.Download(t.Context(), s, ref.UID, f, dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "000001.sst")); err != nil || string(b) != "state" {
		t.Errorf("downloaded %q, %v", b, err)
	}
	longer, other := f, f
	longer.Size, longer.Local = 6, "000002.sst"
	other.SHA256 = checkpoint.Digest([]byte("STATE"))
	other.Name, other.Local = checkpoint.SharedName(2, 7, other.SHA256), "000003.sst"
	if err := s.Create(t.Context(), "0e/"+other.Name, []byte("stAte")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []checkpoint.File{longer, other} {
		if err := snapshot.Download(t.Context(), s, ref.UID, bad, dir); !errors.Is(err, snapshot.ErrContent) || !errors.Is(err, checkpoint.ErrDamaged) {
			t.Errorf("download of %+v: got %v, want ErrContent and ErrDamaged", bad, err)
		}
	}
	gone := f
	gone.Name = checkpoint.SharedName(2, 8, digest)
	if err := snapshot.Download(t.Context(), s, ref.UID, gone, dir); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("download of a missing file: got %v, want ErrNotFound", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("failed downloads left %v, %v", left, err)
	}
}
