package json

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// fuzzBranches ask for every type at several depths, with and without predicates.
func fuzzBranches() []format.Branch {
	all := branchOf(
		col("i", bigint), optional(col("f", double), 1), optional(col("d", money), 1), optional(col("b", boolean), 1),
		optional(col("s", text), 1), optional(col("t", stamp3), 1), optional(col("y", binary3), 1), optional(col("o.i", bigint), 1),
		format.Column{Name: "o.s", Path: []string{"o", "s"}, Type: text, OptionalAt: 1}, optional(col("o.p.i", bigint), 2),
	)
	some := branchOf(col("i", bigint), optional(col("s", text), 1), optional(col("o.i", bigint), 1))
	some.WhereColumns = []int{0}
	some.Where = whereFunc(func(b *batch.Batch, row int) (bool, error) { return b.Cols[0].Ints[row] > 0, nil })
	return []format.Branch{all, some}
}

// newPair returns two decoders of the same branches; the second one never uses a layout.
func newPair(t testing.TB, branches ...format.Branch) (fast, full *Decoder) {
	fast, full = mustDecoder(t, Options{}, branches...), mustDecoder(t, Options{}, branches...)
	full.plain = true
	return fast, full
}

func render(out []*batch.Batch, bad []format.Bad) string {
	var b strings.Builder
	for _, x := range bad {
		fmt.Fprintf(&b, "bad %d: %v\n", x.Record, x.Err)
	}
	for k, o := range out {
		for i := range o.Len() {
			fmt.Fprintf(&b, "branch %d row %d:", k, o.Row(i))
			for c := range o.Cols {
				b.WriteByte(' ')
				b.WriteString(show(&o.Cols[c], o.Row(i)))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

var fuzzSeeds = []string{
	`{"i":1,"f":1.5,"d":12.34,"b":true,"s":"text","t":"2026-01-01T00:00:00.000Z","y":"/w==","o":{"i":2,"s":"x","p":{"i":3}}}`,
	`{"i":123456789,"f":-1e-9,"d":0.5,"b":false,"s":"price\":9,","t":"2026-01-01 00:00:59.999","y":"","o":null}`,
	`{"i":-5,"s":"\u00e9\ud83d\ude00","x":{"i":"\"}","n":[1,{"i":7}]},"o":{"s":"é","p":null,"i":null}}`,
	`{"x":null,"i":1,"z":[],"y":null,"w":"}"}`, `{ "i" : 7 , "o" : { "s" : "" } }`, `{"i":1,"i":2}`, `{"i":01}`, `{}`, `{"i":1}}`,
	`{"i":9223372036854775807,"x":"\\\\\""}`, "{\"i\":1,\"s\":\"\xff\"}", `{"i":1e400}`, `{"i":1,"x":12"a,b"}`, `{"x":{"a":1,"b":{}},"i":3}`,
}

// FuzzLayouts holds the layouts against the full parser: whatever record a layout was learned from, both read the
// next one alike, to the message of a bad record.
func FuzzLayouts(f *testing.F) {
	for i, a := range fuzzSeeds {
		f.Add([]byte(a), []byte(fuzzSeeds[(i+1)%len(fuzzSeeds)]))
		f.Add([]byte(a), []byte(a))
	}
	f.Add([]byte(`{"x":1,"i":2}`), []byte(`{"x":12"a,b","i":2}`))
	f.Add([]byte(`{"x":{"a":1},"i":2}`), []byte(`{"x":{"a":1}},"i":2}`))
	f.Add([]byte(`{"x":"a","i":2}`), []byte(`{"x":"a\",\"i\":3,\"","i":2}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, branches := range [][]format.Branch{fuzzBranches(), fuzzBranches()[:1], fuzzBranches()[1:]} {
			fast, full := newPair(t, branches...)
			rs := recordsOf(string(a), string(b), string(a), string(b), string(b))
			for range 2 {
				got, want := render(mustDecode(t, fast, rs)), render(mustDecode(t, full, rs))
				if got != want {
					t.Fatalf("records %q and %q:\nby layouts:\n%sby the parser:\n%s", a, b, got, want)
				}
			}
		}
	})
}

// FuzzValue holds single values against encoding/json and the standard library's number parsers.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`1`, `-0`, `12345678`, `123456789012345678`, `9223372036854775808`, `1.50`, `1e2`, `1E-400`, `1e400`, `0.30000000000000004`, `12.3456`,
		`"a"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, "\"\xff\"", "\"é\"", `"\n\/"`, `true`, `false`, `null`, `01`, `1.`, `{}`, `"`, `"0123456789abcdef\""`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if bytes.ContainsAny(value, "eE") && len(value) > 40 {
			return // keeps big.Rat small
		}
		for _, typ := range []batch.Type{bigint, double, money, boolean, text} {
			c := &columns{rows: 1, cols: []batch.Column{batch.NewColumn(typ, 1)}}
			l := &leaf{path: []string{"x"}, typ: typ}
			v := append(append([]byte{}, value...), '}')
			end, fault := c.read(l, v, 0, 0)
			got := ""
			if fault == ok {
				c.cols[0].Bufs = [][]byte{v, c.arena}
				got = show(&c.cols[0], 0)
				value := value[:min(end, len(value))]
				if !stdjson.Valid(value) {
					t.Fatalf("%s: accepted %q, which is not valid", typ, value)
				}
				if want, is := oracle(value, typ); !is || got != want {
					t.Fatalf("%s: %q: got %s, want %s (%v)", typ, value, got, want, is)
				}
				continue
			}
			if !stdjson.Valid(value) || len(value) > 0 && isSpace(value[0]) {
				continue
			}
			if want, is := oracle(value, typ); is {
				t.Fatalf("%s: %q: refused (%s), want %s", typ, value, reasons[fault], want)
			}
		}
	})
}

// oracle reads a valid JSON value as typ by other means; false if it must be refused.
func oracle(value []byte, typ batch.Type) (string, bool) {
	dec := stdjson.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var x any
	if err := dec.Decode(&x); err != nil {
		return "", false
	}
	switch x := x.(type) {
	case bool:
		return fmt.Sprint(x), typ == boolean
	case string:
		// encoding/json replaces what is no text by U+FFFD.
		ill := strings.Count(x, "\ufffd") > bytes.Count(value, []byte("\ufffd"))+bytes.Count(bytes.ToLower(value), []byte(`\ufffd`))
		return fmt.Sprintf("%q", x), typ == text && utf8.Valid(value) && !ill
	case stdjson.Number:
		switch typ {
		case bigint:
			n, err := strconv.ParseInt(string(x), 10, 64)
			return fmt.Sprint(n), err == nil
		case double:
			n, err := strconv.ParseFloat(string(x), 64)
			return fmt.Sprint(n), err == nil
		case money:
			return oracleDecimal(string(x))
		}
	}
	return "", false
}

func oracleDecimal(s string) (string, bool) {
	if mantissa, exp, has := strings.Cut(strings.ToLower(s), "e"); has {
		if n, err := strconv.Atoi(exp); err != nil || n > 1000 || n < -1000 {
			// Zero is zero with any exponent; everything else is out of range at one end.
			return "0:0", strings.Trim(mantissa, "-0.") == ""
		}
	}
	r, isRat := new(big.Rat).SetString(s)
	if !isRat {
		return "", false
	}
	r.Mul(r, big.NewRat(100, 1))
	if !r.IsInt() || new(big.Int).Abs(r.Num()).Cmp(big.NewInt(1_000_000_000_000)) >= 0 {
		return "", false
	}
	n := r.Num().Int64()
	return fmt.Sprintf("%d:%d", n>>63, uint64(n)), true
}

// FuzzRecord holds whole records against encoding/json: of a valid object every value must be found, wherever it
// stands.
func FuzzRecord(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"s":true,"s":""}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		var x struct {
			O map[string]stdjson.RawMessage
		}
		var top map[string]stdjson.RawMessage
		if stdjson.Unmarshal(record, &top) != nil || top == nil || !utf8.Valid(record) || bytes.ContainsRune(record, '\\') || repeats(record) {
			return
		}
		if raw, has := top["o"]; has {
			if stdjson.Unmarshal(raw, &x.O) != nil || repeats(raw) {
				return
			}
		}
		d := mustDecoder(t, Options{}, branchOf(optional(col("i", bigint), 1), optional(col("s", text), 1), optional(col("o.i", bigint), 2)))
		for range 2 {
			out, bad := mustDecode(t, d, recordsOf(string(record)))
			if len(bad) > 0 {
				checkRefused(t, record, bad[0].Err, top, x.O)
				continue
			}
			for c, want := range []struct {
				raw stdjson.RawMessage
				typ batch.Type
			}{{top["i"], bigint}, {top["s"], text}, {x.O["i"], bigint}} {
				got, value := show(&out[0].Cols[c], 0), "null"
				if want.raw != nil && string(want.raw) != "null" {
					value, _ = oracle(want.raw, want.typ)
				}
				if got != value {
					t.Fatalf("%q column %d: got %s, want %s", record, c, got, value)
				}
			}
		}
	})
}

// repeats reports whether an asked-for name occurs twice in the object, of which encoding/json keeps the last.
func repeats(object []byte) bool {
	dec := stdjson.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != stdjson.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return false
		}
		s, _ := name.(string)
		if seen[s] && (s == "i" || s == "s" || s == "o") {
			return true
		}
		seen[s] = true
		var skipped stdjson.RawMessage
		if dec.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// checkRefused fails if a valid record was refused without a reason.
func checkRefused(t *testing.T, record []byte, err error, top, o map[string]stdjson.RawMessage) {
	for _, x := range []struct {
		raw stdjson.RawMessage
		typ batch.Type
	}{{top["i"], bigint}, {top["s"], text}, {o["i"], bigint}} {
		if x.raw == nil || string(x.raw) == "null" {
			continue
		}
		if _, is := oracle(x.raw, x.typ); !is {
			return
		}
	}
	t.Fatalf("%q: refused: %v", record, err)
}

// Ensure dates and times agree with package time over the whole range and at random instants.
func TestCalendar(t *testing.T) {
	first, last := daysOf(0, 1, 1), daysOf(9999, 12, 31)
	for d, at := first, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); d <= last; d, at = d+1, at.AddDate(0, 0, 1) {
		y, m, day := dateOf(d)
		if y != at.Year() || m != int(at.Month()) || day != at.Day() || daysOf(y, m, day) != d {
			t.Fatalf("day %d: got %d-%d-%d, want %s", d, y, m, day, at)
		}
	}
}

// FuzzTimestamp holds the ISO notation against package time.
func FuzzTimestamp(f *testing.F) {
	f.Add(int64(0), uint8(3), 0)
	f.Add(int64(-1), uint8(6), -3600)
	f.Add(int64(1767225599999999), uint8(9), 5400)
	f.Fuzz(func(t *testing.T, micros int64, digits uint8, offset int) {
		at := time.UnixMicro(micros)
		offset = offset % 86400 / 60 * 60
		if y := at.UTC().Year(); y < 1 || y > 9998 {
			return
		}
		layout := "2006-01-02T15:04:05"
		if digits %= 10; digits > 0 {
			layout += "." + strings.Repeat("0", int(digits))
		}
		s := at.In(time.FixedZone("", offset)).Format(layout + "Z07:00")
		want, err := time.Parse(layout+"Z07:00", s)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []Timestamps{ISO, SQL} {
			if mode == SQL {
				s = at.UTC().Format(strings.Replace(layout, "T", " ", 1))
				want, _ = time.Parse(strings.Replace(layout, "T", " ", 1), s)
			}
			c := columns{mode: mode}
			for range 2 { // the second time by the cached minute
				got, end, fault := c.readTimestamp([]byte(`"`+s+`",`), 0)
				if fault != ok || got != want.UnixMicro() || end != len(s)+2 {
					t.Fatalf("%s: got %d, %s, want %d", s, got, reasons[fault], want.UnixMicro())
				}
			}
		}
	})
}
