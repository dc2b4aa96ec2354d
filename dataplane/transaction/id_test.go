package transaction

import (
	"strings"
	"testing"
)

func TestIDRoundTrip(t *testing.T) {
	for want, id := range map[string]ID{
		"weir/0a1b/out/3/0/12":            {DefaultPrefix, "0a1b", "out", 3, 0, 12},
		"team.2epay/0a1b/a.2fb.20c/1/7/0": {"team.pay", "0a1b", "a/b c", 1, 7, 0},
	} {
		if got := id.String(); got != want {
			t.Errorf("format %+v: got %s, want %s", id, got, want)
		}
		if err := id.Validate(); err != nil {
			t.Errorf("validate %s: %v", want, err)
		}
		if got, err := Parse(want); err != nil || got != id {
			t.Errorf("parse %s: got %+v, %v, want %+v", want, got, err, id)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{
		"", "weir", "weir/0a/out/1/0", "weir/0a/out/1/0/0/0", "weir//out/1/0/0", "weir/0A/out/1/0/0", "weir/0a/out/0/0/0", "weir/0a/out/01/0/0",
		"weir/0a/out/+1/0/0", "weir/0a/out/1/-1/0", "weir/0a/out/1/0/", "weir/0a/out/1/0/ 1", "weir/0a/o.2Fut/1/0/0", "weir/0a/o.6fut/1/0/0", "weir/0a/./1/0/0",
		"./0a/out/1/0/0", "weir/0a/out/9223372036854775808/0/0", "weir/0a/out/1/2147483648/0", "my-producer-1", "weir/0a/" + strings.Repeat("x", MaxIDBytes) + "/1/0/0",
	} {
		if id, err := Parse(s); err == nil {
			t.Errorf("%.60q: accepted as %+v", s, id)
		}
	}
	for _, id := range []ID{{}, {Prefix: "weir", UID: "0a", Sink: "out", Attempt: 1, Slot: -1}, {Prefix: "weir", UID: "0a/1", Sink: "out", Attempt: 1}} {
		if id.Validate() == nil {
			t.Errorf("%+v: accepted", id)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("weir/0a1b/out/3/0/12")
	f.Add("a.2fb/0/./1/0/0")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Parse(s)
		if err != nil {
			return
		}
		if id.String() != s {
			t.Fatalf("%q parses to %+v, which formats as %q", s, id, id)
		}
		if err := id.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
