package connectortest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/format"
)

// SourceHarness makes the sources under test.
type SourceHarness struct {
	// New returns a bounded source with at least two splits and at least 50 records. Sources of one test read
	// the same data: it may be called more than once.
	New func(t *testing.T) connector.Source
}

// TestSource runs the suite of sources.
func TestSource(t *testing.T, h SourceHarness) {
	t.Run("resolve", h.testResolve)
	t.Run("read to the end", h.testRead)
	t.Run("subtasks share the splits", h.testSubtasks)
	t.Run("resume anywhere", h.testResume)
	t.Run("nothing left", h.testNothingLeft)
	t.Run("close", h.testClose)
}

// record is a record with what its split says of it.
type record struct {
	offset     int64
	key, value []byte
	reached    int64 // the split's position after the fetch that the record came in
}

// contents are the records by split id.
type contents map[string][]record

func resolve(t *testing.T, s connector.Source) []connector.Split {
	t.Helper()
	splits, err := s.Resolve(t.Context())
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return splits
}

func open(t *testing.T, s connector.Source, index, p int, splits []connector.Split) connector.Reader {
	t.Helper()
	r, err := s.Open(t.Context(), index, p, splits)
	if err != nil {
		t.Fatalf("open subtask %d of %d with %v: %v", index, p, splits, err)
	}
	return r
}

// read reads the splits to their end and checks what every fetch must keep to.
func read(t *testing.T, s connector.Source, index, p int, splits []connector.Split) contents {
	t.Helper()
	r := open(t, s, index, p, splits)
	got := contents{}
	at := map[string]connector.Split{}
	for _, sp := range splits {
		at[sp.ID] = sp
	}
	var fetched []*format.Records
	var sums []string
	for f := range r.Fetches() {
		if f.Err != nil {
			t.Fatalf("fetch of split %q: %v", f.Split.ID, f.Err)
		}
		before, known := at[f.Split.ID]
		if !known {
			t.Fatalf("fetch of split %q, which the reader was not given", f.Split.ID)
		}
		if f.Split.Position < before.Position || f.Split.End != before.End {
			t.Fatalf("split %q went from %d of %d to %d of %d", f.Split.ID, before.Position, before.End, f.Split.Position, f.Split.End)
		}
		at[f.Split.ID] = f.Split
		if f.Records == nil {
			continue
		}
		got.add(t, f, before)
		fetched, sums = append(fetched, f.Records), append(sums, string(f.Records.Buf))
	}
	for id, sp := range at {
		if !sp.Done() {
			t.Errorf("the reader ended with split %q at %d of %d", id, sp.Position, sp.End)
		}
	}
	for i, rs := range fetched {
		if string(rs.Buf) != sums[i] {
			t.Errorf("the buffer of fetch %d changed after it was handed on", i)
		}
	}
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return got
}

// add checks and keeps the records of f. before is the split before it.
func (c contents) add(t *testing.T, f connector.Fetch, before connector.Split) {
	t.Helper()
	rs, next := f.Records, before.Position
	if len(rs.Offsets) != rs.Len() || rs.Keys != nil && len(rs.Keys) != rs.Len() || rs.Times != nil && len(rs.Times) != rs.Len() {
		t.Fatalf("split %q: %d values, %d offsets, %d keys, %d times", f.Split.ID, rs.Len(), len(rs.Offsets), len(rs.Keys), len(rs.Times))
	}
	for i, offset := range rs.Offsets {
		if offset < next || offset >= f.Split.Position {
			t.Fatalf("split %q: record at %d, want one in [%d, %d)", f.Split.ID, offset, next, f.Split.Position)
		}
		next = offset + 1
		c[f.Split.ID] = append(c[f.Split.ID], record{offset, bytes.Clone(rs.Key(i)), bytes.Clone(rs.Value(i)), f.Split.Position})
	}
}

func (c contents) count() (n int) {
	for _, rs := range c {
		n += len(rs)
	}
	return n
}

// diff describes the first difference, empty if there is none.
func (c contents) diff(want contents) string {
	for _, id := range slices.Sorted(maps.Keys(want)) {
		got, want := c[id], want[id]
		for i := range min(len(got), len(want)) {
			if g, w := got[i], want[i]; g.offset != w.offset || !bytes.Equal(g.value, w.value) || !bytes.Equal(g.key, w.key) {
				return fmt.Sprintf("split %q record %d: got %q at %d, want %q at %d", id, i, g.value, g.offset, w.value, w.offset)
			}
		}
		if len(got) != len(want) {
			return fmt.Sprintf("split %q: got %d records, want %d", id, len(got), len(want))
		}
	}
	if len(c) != len(want) {
		return fmt.Sprintf("got records of %d splits, want %d", len(c), len(want))
	}
	return ""
}

func (h SourceHarness) testResolve(t *testing.T) {
	s := h.New(t)
	splits, again := resolve(t, s), resolve(t, h.New(t))
	if len(splits) < 2 {
		t.Fatalf("%d splits, the suite needs two", len(splits))
	}
	byID := func(a, b connector.Split) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) }
	slices.SortFunc(splits, byID)
	slices.SortFunc(again, byID)
	for i, sp := range splits {
		if sp.Position < 0 || sp.End < sp.Position {
			t.Errorf("split %q goes from %d to %d", sp.ID, sp.Position, sp.End)
		}
		if i > 0 && splits[i-1].ID == sp.ID {
			t.Errorf("split %q comes twice", sp.ID)
		}
		if i >= len(again) || again[i].ID != sp.ID || again[i].Position != sp.Position || again[i].End != sp.End {
			t.Errorf("resolving again does not give %v", sp)
		}
		for p := 1; p <= 5; p++ {
			if o := s.Owner(sp.ID, p); o < 0 || o >= p || o != h.New(t).Owner(sp.ID, p) {
				t.Errorf("owner of %q among %d is %d, or not always", sp.ID, p, o)
			}
		}
	}
}

func (h SourceHarness) testRead(t *testing.T) {
	s := h.New(t)
	splits := resolve(t, s)
	first := read(t, s, 0, 1, splits)
	if n := first.count(); n < 50 {
		t.Fatalf("%d records, the suite needs 50", n)
	}
	if d := read(t, h.New(t), 0, 1, splits).diff(first); d != "" {
		t.Errorf("the second reading differs: %s", d)
	}
}

func (h SourceHarness) testSubtasks(t *testing.T) {
	s := h.New(t)
	splits := resolve(t, s)
	want, got := read(t, s, 0, 1, splits), contents{}
	const p = 3
	for index := range p {
		var own []connector.Split
		for _, sp := range splits {
			if s.Owner(sp.ID, p) == index {
				own = append(own, sp)
			}
		}
		maps.Copy(got, read(t, s, index, p, own))
	}
	if d := got.diff(want); d != "" {
		t.Errorf("three subtasks together: %s", d)
	}
}

// testResume resumes at positions of records and at those that fetches have reported.
func (h SourceHarness) testResume(t *testing.T) {
	s := h.New(t)
	splits := resolve(t, s)
	all := read(t, s, 0, 1, splits)
	const cuts = 8
	for cut := range 2 * cuts {
		want := contents{}
		resumed := slices.Clone(splits)
		for i := range resumed {
			sp := &resumed[i]
			rs := all[sp.ID]
			if len(rs) == 0 {
				continue
			}
			if k := cut / 2 * len(rs) / cuts; cut%2 == 0 {
				sp.Position = rs[k].offset
			} else {
				sp.Position = rs[k].reached
			}
			first := slices.IndexFunc(rs, func(r record) bool { return r.offset >= sp.Position })
			if first >= 0 {
				want[sp.ID] = rs[first:]
			}
		}
		if d := read(t, h.New(t), 0, 1, resumed).diff(want); d != "" {
			t.Fatalf("resumed at %v: %s", resumed, d)
		}
	}
}

func (h SourceHarness) testNothingLeft(t *testing.T) {
	s := h.New(t)
	splits := resolve(t, s)
	for i := range splits {
		splits[i].Position = splits[i].End
	}
	if n := read(t, s, 0, 1, splits).count(); n != 0 {
		t.Errorf("%d records behind the end", n)
	}
	if n := read(t, s, 0, 1, nil).count(); n != 0 {
		t.Errorf("%d records of no split", n)
	}
}

// testClose closes a reader that nobody has read from, and one in the middle.
func (h SourceHarness) testClose(t *testing.T) {
	s := h.New(t)
	splits := resolve(t, s)
	for _, fetches := range []int{0, 1} {
		r := open(t, s, 0, 1, splits)
		for range fetches {
			<-r.Fetches()
		}
		r.Committed(splits)
		if err := r.Close(); err != nil {
			t.Errorf("close after %d fetches: %v", fetches, err)
		}
		for range r.Fetches() { // must be closed behind what was waiting
		}
	}
}
