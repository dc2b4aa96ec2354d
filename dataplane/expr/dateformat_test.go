package expr

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"pgregory.net/rapid"
)

// A row's text does not depend on the rows beside it.
func TestDateFormatOfRuns(t *testing.T) {
	schema := &batch.Schema{Fields: []batch.Field{{Name: "t", Type: batch.Type{Kind: batch.Timestamp, Precision: 6}}}}
	steps := []int64{0, 1, 999, 1000, usSecond - 1, usSecond, usMinute, usHour - 1, usHour, usDay - 1, usDay, -1, -usHour}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SampledFrom([]string{"yyyy-MM-dd", "yy DDD", "yyyy-MM-dd HH", "hh", "HH:mm", "ss", "ss.SSS", "SSSSSS", "'a day'"}).Draw(t, "pattern")
		times := []int64{rapid.Int64Range(-usDay*800_000, usDay*800_000).Draw(t, "start")}
		for range rapid.IntRange(1, 20).Draw(t, "rows") {
			times = append(times, times[len(times)-1]+rapid.SampledFrom(steps).Draw(t, "step"))
		}
		all := formatted(t, schema, pattern, times)
		for i, at := range times {
			if want := formatted(t, schema, pattern, []int64{at})[0]; all[i] != want {
				t.Fatalf("%s of %d behind %v: got %q, want %q", pattern, at, times[:i], all[i], want)
			}
		}
	})
}

func formatted(t *rapid.T, s *batch.Schema, pattern string, times []int64) (out []string) {
	n, err := Parse("date_format(t, '" + strings.ReplaceAll(pattern, "'", "''") + "')")
	if err != nil {
		t.Fatal(err)
	}
	typed, err := Bind(n, SchemaScope(s))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(typed, nil)
	if err != nil {
		t.Fatal(err)
	}
	col := batch.Column{Type: s.Fields[0].Type, Ints: times}
	res, err := p.Eval(&batch.Batch{Schema: s, Rows: len(times), Cols: []batch.Column{col}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range times {
		out = append(out, string(res.Bytes(i)))
	}
	return out
}
