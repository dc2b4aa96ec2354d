package config

import (
	"errors"
	"testing"
)

// FuzzParseJob: the parser never panics; it returns a job that renders and parses again, or problems that
// say where.
func FuzzParseJob(f *testing.F) {
	for _, seed := range []string{
		wallet, minimal, "", "{", "name: [", "a: *b", "<<: {a: b}", "? [a]\n: b", "name: !!int x", "\xff", "null", "[]", `{"a":"\ud83d"}`,
		"sources: {s: {kafka: null}}", "steps: {a: {from: [a.b.c]}}", "params: {x: 1}\nname: ${param:x}", "restart: nne", "- a\n---\n- b",
		"sources: {s: {schema: {a: decimal(1,2)}}}", "steps: {a: {select: {\"*\": \"*\"}}}", "x: &a [*a]", "a: \"${\"", "sinks: {o: {kafka: {brokers: [\"${env:}\"]}}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := ParseJob("f", data)
		if err != nil {
			var ps Problems
			if !errors.As(err, &ps) || len(ps) == 0 {
				t.Fatalf("error %T %v, want Problems", err, err)
			}
			for _, p := range ps {
				if p.File != "f" || p.Message == "" || p.Line < 0 {
					t.Errorf("problem without a place: %+v", p)
				}
			}
			return
		}
		again, err := ParseJob("g", j.JSON())
		if err != nil {
			t.Fatalf("ParseJob of JSON: %v\n%s", err, j.JSON())
		}
		if got, want := string(again.JSON()), string(j.JSON()); got != want {
			t.Errorf("rendering: got %s, want %s", got, want)
		}
	})
}
