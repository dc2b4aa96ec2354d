package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

func TestManifestRoundTrip(t *testing.T) {
	start, err := NewStart("0a1b", testGraph(), []OperatorState{{Operator: "in", Subtask: 1}, {Operator: "in", Subtask: 0}})
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restored(testManifest(t, 7), job.Ref{UID: "0a1b", Attempt: 4}, 9, 2, "all transactions of 8 are lost")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Manifest{
		testManifest(t, 7), start, restored, NewAbort(testRef, 8, 2, "deadline"), NewClaim(testRef, 9, 2), NewTombstone(testManifest(t, 7)),
	} {
		b, err := EncodeManifest(m)
		if err != nil {
			t.Errorf("encode %s: %v", m.Name(), err)
			continue
		}
		got, err := DecodeManifest(b)
		if err != nil {
			t.Errorf("decode %s: %v", m.Name(), err)
			continue
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: got %+v, want %+v", m.Name(), got, m)
		}
	}
}

// Ensure that the format does not change by accident: old checkpoints must stay readable.
func TestManifestGolden(t *testing.T) {
	b, err := EncodeManifest(testManifest(t, 7))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/manifest-v1")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// Ensure that no truncation and no single flipped bit goes unnoticed, and that each has a name.
func TestDamage(t *testing.T) {
	b, err := EncodeManifest(testManifest(t, 7))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		if _, err := DecodeManifest(b[:n]); !errors.Is(err, ErrTruncated) {
			t.Fatalf("cut to %d of %d bytes: got %v, want ErrTruncated", n, len(b), err)
		}
	}
	for i := range len(b) * 8 {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if _, err := DecodeManifest(c); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTruncated) {
			t.Fatalf("bit %d flipped: got %v, want ErrDamaged or ErrTruncated", i, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	reseal := func(body string) []byte {
		return fmt.Appendf(nil, "%s\nsha256 %s\n", body, Digest([]byte(body)))
	}
	good, err := EncodeManifest(NewAbort(testRef, 8, 2, "x"))
	if err != nil {
		t.Fatal(err)
	}
	body := string(good[:len(good)-trailerSize])
	for _, c := range []struct {
		name, from, to string
		want           error
	}{
		{"newer version", `"version":1`, `"version":2,"new_field":1`, ErrVersion},
		{"unknown field", `"floor":2`, `"floor":2,"flor":2`, ErrInvalid},
		{"twice the same key", `"floor":2`, `"floor":1,"floor":2`, ErrInvalid},
		{"space", `"floor":2`, `"floor": 2`, ErrInvalid},
		{"no JSON", `{`, ``, ErrInvalid},
		{"unknown kind", `"kind":"abort"`, `"kind":"maybe"`, ErrInvalid},
		{"floor above id", `"floor":2`, `"floor":9`, ErrInvalid},
		{"uid with a path", `"uid":"0a1b"`, `"uid":"../x"`, ErrInvalid},
		{"negative attempt", `"attempt":3`, `"attempt":-3`, ErrInvalid},
		{"abort with content", `"floor":2`, `"floor":2,"max_parallelism":4`, ErrInvalid},
	} {
		bad := strings.Replace(body, c.from, c.to, 1)
		if bad == body {
			t.Fatalf("%s: %q does not occur in %s", c.name, c.from, body)
		}
		if _, err := DecodeManifest(reseal(bad)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := DecodeManifest(make([]byte, MaxManifestBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: got %v, want ErrTooLarge", err)
	}
	if _, err := DecodePart(good); !errors.Is(err, ErrInvalid) {
		t.Errorf("a manifest read as a part: got %v, want ErrInvalid", err)
	}
}

// Ensure that no name in a manifest can leave the job's prefix or the download directory.
func TestFileNames(t *testing.T) {
	good := testFile(3, 7, "a")
	if err := good.Validate(); err != nil {
		t.Fatalf("good file refused: %v", err)
	}
	for _, local := range []string{"", ".", "..", "a/b", "/etc/passwd", "a..b", "-x", "a\x00", "a b", "ä", strings.Repeat("x", 200), ".hidden", `a\b`} {
		f := good
		f.Local = local
		if f.Validate() == nil {
			t.Errorf("local name %q accepted", local)
		}
	}
	for _, name := range []string{"", "shared/../../x", "/" + good.Name, good.Name + "/x", "shared/3-7-" + strings.Repeat("b", 64), "shared/03-7-" + good.SHA256, "chk-7/manifest", good.Name + "\n"} {
		f := good
		f.Name = name
		if f.Validate() == nil {
			t.Errorf("name %q accepted", name)
		}
	}
	f := good
	f.SHA256 = strings.Repeat("A", 64)
	if f.Validate() == nil {
		t.Error("upper-case digest accepted")
	}
	f = good
	f.Size = -1
	if f.Validate() == nil {
		t.Error("negative size accepted")
	}
}

func TestManifestIs(t *testing.T) {
	m := testManifest(t, 7)
	if err := m.Is("0a1b", 7); err != nil {
		t.Error(err)
	}
	if m.Is("0a1b", 8) == nil || m.Is("ffff", 7) == nil {
		t.Error("a manifest copied to another key is accepted")
	}
}

func FuzzDecodeManifest(f *testing.F) {
	for _, m := range []Manifest{testManifest(f, 7), NewAbort(testRef, 8, 2, "x")} {
		b, err := EncodeManifest(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-trailerSize])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		DecodeManifest(body)
		m, err := DecodeManifest(fmt.Appendf(bytes.Clone(body), "\nsha256 %s\n", Digest(body)))
		if err != nil {
			return
		}
		again, err := EncodeManifest(m)
		if err != nil || !bytes.Equal(again[:len(again)-trailerSize], body) {
			t.Fatalf("accepted %q, encodes as %q (%v)", body, again, err)
		}
	})
}

func FuzzDecodePart(f *testing.F) {
	b, err := EncodePart(testPart("a", 7, 0, 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-trailerSize])
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := DecodePart(fmt.Appendf(bytes.Clone(body), "\nsha256 %s\n", Digest(body)))
		if err != nil {
			return
		}
		if again, err := EncodePart(p); err != nil || !bytes.Equal(again[:len(again)-trailerSize], body) {
			t.Fatalf("accepted %q, encodes as %q (%v)", body, again, err)
		}
	})
}

func FuzzDecodeRetention(f *testing.F) {
	f.Add([]byte(`{"version":1,"uid":"0a1b","after":9,"floor":7,"delete":["attempt-1"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := DecodeRetention(fmt.Appendf(bytes.Clone(body), "\nsha256 %s\n", Digest(body)))
		if err != nil {
			return
		}
		for _, n := range p.Delete {
			if strings.Contains(n, "..") && !strings.HasPrefix(n, "chk-") || strings.HasPrefix(n, "/") {
				t.Fatalf("plan may delete %q", n)
			}
		}
	})
}
