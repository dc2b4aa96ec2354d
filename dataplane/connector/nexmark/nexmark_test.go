package nexmark

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/dataplane/connector"
)

// Ensure the first 100,000 events, one a millisecond, are those against which the reference results were computed.
func TestEventsAreTheReference(t *testing.T) {
	g, h := newGenerator(1000), sha256.New()
	var b []byte
	for id := range int64(100_000) {
		b = append(g.append(b[:0], id), '\n')
		h.Write(b)
	}
	const want = "aeca9b88c2d9be22ab27804a46e25eed97fe61865db2330fbc9204e2776c5959"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest=%s, want %s", got, want)
	}
}

// Ensure every member of an event is a column and the other way round.
func TestColumns(t *testing.T) {
	g := newGenerator(10)
	paths := map[string]bool{"event_type": true}
	for id := range int64(cycle) {
		var e map[string]any
		if err := json.Unmarshal(g.append(nil, id), &e); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"person", "auction", "bid"} {
			members, _ := e[kind].(map[string]any)
			for name := range members {
				paths[kind+"."+name] = true
			}
		}
	}
	for _, c := range Columns() {
		if !paths[c.Name] {
			t.Errorf("column %s is no member", c.Name)
		}
		delete(paths, c.Name)
	}
	if len(paths) > 0 {
		t.Errorf("members %v are no columns", paths)
	}
}

func newSource(t testing.TB, cfg Config) *Source {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func resolve(t testing.TB, s *Source) []connector.Split {
	t.Helper()
	splits, err := s.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return splits
}

// read reads splits to their end and returns the values by event number.
func read(t testing.TB, s *Source, of int64, splits []connector.Split) map[int64]string {
	t.Helper()
	r, err := s.Open(t.Context(), 0, 1, splits)
	if err != nil {
		t.Fatal(err)
	}
	events := map[int64]string{}
	next := map[string]int64{}
	for _, sp := range splits {
		next[sp.ID] = sp.Position
	}
	for f := range r.Fetches() {
		for i, offset := range f.Records.Offsets {
			if offset != next[f.Split.ID] {
				t.Fatalf("split %s: position %d, want %d", f.Split.ID, offset, next[f.Split.ID])
			}
			next[f.Split.ID]++
			id := int64(f.Records.Partition) + offset*of
			if _, twice := events[id]; twice {
				t.Fatalf("event %d came twice", id)
			}
			events[id] = string(f.Records.Value(i))
		}
		if f.Split.Position != next[f.Split.ID] || f.Lag != f.Split.End-f.Split.Position {
			t.Fatalf("fetch ends at %d with lag %d, want %d of %d", f.Split.Position, f.Lag, next[f.Split.ID], f.Split.End)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return events
}

// Ensure the splits together have each event once, and that each can be resumed anywhere.
func TestSplits(t *testing.T) {
	const events = 10_007
	g := newGenerator(10_000)
	for _, n := range []int{1, 2, 3, 50} {
		s := newSource(t, Config{Events: events, Rate: 10_000, Splits: n})
		splits := resolve(t, s)
		got := read(t, s, int64(n), splits)
		if len(got) != events {
			t.Fatalf("%d splits: %d events, want %d", n, len(got), events)
		}
		for id, v := range got {
			if want := string(g.append(nil, id)); v != want {
				t.Fatalf("%d splits: event %d: got %s, want %s", n, id, v, want)
			}
		}
		last := splits[len(splits)-1]
		last.Position = last.End - 3
		rest := read(t, s, int64(n), []connector.Split{last})
		for k := range int64(3) {
			if id := int64(n-1) + (last.Position+k)*int64(n); rest[id] != got[id] || len(rest) != 3 {
				t.Errorf("%d splits: event %d after resuming: got %q, want %q", n, id, rest[id], got[id])
			}
		}
	}
}

// Ensure the events are valid JSON of the documented shape and time.
func TestEventShape(t *testing.T) {
	g := newGenerator(10)
	for id := range int64(500) {
		var e struct {
			EventType int64                      `json:"event_type"`
			Person    map[string]json.RawMessage `json:"person"`
			Auction   map[string]json.RawMessage `json:"auction"`
			Bid       map[string]json.RawMessage `json:"bid"`
		}
		dec := json.NewDecoder(bytes.NewReader(g.append(nil, id)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			t.Fatalf("event %d: %v", id, err)
		}
		kinds := []map[string]json.RawMessage{e.Person, e.Auction, e.Bid}
		if got, want := len(kinds[e.EventType]), []int{8, 10, 7}[e.EventType]; got != want {
			t.Fatalf("event %d: %d members, want %d", id, got, want)
		}
		want := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(id) * 100 * time.Millisecond)
		if got := string(kinds[e.EventType]["dateTime"]); got != want.Format(`"2006-01-02 15:04:05.000"`) {
			t.Fatalf("event %d: time %s, want %s", id, got, want)
		}
	}
}

// Ensure paced events come when they are due, neither early nor late, and Close ends the waiting.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, Config{Rate: 100, Pace: true, Splits: 2})
		splits := resolve(t, s)
		splits[0].Position, splits[1].Position = 5000, 5000
		start := time.Now()
		r, err := s.Open(t.Context(), 0, 1, splits)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for len(got) < 50 {
			f := <-r.Fetches()
			for _, offset := range f.Records.Offsets {
				id := int64(f.Records.Partition) + 2*offset
				got = append(got, id)
				due := time.Duration(id-10_000) * 10 * time.Millisecond
				if late := time.Since(start) - due; late < 0 || late > time.Millisecond {
					t.Fatalf("event %d came %v after it was due", id, late)
				}
			}
		}
		if !slices.IsSorted(got) {
			t.Errorf("events %v are not in order", got)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for range r.Fetches() { // closed
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{{Rate: 0}, {Rate: -1}, {Rate: 1, Events: -1}, {Rate: 1, Splits: -1}, {Rate: 1, Splits: 1 << 20}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
	s := newSource(t, Config{Rate: 1})
	for _, split := range []connector.Split{{ID: "0"}, {ID: "x", Data: json.RawMessage(`{"of":1}`)}, {ID: "1", Data: json.RawMessage(`{"of":1}`)}} {
		if _, err := s.Open(t.Context(), 0, 1, []connector.Split{split}); err == nil {
			t.Errorf("split %+v was accepted", split)
		}
	}
}

func TestOwner(t *testing.T) {
	s := newSource(t, Config{Rate: 1, Splits: 8})
	for i := range 8 {
		if got, want := s.Owner(fmt.Sprint(i), 3), i%3; got != want {
			t.Errorf("owner of %d is %d, want %d", i, got, want)
		}
	}
}

func BenchmarkGenerator(b *testing.B) {
	g := newGenerator(10_000)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for id := int64(0); b.Loop(); id++ {
		buf = g.append(buf[:0], id)
	}
}
