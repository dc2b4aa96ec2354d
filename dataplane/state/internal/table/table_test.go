package table

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
)

// The index against a map, with few distinct tags so that runs wrap and segments cannot always split.
func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := newIndex()
		model := map[state.Slot]uint32{}
		tags := rapid.SampledFrom([]uint32{0xffffffff, 1 << 16, 31}).Draw(r, "tags")
		next := state.Slot(0)
		for range rapid.IntRange(1, 60).Draw(r, "rounds") {
			for range rapid.IntRange(0, 100).Draw(r, "inserted") {
				tag := rapid.Uint32().Draw(r, "tag") & tags * 0x9e3779b1
				x.insert(tag, next)
				model[next] = tag
				next++
			}
			for range rapid.IntRange(0, 80).Draw(r, "removed") {
				s := state.Slot(rapid.Uint32Range(0, uint32(next)).Draw(r, "slot"))
				if tag, ok := model[s]; ok {
					x.remove(tag, s)
					delete(model, s)
				}
			}
		}
		used := 0
		for _, g := range x.segs {
			used += g.used
		}
		if used != len(model) {
			r.Fatalf("cells in use: got %d, want %d", used, len(model))
		}
		for s, tag := range model {
			if !lookUp(&x, tag, s) {
				r.Fatalf("slot %d with tag %08x is not found", s, tag)
			}
		}
	})
}

func lookUp(x *index, tag uint32, s state.Slot) bool {
	cells := x.segment(tag)
	mask := uint32(len(cells) - 1)
	for i := tag & mask; cells[i] != 0; i = (i + 1) & mask {
		if cells[i] == uint64(tag)<<32|uint64(s)+1 {
			return true
		}
	}
	return false
}

func TestIndexGrows(t *testing.T) {
	x := newIndex()
	const n = 300_000
	for i := range uint32(n) {
		x.insert(i*0x9e3779b1, state.Slot(i))
	}
	for i := range uint32(n) {
		if !lookUp(&x, i*0x9e3779b1, state.Slot(i)) {
			t.Fatalf("slot %d is not found", i)
		}
	}
	if x.cells > 4*n {
		t.Errorf("cells for %d slots: got %d, want at most %d", n, x.cells, 4*n)
	}
}

func TestArenaModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var used int64
		a := newArena(&used)
		var refs []ref
		var want [][]byte
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			v := bytes.Repeat([]byte{byte(len(refs))}, rapid.SampledFrom([]int{0, 1, 15, 16, 17, 300, 1025, 5000, 65536, 70000}).Draw(r, "length"))
			switch i := rapid.IntRange(0, len(refs)).Draw(r, "at"); {
			case i == len(refs):
				refs, want = append(refs, a.store(v)), append(want, v)
			case rapid.IntRange(0, 9).Draw(r, "compact") == 0:
				a.beginCompaction()
				for i := range refs {
					refs[i] = a.move(refs[i])
				}
				a.endCompaction()
			default:
				refs[i], want[i] = a.replace(refs[i], v), v
			}
			var live int64
			for i := range refs {
				if got := a.bytes(refs[i]); !bytes.Equal(got, want[i]) {
					r.Fatalf("value %d: got %d bytes, want %d bytes of %d", i, len(got), len(want[i]), i)
				}
				if refs[i] != 0 {
					live += int64(blockSize(refs[i].len()))
				}
			}
			if a.live != live || used != live {
				r.Fatalf("live bytes: got %d and %d in all, want %d", a.live, used, live)
			}
		}
	})
}

// Garbage of variable fields is given back in the course of batches.
func TestCompaction(t *testing.T) {
	s := NewSet(state.Config{KeyRange: job.KeyGroupRange{To: 4}, MaxParallelism: 4}, nil)
	table, err := s.Table("t", state.Layout{Vars: 1})
	if err != nil {
		t.Fatal(err)
	}
	set := func(size int) {
		for i := range 2000 {
			var slots [1]state.Slot
			if err := table.Resolve(keySet(fmt.Sprintf("a rather long key number %d", i)), slots[:]); err != nil {
				t.Fatal(err)
			}
			table.SetVar(slots[0], 0, bytes.Repeat([]byte{byte(i)}, size))
		}
	}
	set(2000)
	before := s.Bytes()
	set(20)
	for range 1000 {
		s.EndBatch()
	}
	if after := s.Bytes(); after > before/4 {
		t.Errorf("bytes: got %d after %d, want less than a quarter", after, before)
	}
	err = table.Each(func(key []byte, n state.Slot) error {
		if v := table.Var(n, 0); len(v) != 20 || bytes.Count(v, v[:1]) != 20 {
			return fmt.Errorf("key %s: %x", key, v)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func keySet(keys ...string) *state.KeySet {
	k := &state.KeySet{}
	for _, key := range keys {
		k.Bytes = append(k.Bytes, key...)
		k.Ends = append(k.Ends, int32(len(k.Bytes)))
		k.Hash = append(k.Hash, batch.HashBytes([]byte(key)))
	}
	return k
}

// Keys with one hash are told apart.
func TestEqualHashes(t *testing.T) {
	s := NewSet(state.Config{KeyRange: job.KeyGroupRange{To: 4}, MaxParallelism: 4}, nil)
	table, err := s.Table("t", state.Layout{Words: 1})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 2000 {
		keys = append(keys, fmt.Sprint(i), strings.Repeat("x", 17)+fmt.Sprint(i), strings.Repeat("\x00", i%17)+"")
	}
	k := keySet(keys...)
	for i := range k.Hash {
		k.Hash[i] = 0xabcdef0000000000
	}
	slots := make([]state.Slot, k.Len())
	if err := table.Resolve(k, slots); err != nil {
		t.Fatal(err)
	}
	byKey := map[string]state.Slot{}
	for i, key := range keys {
		if have, ok := byKey[key]; ok && have != slots[i] {
			t.Fatalf("key %q: got slots %d and %d", key, have, slots[i])
		}
		byKey[key] = slots[i]
	}
	bySlot := map[state.Slot]string{}
	for key, n := range byKey {
		if other, ok := bySlot[n]; ok {
			t.Fatalf("keys %q and %q share slot %d", key, other, n)
		}
		bySlot[n] = key
	}
}

// storage is a Below that remembers what was asked of it.
type storage struct{ loads int }

func (s *storage) Load(*state.KeySet, func(int, []byte) error) error { s.loads++; return nil }
func (s *storage) Scan([]byte, func([]byte, []byte) error) error     { s.loads++; return nil }
func records(t *testing.T, s *Set) (r []Record) {
	t.Helper()
	for {
		c, ok := s.Queue().TryNext()
		if !ok {
			return r
		}
		for len(c) > 0 {
			rec, rest, err := Next(c)
			if err != nil {
				t.Fatal(err)
			}
			r, c = append(r, rec), rest
		}
	}
}

// An entry born and gone between two barriers writes nothing, nor does a bucket; state that fits is never
// looked up below; an entry that was written leaves a deletion.
func TestBornAndGone(t *testing.T) {
	var below storage
	s := NewSet(state.Config{KeyRange: job.KeyGroupRange{To: 4}, MaxParallelism: 4}, &below)
	table, _ := s.Table("t", state.Layout{Words: 1})
	buckets, _ := s.Buckets("b", state.Layout{Words: 1})
	var slots [2]state.Slot
	bucket, _ := buckets.Bucket(7)
	for _, tb := range []state.Table{table, bucket} {
		if err := tb.Resolve(keySet("stays", "goes"), slots[:]); err != nil {
			t.Fatal(err)
		}
		tb.Delete(slots[1])
	}
	if err := buckets.Drop(7); err != nil {
		t.Fatal(err)
	}
	freeze := func() []Record {
		epoch, err := s.Freeze(false)
		if err != nil {
			t.Fatal(err)
		}
		s.Finish()
		r := records(t, s)
		s.Applied(epoch)
		s.Release()
		return r
	}
	if r := freeze(); len(r) != 1 || r[0].Op != OpSet || !bytes.HasSuffix(r[0].Key, []byte("stays")) {
		t.Errorf("first checkpoint: got %+v, want one entry", r)
	}
	if err := table.Resolve(keySet("stays"), slots[:1]); err != nil {
		t.Fatal(err)
	}
	table.Delete(slots[0])
	if r := freeze(); len(r) != 1 || r[0].Op != OpDelete {
		t.Errorf("second checkpoint: got %+v, want one deletion", r)
	}
	s.EndBatch()
	if r := freeze(); len(r) != 0 {
		t.Errorf("third checkpoint: got %+v, want nothing", r)
	}
	if s.Used() != 0 || below.loads != 0 {
		t.Errorf("got %d bytes in use and %d look-ups below, want none", s.Used(), below.loads)
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte{1, 1, 'k', 1, 'v'})
	f.Add([]byte{3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		r, rest, err := Next(chunk)
		if err != nil {
			return
		}
		if len(r.Key)+len(r.Value)+len(rest) >= len(chunk) {
			t.Errorf("more bytes out than in: %d of %d", len(r.Key)+len(r.Value)+len(rest), len(chunk))
		}
	})
}

// What lies in snapshots is read for ever.
func TestStoredValues(t *testing.T) {
	s := NewSet(state.Config{KeyRange: job.KeyGroupRange{To: 1}, MaxParallelism: 1}, nil)
	tb := newTable(s, state.Layout{Words: 5, Vars: 1}, nil)
	e := tb.entry(tb.create(1, 0, []byte("k")))
	minus := int64(-2)
	words := []uint64{0, 1, uint64(minus), math.Float64bits(1.5), 300}
	plain := "\x01" + strings.Repeat("\x00", 8) + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\xfe\xff\xff\xff\xff\xff\xff\xff" +
		"\x00\x00\x00\x00\x00\x00\xf8\x3f" + "\x2c\x01\x00\x00\x00\x00\x00\x00" + "\x02ab"
	packed := "\x02" + "\x10\x81\x02" + "\x02" + "\x03" + "\x00\x00\x00\x00\x00\x00\xf0\x7f" + "\x58\x02" + "\x02ab"
	for name, v := range map[string]string{"plain": plain, "packed": packed} {
		if err := tb.decodeValue(e, []byte(v)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := e[header+1:]; !slices.Equal(got, words) {
			t.Errorf("%s: words: got %x, want %x", name, got, words)
		}
		if got := tb.appendValue(nil, e); string(got) != packed {
			t.Errorf("%s: stored again as %q, want %q", name, got, packed)
		}
	}
	for n := range packed {
		if err := tb.decodeValue(e, []byte(packed[:n])); err == nil {
			t.Errorf("%d bytes of %d are taken for a value", n, len(packed))
		}
	}
}

func FuzzDecodeValue(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01a\x02bc"))
	f.Add([]byte("\x02\x08\x01\x02\x03\x04\x05\x06\x07\x80\x01a\x02bc"))
	f.Add([]byte("\x02\x01\x01\x01a\x02bc"))
	f.Fuzz(func(t *testing.T, v []byte) {
		s := NewSet(state.Config{KeyRange: job.KeyGroupRange{To: 1}, MaxParallelism: 1}, nil)
		tb := newTable(s, state.Layout{Words: 1, Vars: 2}, nil)
		e := tb.entry(tb.create(1, 0, []byte("k")))
		if err := tb.decodeValue(e, v); err != nil {
			return
		}
		word, a, b := e[header+2], string(tb.Var(0, 0)), string(tb.Var(0, 1))
		if err := tb.decodeValue(e, tb.appendValue(nil, e)); err != nil {
			t.Errorf("decode what was encoded: %v", err)
		}
		if e[header+2] != word || string(tb.Var(0, 0)) != a || string(tb.Var(0, 1)) != b {
			t.Errorf("got %x, %q, %q back, want %x, %q, %q", e[header+2], tb.Var(0, 0), tb.Var(0, 1), word, a, b)
		}
	})
}
