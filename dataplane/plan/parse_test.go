package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/config"
)

// parsed are the mistakes of a spec as path: message, in order, and whether they are in the order of their places.
func parsed(t *testing.T, spec string) (mistakes []string, sorted bool) {
	t.Helper()
	_, err := Parse("job.yaml", []byte(spec), nil)
	if err == nil {
		return nil, true
	}
	var ps config.Problems
	if !errors.As(err, &ps) {
		t.Fatalf("the error is a %T, want config.Problems", err)
	}
	inOrder := slices.Clone(ps)
	inOrder.Sort()
	for _, m := range ps {
		mistakes = append(mistakes, m.Path+": "+m.Message)
	}
	return mistakes, slices.Equal(ps, inOrder)
}

// Mistakes of the shape and of columns come in one list. What is only a consequence of one in it does not.
func TestMistakesOfShapeAndColumnsTogether(t *testing.T) {
	spec := func(source, steps, sinks string) string {
		return "name: x\nsources:\n  s: {kafka: {brokers: ['b:1'], topic: t}, format: json, schema: {id: bigint, amount: double, at: timestamp(3)}" + source + "}\n" +
			"  other: {kafka: {brokers: ['b:1'], topic: u}, format: json, schema: {id: bigint}}\nsteps:\n" + steps + "sinks:\n" + sinks
	}
	out := "  o: {from: a, discard: {}}\n"
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"a key of a sink and a column of a step", spec("", "  a: {from: s, where: ammount > 1}\n", "  o: {from: a, print: {}, formt: json}\n"),
			[]string{"steps.a.where: no column \"ammount\"", "sinks.o.formt: unknown key"}},
		{"later columns come after an earlier key", spec(", parallelism: two", "  a: {from: s, select: [idd]}\n", out),
			[]string{"sources.s.parallelism: ", "steps.a.select[0]: no column \"idd\""}},
		{"a key that may have been meant to declare columns hides what reads them", spec(", metdata: {k: key}", "  a: {from: s, select: [k]}\n", out),
			[]string{"sources.s.metdata: unknown key"}},
		{"a source without known columns hides what reads it, and nothing else",
			spec(", metadata: {k: kee}", "  a: {from: s, where: nope > 1}\n  b: {from: other, where: idd = 1}\n", out+"  p: {from: b, discard: {}}\n"),
			[]string{"sources.s.metadata.k: ", "steps.b.where: no column \"idd\""}},
		{"an input that is not there hides what reads it", spec("", "  a: {from: [s, nobody], where: nope > 1}\n  b: {from: a, where: nope > 1}\n", "  o: {from: b, discard: {}}\n"),
			[]string{"steps.a.from"}},
		{"a filter is judged beside an operator that is wrong", spec("", "  a: {from: s, where: nope > 1, key_by: [id], aggregate: 5, select: [n]}\n", out),
			[]string{"steps.a.where: no column \"nope\"", "steps.a.aggregate: "}},
		{"an operator is judged beside a filter that is wrong", spec("", "  a: {from: s, where: [1], key_by: [idd], aggregate: {n: count(*)}, ttl: none}\n", out),
			[]string{"steps.a.where: ", "steps.a.key_by[0]: no column \"idd\""}},
		{"what reads a step that is wrong is left alone", spec("", "  a: {from: s, select: [id, {1: 2}]}\n  b: {from: a, where: nope > 1}\n", "  o: {from: b, discard: {}}\n"),
			[]string{"steps.a.select[1]"}},
		{"a sink whose key is wrong is not told that it has none",
			spec("", "  a: {from: s, key_by: [id], aggregate: {n: count(*)}, ttl: none}\n", "  o: {from: a, kafka: {brokers: ['b:1'], topic: o}, format: json, upsert: {}}\n"),
			[]string{"sinks.o.upsert: "}},
		{"a name that is taken means nobody", spec("", "  s: {from: other, select: [{only_here: id}]}\n  a: {from: s, where: only_here > 1}\n", out),
			[]string{"steps.s: the name is taken"}},
		{"a param that is wrong may be anything", "params: {x: [1]}\n" + spec("", "  a: {from: s, where: ammount > 1}\n", out),
			[]string{"params.x: "}},
		{"nothing can be read", "name: [", []string{": no YAML"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, sorted := parsed(t, c.spec)
			if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
			}
			if !sorted {
				t.Error("the mistakes are not in the order of their places")
			}
		})
	}
}

// Whatever key of a good spec is misspelt or given a value of another shape: beyond what the parser says there is
// nothing to say, since the columns and expressions are right.
func TestNoMistakeFollowsFromAnother(t *testing.T) {
	lines := strings.Split(transfers, "\n")
	tried := 0
	try := func(what string, i int, line string) {
		t.Helper()
		spec := slices.Clone(lines)
		spec[i] = line
		text := []byte(strings.Join(spec, "\n"))
		j, own := config.ReadJob("job.yaml", text, nil)
		if len(own) == 0 {
			return // not a mistake of the shape: a column of another name, say
		}
		own.Sort()
		tried++
		if _, err := Parse("job.yaml", text, nil); err == nil || err.Error() != own.Error() {
			t.Errorf("line %d, %s: %s\nmistakes of the shape:\n%v\nall:\n%v\njob read: %v", i+1, what, line, own, err, j != nil)
		}
	}
	for i, line := range lines {
		for at := range line {
			if line[at] != ':' || at == 0 || strings.ContainsRune(" '\"0123456789", rune(line[at-1])) {
				continue
			}
			try("a key misspelt", i, line[:at]+"zz"+line[at:])
			if rest := line[at+1:]; strings.TrimSpace(rest) == "" || rest[0] != ' ' {
				continue
			}
			end := strings.IndexAny(line[at+2:], ",]}")
			if end < 0 {
				end = len(line[at+2:])
			}
			for _, value := range []string{"[[0]]", "{zz: 0}", "", "0", "true"} {
				try("another value", i, line[:at+1]+" "+value+line[at+2+end:])
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d mistakes were tried, want many", tried)
	}
}
