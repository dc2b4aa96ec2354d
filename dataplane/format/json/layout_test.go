package json

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/format"
)

// writer makes records of changing shape, most of them valid.
type writer struct {
	*rand.Rand
	space bool
}

func (w *writer) pick(s ...string) string { return s[w.IntN(len(s))] }

func (w *writer) ws() string {
	if !w.space {
		return ""
	}
	return w.pick("", " ", "\n", "\t ")
}

// object writes the members in their order or shuffled, some left out, foreign ones in between.
func (w *writer) object(members map[string]func() string, order []string) string {
	order = slices.Clone(order)
	if w.IntN(4) == 0 {
		w.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	}
	var parts []string
	for _, name := range order {
		if w.IntN(6) == 0 {
			continue
		}
		if w.IntN(5) == 0 {
			parts = append(parts, w.foreign())
		}
		parts = append(parts, w.ws()+`"`+name+`"`+w.ws()+":"+w.ws()+members[name]()+w.ws())
	}
	if w.IntN(3) == 0 {
		parts = append(parts, w.foreign())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (w *writer) foreign() string {
	return `"` + w.pick("x", "y", "zz", `"`[:0]+`q\"i`) + `":` +
		w.pick(`null`, `1`, `-2.5e3`, `"i"`, `"\",\"i\":9,\""`, `"}"`, `[]`, `[{"i":5}]`, `{}`, `{"i":6,"s":"\\"}`, `{"o":{"i":null}}`, `true`)
}

func (w *writer) record() string {
	number := func() string { return w.pick("0", "1", "2", "12345", "1234567890", "-7", "null") }
	text := func() string {
		return w.pick(`""`, `"a"`, `"exactly12chr"`, `"more than twelve characters"`, `"esc\n"`, `"é"`, `null`, `"}"`)
	}
	inner := map[string]func() string{"i": number, "s": text, "p": func() string { return w.pick(`null`, `{}`, `{"i":1}`, `{"i":null,"x":1}`) }}
	r := w.object(map[string]func() string{
		"i": func() string { return w.pick("1", "2", "-3", "77") },
		"f": func() string { return w.pick("1.5", "1e300", "0.1") },
		"d": func() string { return w.pick("1.50", "3", "0.001") },
		"b": func() string { return w.pick("true", "false") },
		"s": text,
		"t": func() string {
			return w.pick(`"2026-01-01T00:00:01.000Z"`, `"2026-01-01 00:01:59.999"`, `"2026-01-01T00:00:01+01:00"`, `"x"`)
		},
		"y": func() string { return w.pick(`"/w=="`, `"AAECAwQFBgcICQoLDA0ODw=="`, `"?"`) },
		"o": func() string {
			if w.IntN(3) == 0 {
				return "null"
			}
			return w.object(inner, []string{"i", "s", "p"})
		},
	}, []string{"i", "f", "d", "b", "s", "t", "y", "o"})
	if w.IntN(20) == 0 { // a mistake somewhere
		b := []byte(r)
		b[w.IntN(len(b))] = `"{}[],:\ 0x`[w.IntN(11)]
		return string(b)
	}
	return r
}

// Ensure that reading by layouts and reading by the grammar are the same, over records of many shapes that come
// often enough to be learned, forgotten and learned again.
func TestLayoutsAgreeWithParser(t *testing.T) {
	for seed := range uint64(4) {
		for k, branches := range [][]format.Branch{fuzzBranches(), fuzzBranches()[1:], fuzzBranches()[:1]} {
			w := &writer{Rand: rand.New(rand.NewPCG(seed, 7)), space: seed == 3}
			shapes := make([]string, 3+20*seed)
			for i := range shapes {
				shapes[i] = w.record()
			}
			fast, full := newPair(t, branches...)
			for round := range 40 {
				values := make([]string, 100)
				for i := range values {
					if values[i] = shapes[w.IntN(len(shapes))]; w.IntN(10) == 0 {
						values[i] = w.record()
					}
				}
				rs := recordsOf(values...)
				got, want := render(mustDecode(t, fast, rs)), render(mustDecode(t, full, rs))
				if got != want {
					t.Fatalf("seed %d, branches %d, round %d: layouts and parser differ:\n%s", seed, k, round, firstDifference(got, want))
				}
			}
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("got  %s\nwant %s", g[i], w[i])
		}
	}
	return "one is longer"
}

// Ensure that records of a known layout do not reach the parser.
func TestLayoutsAreUsed(t *testing.T) {
	d := mustDecoder(t, Options{Timestamps: SQL}, bidsOnly(bidColumns()...))
	rs := auctionRecords(1000)
	mustDecode(t, d, rs)
	second := d.second[1]
	if d.guess.reader != second {
		t.Error("bids are not expected although most records are bids")
	}
	first, rest := d.first.p.record, second.p.record
	if first == 0 || first > 3 || rest == 0 || rest > 3 {
		t.Errorf("the parser read %d and %d records of 1000, want at most one a shape", first, rest)
	}
	mustDecode(t, d, rs)
	if d.first.p.record != first || second.p.record != rest {
		t.Errorf("the parser read %d and %d records more, want none", d.first.p.record-first, second.p.record-rest)
	}
}

// Ensure that a new shape is learned although the table is full of old ones.
func TestLayoutsAreReplaced(t *testing.T) {
	d := mustDecoder(t, Options{}, branchOf(optional(col("i", bigint), 1)))
	for k := range 3 * maxLayouts {
		mustDecode(t, d, recordsOf(fmt.Sprintf(`{"x%d":true,"i":1}`, k)))
	}
	if got := len(d.first.layouts.all); got != maxLayouts {
		t.Fatalf("%d layouts, want %d", got, maxLayouts)
	}
	values := slices.Repeat([]string{`{"new":"shape","i":7}`}, 2*relearnAfter)
	mustDecode(t, d, recordsOf(values...))
	before := d.first.p.record
	out, _ := mustDecode(t, d, recordsOf(values...))
	if d.first.p.record != before || out[0].Cols[0].Ints[9] != 7 {
		t.Errorf("the parser read %d records of a frequent shape", d.first.p.record-before)
	}
}

// Ensure the number of allocations does not depend on the number of records or rows.
func TestAllocations(t *testing.T) {
	d := mustDecoder(t, Options{Timestamps: SQL}, bidsOnly(bidColumns()...))
	rs := auctionRecords(2000)
	out, _ := mustDecode(t, d, rs)
	decode := func(n int) float64 {
		return testing.AllocsPerRun(10, func() {
			if _, bad, err := d.Decode(rs, 0, n, nil); err != nil || len(bad) > 0 {
				t.Fatal(err, bad)
			}
		})
	}
	if few, many := decode(100), decode(2000); many > few+2 || many > 30 {
		t.Errorf("%v allocations for 2000 records, %v for 100", many, few)
	}
	e, err := NewEncoder(Options{}, out[0].Schema)
	if err != nil {
		t.Fatal(err)
	}
	var dst format.Encoded
	if n := testing.AllocsPerRun(10, func() {
		dst.Reset()
		if err := e.Encode(&dst, out[0], []int{0, 1, 2, 3, 4, 5, 6, 7}); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations to encode %d rows, want none", n, out[0].Len())
	}
}
