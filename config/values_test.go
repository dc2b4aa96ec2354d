package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestUnitsRoundTrip: what is rendered is read back as the same value.
func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<43).Draw(t, "ms")) * time.Millisecond
		if got, err := parseDuration(formatDuration(d)); got != d || err != nil {
			t.Errorf("duration %s: got %v, %v; want %v", formatDuration(d), got, err, d)
		}
		s := Size(rapid.Int64Min(1).Draw(t, "size"))
		if got, err := parseSize(s.String()); got != s || err != nil {
			t.Errorf("size %s: got %v, %v; want %d", s, got, err, int64(s))
		}
		r := Rate{rapid.Int64Min(1).Draw(t, "rate"), rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}
		if got, err := parseRate(r.String()); got != r || err != nil {
			t.Errorf("rate %s: got %v, %v; want %v", r, got, err, r)
		}
	})
}

// TestPathsRoundTrip: any names make a path whose SQL is read back as the same names.
func TestPathsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Path(rapid.SliceOfN(rapid.StringN(1, 8, -1), 1, 4).Draw(t, "path"))
		got, err := ParsePath(p.String())
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s: got %q, %v; want %q", p, got, err, p)
		}
	})
}

// TestTypesRoundTrip: any type is rendered as something that is read back as the same type.
func TestTypesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Field{Name: "c", Type: drawType(t, 3)}
		j := Job{Name: "j", Version: 1, Parallelism: 1, MaxParallelism: 1, Restart: Restart{None: true}, State: State{Memory: &MemoryState{}},
			Checkpoint: Checkpoint{Interval: time.Second, Timeout: time.Second, Keep: 1, Mode: ExactlyOnce},
			Sources: []Source{{Common: Common{Name: "s", UID: "s", Parallelism: 1, OnError: Fail}, Files: &FilesSource{Path: "/x"},
				Format: &Format{JSON: &JSONFormat{TimestampsISO}}, Schema: []Field{want}}},
			Sinks: []Sink{{Common: Common{Name: "o", UID: "o", Parallelism: 1, OnError: Fail}, From: []Input{{Name: "s"}}, Discard: true}}}
		got, err := ParseJob("j", j.JSON())
		if err != nil {
			t.Fatalf("ParseJob: %v\n%s", err, j.JSON())
		}
		forget(reflect.ValueOf(got).Elem())
		if !reflect.DeepEqual(got.Sources[0].Schema[0], want) {
			t.Errorf("got %v, want %v", got.Sources[0].Schema[0].Type, want.Type)
		}
	})
}

func drawType(t *rapid.T, depth int) Type {
	names := []TypeName{TypeBoolean, TypeInt, TypeBigint, TypeDouble, TypeString, TypeBytes, TypeDate, TypeDecimal, TypeTimestamp}
	if depth > 0 {
		names = append(names, TypeStruct)
	}
	out := Type{Name: rapid.SampledFrom(names).Draw(t, "type"), Optional: rapid.Bool().Draw(t, "optional")}
	switch out.Name {
	case TypeDecimal:
		out.Precision = rapid.IntRange(1, maxDecimal).Draw(t, "precision")
		out.Scale = rapid.IntRange(0, out.Precision).Draw(t, "scale")
	case TypeTimestamp:
		out.Precision = rapid.IntRange(0, maxTimestamp).Draw(t, "precision")
	case TypeStruct:
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z"' .]{1,6}`), 1, 3, rapid.ID).Draw(t, "names") {
			out.Fields = append(out.Fields, Field{Name: name, Type: drawType(t, depth-1)})
		}
	}
	return out
}

func TestSuggest(t *testing.T) {
	words := []string{"aggregate", "topic", "interval", "at_least_once"}
	for word, want := range map[string]string{
		"agregate": "aggregate", "aggergate": "aggregate", "topci": "topic", "x": "", "timeout": "", "topic": "", "at-least-once": "at_least_once",
		strings.Repeat("a", 1<<20): "",
	} {
		if got := suggest(word, words); got != want {
			t.Errorf("suggest(%.20s): got %q, want %q", word, got, want)
		}
	}
}

// TestHostileDocuments: what is too large, too deep or too often wrong is refused in time and in few words.
func TestHostileDocuments(t *testing.T) {
	big := func(unit string) string { return strings.Repeat(unit, maxDocument/len(unit)) }
	for name, text := range map[string]string{
		"too large":      big("x") + "xx",
		"deep flow":      big("["),
		"deep JSON":      strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"deep blocks":    strings.Repeat("- ", 3000) + "x",
		"wide":           big("[],\n"),
		"unknown keys":   "{" + big("kk:,")[:maxDocument-10] + "}",
		"not UTF-8":      "name: \xff",
		"params":         "params: {p: " + strings.Repeat("x", 10000) + "}\nname: \"" + strings.Repeat("${param:p}", 90000) + "\"",
		"empty":          "",
		"list":           "- a",
		"many steps":     "name: m\nsteps: {" + strings.TrimSuffix(big("a1: b, "), ", ")[:maxDocument-40] + "}",
		"surrogate half": `{"name": "\ud800"}`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := ParseJob("h", []byte(text))
			var ps Problems
			if !errors.As(err, &ps) {
				t.Fatalf("got %v, want Problems", err)
			}
			if len(ps) > maxProblems || len(err.Error()) > 1<<18 {
				t.Errorf("got %d problems of %d bytes", len(ps), len(err.Error()))
			}
			t.Log(time.Since(start), len(ps), ps[0].Error())
		})
	}
}

func TestCheckTransactionTimeout(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		interval, timeout, transaction time.Duration
		ok                             bool
	}{{10 * time.Second, 10 * m, 15 * m, true}, {5 * m, 10 * m, 15 * m, false}, {2 * m, 10 * m, 15 * m, true}, {2*m + time.Second, 10 * m, 15 * m, false}, {m, m, 0, true}} {
		if err := CheckTransactionTimeout(c.interval, c.timeout, c.transaction); (err == nil) != c.ok {
			t.Errorf("%v: got %v", c, err)
		}
	}
}
