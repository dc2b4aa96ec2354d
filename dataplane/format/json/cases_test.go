package json

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// Big integers and numbers beyond a float pass through digit by digit, or make the record bad.
func TestBigNumbers(t *testing.T) {
	br := branchOf(col("k", bigint))
	d := mustDecoder(t, Options{}, br)
	for _, s := range []string{"9007199254740992", "9007199254740993", "1234567890123456789", "-9223372036854775808", "9223372036854775807"} {
		out, bad := mustDecode(t, d, recordsOf(`{"k":`+s+`}`))
		if len(bad) > 0 {
			t.Fatalf("%s: %v", s, bad[0].Err)
		}
		if got, err := encode(t, Options{}, out[0]); err != nil || got != `{"k":`+s+`}` {
			t.Errorf("%s came out as %s, %v", s, got, err)
		}
	}
	out, _ := mustDecode(t, d, recordsOf(`{"k":9007199254740992}`, `{"k":9007199254740993}`))
	if a, b := out[0].Cols[0].AppendKey(nil, 0), out[0].Cols[0].AppendKey(nil, 1); string(a) == string(b) {
		t.Error("9007199254740992 and 9007199254740993 are one key")
	}
	for _, s := range []string{"18446744073709551615", "9223372036854775808", "0.1", "1e400"} {
		_, bad := mustDecode(t, d, recordsOf(`{"k":`+s+`}`))
		var e *Error
		if len(bad) != 1 || !errors.As(bad[0].Err, &e) || e.Path != "k" {
			t.Errorf("%s: bad=%v, want one that names k", s, bad)
		}
	}
	wide := batch.Type{Kind: batch.Decimal, Precision: 20}
	out, bad := mustDecode(t, mustDecoder(t, Options{}, branchOf(col("k", wide))), recordsOf(`{"k":18446744073709551615}`))
	if len(bad) > 0 {
		t.Fatal(bad[0].Err)
	}
	if got, err := encode(t, Options{}, out[0]); err != nil || got != `{"k":18446744073709551615}` {
		t.Errorf("18446744073709551615 as decimal(20,0) came out as %s, %v", got, err)
	}
}

// Keys are compared byte by byte, nothing is normalised or replaced, and text that is not UTF-8 is bad.
func TestUnicodeKeys(t *testing.T) {
	keys := []string{"é", "e\u0301", "a", "a\x00", "a\x00b", "😀", strings.Repeat("k", 64<<10)}
	var values []string
	for _, k := range keys {
		quoted, valid := appendString(nil, []byte(k))
		if !valid {
			t.Fatalf("%q is no text", k)
		}
		values = append(values, `{"k":`+string(quoted)+`}`)
	}
	br := branchOf(col("k", text))
	out, bad := mustDecode(t, mustDecoder(t, Options{}, br), recordsOf(values...))
	if len(bad) > 0 {
		t.Fatal(bad[0].Err)
	}
	seen := map[string]bool{}
	var dst format.Encoded
	e, err := NewEncoder(Options{}, br.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Encode(&dst, out[0], []int{0}); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if got := out[0].Cols[0].Text(i); got != k {
			t.Errorf("key %.20q was read as %.20q", k, got)
		}
		if got := string(dst.At(i)); got != values[i] {
			t.Errorf("key %.20q was written as %.30s", k, got)
		}
		seen[string(out[0].Cols[0].AppendKey(nil, i))] = true
	}
	if len(seen) != len(keys) {
		t.Errorf("%d distinct keys, want %d", len(seen), len(keys))
	}
	raw := branchOf(col("k", binary3))
	out, bad = mustDecode(t, mustDecoder(t, Options{}, raw), recordsOf(`{"k":"/w=="}`, `{"k":"/g=="}`))
	if len(bad) > 0 || string(out[0].Cols[0].Bytes(0)) != "\xff" || string(out[0].Cols[0].Bytes(1)) != "\xfe" {
		t.Errorf("bytes 0xff and 0xfe were not kept apart: %v", bad)
	}
	for _, v := range []string{"{\"k\":\"\xff\"}", "{\"k\":\"caf\xe9 and some more letters\"}", "{\"k\":\"\xf0\x9f\x98\"}"} {
		_, bad := mustDecode(t, mustDecoder(t, Options{}, br), recordsOf(v))
		if len(bad) != 1 || !strings.Contains(bad[0].Err.Error(), "k: invalid UTF-8") {
			t.Errorf("%q: bad=%v, want invalid UTF-8", v, bad)
		}
	}
}
