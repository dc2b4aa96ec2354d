package json

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// Ensure each type reads what it must and refuses the rest, with the reason.
func TestDecodeValues(t *testing.T) {
	wide := batch.Type{Kind: batch.Decimal, Precision: 38, Scale: 10}
	for _, tt := range []struct {
		typ   batch.Type
		mode  Timestamps
		value string
		want  string // or the start of the error's reason after "!"
	}{
		{typ: bigint, value: `0`, want: "0"},
		{typ: bigint, value: `-0`, want: "0"},
		{typ: bigint, value: `12345678`, want: "12345678"},
		{typ: bigint, value: `9223372036854775807`, want: "9223372036854775807"},
		{typ: bigint, value: `-9223372036854775808`, want: "-9223372036854775808"},
		{typ: bigint, value: `9223372036854775808`, want: "!out of range for bigint"},
		{typ: bigint, value: `-9223372036854775809`, want: "!out of range for bigint"},
		{typ: bigint, value: `18446744073709551616`, want: "!out of range for bigint"},
		{typ: bigint, value: `99999999999999999999999999`, want: "!out of range for bigint"},
		{typ: bigint, value: `1.0`, want: "!a fraction or exponent is no bigint"},
		{typ: bigint, value: `1e400`, want: "!a fraction or exponent is no bigint"},
		{typ: bigint, value: `01`, want: "!not a valid number"},
		{typ: bigint, value: `012345678`, want: "!not a valid number"},
		{typ: bigint, value: `-`, want: "!not a valid number"},
		{typ: bigint, value: `1x`, want: "!not a valid number"},
		{typ: bigint, value: `1.`, want: "!not a valid number"},
		{typ: bigint, value: `+1`, want: "!not valid JSON"},
		{typ: bigint, value: `"1"`, want: "!value does not have the type bigint"},
		{typ: bigint, value: `null`, want: "!null, and not optional"},
		{typ: bigint, value: `nul`, want: "!not valid JSON"},
		{typ: double, value: `0.1`, want: "0.1"},
		{typ: double, value: `-0.0`, want: "-0"},
		{typ: double, value: `123456789012345678901234567890`, want: "1.2345678901234568e+29"},
		{typ: double, value: `1e22`, want: "1e+22"},
		{typ: double, value: `1E-7`, want: "1e-07"},
		{typ: double, value: `2.2250738585072011e-308`, want: "2.225073858507201e-308"},
		{typ: double, value: `1e400`, want: "!out of range for double"},
		{typ: double, value: `NaN`, want: "!not valid JSON"},
		{typ: double, value: `.5`, want: "!not valid JSON"},
		{typ: money, value: `12.34`, want: "0:1234"},
		{typ: money, value: `-0.01`, want: "-1:18446744073709551615"},
		{typ: money, value: `12.3400`, want: "0:1234"},
		{typ: money, value: `1.234e1`, want: "0:1234"},
		{typ: money, value: `1e2`, want: "0:10000"},
		{typ: money, value: `1200e-2`, want: "0:1200"},
		{typ: money, value: `0.0e5`, want: "0:0"},
		{typ: money, value: `9999999999.99`, want: "0:999999999999"},
		{typ: money, value: `10000000000.00`, want: "!out of range for decimal(12,2)"},
		{typ: money, value: `0.001`, want: "!more digits after the point than fit decimal(12,2)"},
		{typ: money, value: `1e-99999999999999999999`, want: "!more digits after the point than fit decimal(12,2)"},
		{typ: money, value: `1e99999999999999999999`, want: "!out of range for decimal(12,2)"},
		{typ: wide, value: `9999999999999999999999999999.9999999999`, want: "5421010862427522170:687399551400673279"},
		{typ: boolean, value: `true`, want: "true"},
		{typ: boolean, value: `false`, want: "false"},
		{typ: boolean, value: `tru`, want: "!not valid JSON"},
		{typ: boolean, value: `0`, want: "!value does not have the type boolean"},
		{typ: text, value: `""`, want: `""`},
		{typ: text, value: `"a \"quoted\" \\ \/ \b\f\n\r\t"`, want: `"a \"quoted\" \\ / \b\f\n\r\t"`},
		{typ: text, value: `"\u00e9\ud83d\ude00 and more than twelve"`, want: `"é😀 and more than twelve"`},
		{typ: text, value: "\"é😀 unescaped, more than twelve\"", want: `"é😀 unescaped, more than twelve"`},
		{typ: text, value: `"\ud83d"`, want: "!invalid escape"},
		{typ: text, value: `"\ude00\ud83d"`, want: "!invalid escape"},
		{typ: text, value: `"\x"`, want: "!invalid escape"},
		{typ: text, value: "\"\xff\"", want: "!invalid UTF-8"},
		{typ: text, value: "\"\xed\xa0\x80\"", want: "!invalid UTF-8"},
		{typ: text, value: "\"\xc0\x80\"", want: "!invalid UTF-8"},
		{typ: text, value: "\"a\nb\"", want: "!string is not closed"},
		{typ: text, value: "\"a\x00b\"", want: "!string is not closed"},
		{typ: text, value: `"a\u0000b"`, want: `"a\x00b"`},
		{typ: text, value: `1`, want: "!value does not have the type string"},
		{typ: binary3, value: `"/wD+"`, want: `"\xff\x00\xfe"`},
		{typ: binary3, value: `"/w=="`, want: `"\xff"`},
		{typ: binary3, value: `"/w"`, want: "!not base64"},
		{typ: binary3, value: `"/x=="`, want: "!not base64"},
		{typ: binary3, value: `"/wD\n+"`, want: "!not base64"},
		{typ: day, value: `"1970-01-02"`, want: "1"},
		{typ: day, value: `"1969-12-31"`, want: "-1"},
		{typ: day, value: `"2000-02-29"`, want: "11016"},
		{typ: day, value: `"1900-02-29"`, want: "!not in the configured notation of date"},
		{typ: day, value: `"2026-04-31"`, want: "!not in the configured notation of date"},
		{typ: stamp3, value: `"1970-01-01T00:00:01Z"`, want: "1000000"},
		{typ: stamp3, value: `"1970-01-01 00:00:01.5"`, want: "1500000"},
		{typ: stamp3, value: `"1969-12-31T23:59:59.999999999Z"`, want: "-1"},
		{typ: stamp3, value: `"1970-01-01T01:00:00.000+01:00"`, want: "0"},
		{typ: stamp3, value: `"1969-12-31T19:00:00-0500"`, want: "0"},
		{typ: stamp3, value: `"1970-01-01T\u0030\u0031:00:00+01"`, want: "0"},
		{typ: stamp3, value: `"1970-01-01T24:00:00Z"`, want: "!not in the configured notation of timestamp(3)"},
		{typ: stamp3, value: `"1970-01-01T00:00:60Z"`, want: "!not in the configured notation of timestamp(3)"},
		{typ: stamp3, value: `"1970-01-01T00:00:00.Z"`, want: "!not in the configured notation of timestamp(3)"},
		{typ: stamp3, value: `"1970-01-01"`, want: "!not in the configured notation of timestamp(3)"},
		{typ: stamp3, value: `0`, want: "!value does not have the type timestamp(3)"},
		{typ: stamp3, mode: SQL, value: `"1970-01-01 00:00:00.123"`, want: "123000"},
		{typ: stamp3, mode: SQL, value: `"1970-01-01T00:00:00.123"`, want: "!not in the configured notation"},
		{typ: stamp3, mode: SQL, value: `"1970-01-01 00:00:00.123Z"`, want: "!not in the configured notation"},
		{typ: stamp3, mode: EpochSeconds, value: `-2`, want: "-2000000"},
		{typ: stamp3, mode: EpochMillis, value: `1767225600123`, want: "1767225600123000"},
		{typ: stamp3, mode: EpochMicros, value: `9223372036854775807`, want: "9223372036854775807"},
		{typ: stamp3, mode: EpochMillis, value: `9223372036854776`, want: "!out of range for timestamp(3)"},
		{typ: stamp3, mode: EpochMillis, value: `"1970-01-01T00:00:01Z"`, want: "!value does not have the type"},
	} {
		d := mustDecoder(t, Options{Timestamps: tt.mode}, branchOf(col("x", tt.typ)))
		// Twice: by the parser, then by the layout learned from a record that is good for sure.
		for pass, rs := range []*format.Records{
			recordsOf(`{"x":` + tt.value + `}`),
			recordsOf(`{"x":`+tt.value+`}`, `{"x":`+tt.value+`}`, `{"x":`+tt.value+`}`),
		} {
			out, bad := mustDecode(t, d, rs)
			got := ""
			var e *Error
			if len(bad) == rs.Len() && errors.As(bad[0].Err, &e) {
				got = "!" + e.Reason
			} else if len(bad) == 0 {
				got = show(&out[0].Cols[0], rs.Len()-1)
			}
			if got != tt.want && (tt.want[0] != '!' || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("pass %d: %s from %s: got %s, want %s", pass, tt.typ, tt.value, got, tt.want)
			}
			if e != nil && e.Path != "x" && e.Path != "" {
				t.Errorf("%s: path %q, want x", tt.value, e.Path)
			}
		}
	}
}

// Ensure the structure of a delivered record is checked to its end, and nested paths and absences are told apart.
func TestDecodeStructure(t *testing.T) {
	cols := []format.Column{
		col("id", bigint),
		{Name: "price", Path: []string{"bid", "price"}, Type: bigint, OptionalAt: 1},
		{Name: "note", Path: []string{"bid", "note"}, Type: text, OptionalAt: 1, Optional: true},
	}
	for _, tt := range []struct{ value, want string }{
		{`{"id":1,"bid":{"price":2,"note":"n"}}`, `1 2 "n"`},
		{` { "id" : 1 , "bid" : { "price" : 2 , "note" : "n" } } `, `1 2 "n"`},
		{`{"bid":{"note":null,"price":2},"id":1}`, `1 2 null`},
		{`{"bid":{"price":2},"id":1}`, `1 2 null`},
		{`{"bid":null,"id":1}`, `1 null null`},
		{`{"id":1}`, `1 null null`},
		{`{"i\u0064":1,"b\u0069d":{"price":2}}`, `1 2 null`},
		{`{"a":"\"price\":7,","bid":{"x":{"price":8},"y":[{"price":9}],"price":2},"id":1}`, `1 2 null`},
		{`{"x":"\\","id":1,"y":"\\\"","z":"\\\\"}`, `1 null null`},
		{`{"x":[1,{"a":"}]"},[]],"id":1,"y":{},"z":-1.5e3,"t":true,"f":false,"n":null}`, `1 null null`},
		{`{"id":1,"bid":{}}`, `!bid.price: missing`},
		{`{"id":1,"bid":{"note":"n"}}`, `!bid.price: missing`},
		{`{"id":1,"bid":{"price":null}}`, `!bid.price: null`},
		{`{"id":1,"bid":3}`, `!bid: not an object`},
		{`{"id":1,"bid":[]}`, `!bid: not an object`},
		{`{}`, `!id: missing`},
		{`{"ID":1}`, `!id: missing`},
		{`{"id":1,"id":2}`, `!id: name occurs twice`},
		{`{"id":1,"bid":null,"bid":{"price":1}}`, `!bid: name occurs twice`},
		{`{"id":1,"bid":{"price":1,"pric\u0065":1}}`, `!bid.price: name occurs twice`},
		{``, `!byte 0: not a JSON object`},
		{`null`, `!byte 0: not a JSON object`},
		{`[{"id":1}]`, `!byte 0: not a JSON object`},
		{`"id"`, `!byte 0: not a JSON object`},
		{"\x00\x01\xff", `!byte 0: not a JSON object`},
		{"\xef\xbb\xbf{\"id\":1}", `!byte 0: not a JSON object`},
		{`{`, `!byte 1: not valid JSON`},
		{`{"id":1`, `!id: not a valid number`},
		{`{"id":1,}`, `!byte 8: not valid JSON`},
		{`{"id" 1}`, `!byte 6: not valid JSON`},
		{`{id:1}`, `!byte 1: not valid JSON`},
		{`{"id":1}}`, `!byte 8: something follows`},
		{`{"id":1} {"id":2}`, `!byte 9: something follows`},
		{`{"id":1,"x":}`, `!byte 12: not valid JSON`},
		{`{"id":1,"x":tru}`, `!byte 12: not valid JSON`},
		{`{"id":1,"x":"open}`, `!byte 12: not valid JSON`},
		{`{"id":1,"x":[1,2}`, `!byte 17: not valid JSON`},
		{`{"id":1 "x":2}`, `!byte 8: not valid JSON`},
		{"{\"id\":1,\"\xff\":2}", `!byte 8: invalid UTF-8`},
	} {
		d := mustDecoder(t, Options{}, branchOf(cols...))
		for _, times := range []int{1, 3} {
			rs := recordsOf(strings.Split(strings.Repeat(tt.value+"\x1e", times), "\x1e")[:times]...)
			out, bad := mustDecode(t, d, rs)
			got := ""
			switch {
			case len(bad) == times:
				got = "!" + strings.TrimPrefix(bad[0].Err.Error(), "json: ")
			case len(bad) == 0:
				var vals []string
				for c := range cols {
					vals = append(vals, show(&out[0].Cols[c], times-1))
				}
				got = strings.Join(vals, " ")
			}
			if got != tt.want && (tt.want[0] != '!' || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("%s (%d times): got %s, want %s", tt.value, times, got, tt.want)
			}
		}
	}
}

// Ensure a record without a value is told apart, and bad records keep their places.
func TestDecodeBadRecords(t *testing.T) {
	rs := recordsOf(`{"x":1}`, ``, `{"x":true}`, `{"x":4}`)
	rs.Values[1].Len = -1
	d := mustDecoder(t, Options{}, branchOf(col("x", bigint)))
	out, bad, err := d.Decode(rs, 1, 4, []format.Bad{{Record: 99}})
	if err != nil {
		t.Fatal(err)
	}
	if len(bad) != 3 || bad[0].Record != 99 || bad[1].Record != 1 || bad[2].Record != 2 {
		t.Fatalf("bad=%v, want records 99, 1, 2", bad)
	}
	if !errors.Is(bad[1].Err, ErrNullValue) {
		t.Errorf("err=%v, want ErrNullValue", bad[1].Err)
	}
	if b := out[0]; b.Rows != 3 || len(b.Sel) != 1 || b.Sel[0] != 2 || b.Cols[0].Ints[2] != 4 {
		t.Errorf("rows=%d sel=%v ints=%v, want 3, [2], 4 at 2", b.Rows, b.Sel, b.Cols[0].Ints)
	}
	if _, _, err := d.Decode(rs, 2, 5, nil); err == nil {
		t.Error("range beyond the records was accepted")
	}
}

// Ensure each branch gets its rows, a rejected row is read no further, and a row that is bad for one of its
// takers is left out of all.
func TestDecodeBranches(t *testing.T) {
	one := branchOf(col("k", bigint), col("a", bigint))
	one.WhereColumns = []int{0}
	one.Where = whereFunc(func(b *batch.Batch, row int) (bool, error) { return b.Cols[0].Ints[row] == 1, nil })
	odd := branchOf(col("s", text), col("k", bigint), col("b", bigint))
	odd.WhereColumns = []int{1, 0}
	odd.Where = whereFunc(func(b *batch.Batch, row int) (bool, error) {
		if b.Cols[0].Text(row) == "unescaped, divide by zero" {
			return false, errors.New("division by zero")
		}
		return b.Cols[1].Ints[row]%2 == 1, nil
	})
	rs := recordsOf(
		`{"s":"","k":1,"a":10,"b":20}`,
		`{"s":"","k":2,"a":"not read","b":"not read"}`,
		`{"s":"","k":3,"a":"not read","b":21}`,
		`{"s":"","k":1,"a":11,"b":"bad"}`,
		`{"s":"unescaped, divide\u0020by zero","k":1,"a":12,"b":22}`,
		`{"s":"","k":5,"b":23}`,
	)
	d := mustDecoder(t, Options{}, one, odd)
	for range 2 {
		out, bad := mustDecode(t, d, rs)
		if len(bad) != 2 || bad[0].Record != 3 || bad[1].Record != 4 {
			t.Fatalf("bad=%v, want records 3 and 4", bad)
		}
		var re *batch.RowError
		if !errors.As(bad[1].Err, &re) {
			t.Errorf("err=%v, want a RowError", bad[1].Err)
		}
		if got := out[0].Sel; len(got) != 1 || got[0] != 0 || out[0].Cols[1].Ints[0] != 10 {
			t.Errorf("first branch: rows %v, want [0]", got)
		}
		if got := out[1].Sel; len(got) != 3 || got[0] != 0 || got[1] != 2 || got[2] != 5 {
			t.Errorf("second branch: rows %v, want [0 2 5]", got)
		}
		for row, want := range map[int]int64{0: 20, 2: 21, 5: 23} {
			if got := out[1].Cols[2].Ints[row]; got != want {
				t.Errorf("row %d: b=%d, want %d", row, got, want)
			}
		}
	}
}

// Ensure the expectation that a record is taken like those before it changes nothing: what its takers do not need
// is not refused, what they need is, and names that occur twice are found.
func TestDecodeUnexpected(t *testing.T) {
	takes := func(k int64) format.Branch {
		b := branchOf(col("k", bigint), col([]string{"", "a", "b"}[k], bigint))
		b.WhereColumns = []int{0}
		b.Where = whereFunc(func(b *batch.Batch, row int) (bool, error) { return b.Cols[0].Ints[row] == k, nil })
		return b
	}
	d := mustDecoder(t, Options{}, takes(1), takes(2))
	usual := slices.Repeat([]string{`{"k":1,"a":5,"b":6}`}, 10)
	mustDecode(t, d, recordsOf(usual...))
	if d.guess.reader == nil || d.guess.set != 1 {
		t.Fatalf("expected takers %b, want the first branch", d.guess.set)
	}
	for _, tt := range []struct{ value, want string }{
		{`{"k":3,"a":5,"b":6}`, ""},
		{`{"k":3,"a":"x","b":"x"}`, ""},
		{`{"k":2,"a":5,"b":6}`, "branch 1 row 10: 2 6\n"},
		{`{"k":2,"a":"x","b":6}`, "branch 1 row 10: 2 6\n"},
		{`{"k":2,"a":5,"b":"x"}`, "bad 10: json: b: value does not have the type bigint (byte 17)\n"},
		{`{"k":1,"a":"x","b":6}`, "bad 10: json: a: value does not have the type bigint (byte 11)\n"},
		{`{"k":2,"a":5,"b":6,"k":1}`, "bad 10: json: k: name occurs twice (byte 23)\n"},
		{`{"k":1,"a":5,"b":6,"k":1}`, "bad 10: json: k: name occurs twice (byte 23)\n"},
		{`{"k":3,"a":5,"b":6,"k":1}`, ""},
		{`{"k":2,"a":5,"b":6`, "bad 10: json: b: not a valid number (byte 17)\n"},
	} {
		out, bad := mustDecode(t, d, recordsOf(append(slices.Clone(usual), tt.value)...))
		got := render(out, bad)
		for i := range usual {
			got = strings.Replace(got, fmt.Sprintf("branch 0 row %d: 1 5\n", i), "", 1)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.value, got, tt.want)
		}
	}
}

// Ensure many rows that cannot be evaluated are each reported once.
func TestDecodeManyRowErrors(t *testing.T) {
	b := branchOf(col("k", bigint))
	b.WhereColumns = []int{0}
	b.Where = whereFunc(func(b *batch.Batch, row int) (bool, error) {
		if k := b.Cols[0].Ints[row]; k%3 == 0 {
			return false, errors.New("division by zero")
		}
		return true, nil
	})
	var values []string
	for i := range 1000 {
		values = append(values, `{"k":`+string(rune('0'+i%10))+`}`)
	}
	out, bad := mustDecode(t, mustDecoder(t, Options{}, b), recordsOf(values...))
	if len(bad) != 400 || len(out[0].Sel) != 600 {
		t.Fatalf("bad=%d taken=%d, want 400 and 600", len(bad), len(out[0].Sel))
	}
	for i := 1; i < len(out[0].Sel); i++ {
		if out[0].Sel[i-1] >= out[0].Sel[i] {
			t.Fatalf("selection is not ascending at %d", i)
		}
	}
}

// Ensure branches that ask for nothing, or only for what was read, work.
func TestDecodeNothing(t *testing.T) {
	count := branchOf()
	d := mustDecoder(t, Options{}, count)
	out, bad := mustDecode(t, d, recordsOf(`{"a":1}`, `{"a":`, `{}`))
	if out[0].Rows != 3 || out[0].Len() != 2 || len(bad) != 1 {
		t.Errorf("rows=%d len=%d bad=%v, want 3, 2, one", out[0].Rows, out[0].Len(), bad)
	}
	out, bad = mustDecode(t, d, recordsOf())
	if out[0].Rows != 0 || out[0].Len() != 0 || len(bad) != 0 {
		t.Errorf("rows=%d len=%d bad=%v of no records", out[0].Rows, out[0].Len(), bad)
	}
}

func TestNewDecoderRefuses(t *testing.T) {
	for name, b := range map[string][]format.Branch{
		"no path":            {branchOf(format.Column{Name: "x", Type: bigint})},
		"no type":            {branchOf(col("x", batch.Type{}))},
		"value and struct":   {branchOf(col("x", bigint), col("x.y", bigint))},
		"struct and value":   {branchOf(col("x.y", bigint)), branchOf(col("x", text))},
		"too many consumers": make([]format.Branch, 65),
	} {
		if _, err := NewDecoder(Options{}, b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
