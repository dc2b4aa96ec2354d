package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A gate never lets a lower attempt act again, and admits each attempt once.
func TestGateModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGate()
		highest := Attempt(0)
		admitted, stopped := map[Attempt]bool{}, map[Attempt]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"see": func(t *rapid.T) {
				a := Attempt(rapid.Int64Range(1, 6).Draw(t, "attempt"))
				newer, err := g.See(Ref{"u", a})
				if newer != (a > highest) {
					t.Fatalf("See(%d) is newer: %v, highest %d", a, newer, highest)
				}
				if refused := a < highest; (err != nil) != refused || refused && ClassOf(err) != Fenced {
					t.Fatalf("See(%d): %v, highest %d", a, err, highest)
				}
				highest = max(highest, a)
			},
			"admit": func(t *rapid.T) {
				a := Attempt(rapid.Int64Range(1, 6).Draw(t, "attempt"))
				first, err := g.Admit(Ref{"u", a})
				refused := a < highest || stopped[a] && !admitted[a]
				if (err != nil) != refused || refused && ClassOf(err) != Fenced {
					t.Fatalf("Admit(%d): %v; highest %d, stopped %v, admitted %v", a, err, highest, stopped[a], admitted[a])
				}
				if want := !refused && !admitted[a]; first != want {
					t.Fatalf("Admit(%d) is the first: %v, want %v", a, first, want)
				}
				highest = max(highest, a)
				admitted[a] = admitted[a] || first
			},
			"stop": func(t *rapid.T) {
				a := Attempt(rapid.Int64Range(1, 6).Draw(t, "attempt"))
				g.Stop(Ref{"u", a})
				stopped[a] = true
			},
			"": func(t *rapid.T) {
				if got := g.Highest("u"); got != highest {
					t.Fatalf("highest %d, want %d", got, highest)
				}
				if _, err := g.See(Ref{"other", 1}); err != nil {
					t.Fatalf("another job's attempt is refused: %v", err)
				}
			},
		})
	})
}

// The ranges of all subtasks partition the key groups, and OwnerOf agrees with them.
func TestKeyGroupsArePartitioned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 1000).Draw(t, "groups")
		p := rapid.IntRange(1, groups).Draw(t, "parallelism")
		next := KeyGroup(0)
		for i := range p {
			r := RangeOf(i, p, groups)
			if r.From != next || r.Len() < 1 {
				t.Fatalf("subtask %d of %d owns %s, want it to begin at %d and not to be empty", i, p, r, next)
			}
			for g := r.From; g < r.To; g++ {
				if got := OwnerOf(g, p, groups); got != i || !r.Contains(g) {
					t.Fatalf("key group %d belongs to %d, want %d", g, got, i)
				}
			}
			next = r.To
		}
		if int(next) != groups {
			t.Fatalf("key groups end at %d, want %d", next, groups)
		}
	})
}

func TestEscapeIsOneSafeSegment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("./_-a %\x00")), 0, 6, -1)).Draw(t, "text")
		e := Escape(s)
		if e == "" || e == ".." || strings.ContainsAny(e, "/\x00 %") {
			t.Fatalf("Escape(%q) = %q is no safe segment", s, e)
		}
		back, err := Unescape(e)
		if err != nil || back != s {
			t.Fatalf("Unescape(Escape(%q)) = %q, %v", s, back, err)
		}
	})
	for _, bad := range []string{"a/b", ".", "..", ".2", ".zz", ".61", ".2F", "a b", ""} {
		if got, err := Unescape(bad); err == nil && bad != "." {
			t.Errorf("Unescape(%q) = %q, want it refused", bad, got)
		}
	}
}

func TestPlace(t *testing.T) {
	nodes := []NodeSlots{{ID: "b", Slots: 1}, {ID: "c", Slots: 3}, {ID: "a", Slots: 1}, {ID: "full", Slots: 0}}
	p, err := Place(4, nodes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(p.Slots), "[{c } {a } {b } {c }]"; got != want {
		t.Errorf("placed on %s, want %s", got, want)
	}
	if got := p.SlotsOf("c"); len(got) != 2 || got[0] != 0 || got[1] != 3 {
		t.Errorf("slots of c: %v", got)
	}
	if got := p.Nodes(); len(got) != 3 || got[0].Node != "c" {
		t.Errorf("nodes %v, want c, a, b", got)
	}
	var few *TooFewSlotsError
	if _, err := Place(6, nodes); !errors.As(err, &few) || few.Have != 5 || few.Need != 6 {
		t.Errorf("Place of too much: %v", err)
	}
	if nodes[1].Slots != 3 {
		t.Error("Place changed its input")
	}
}

func TestClassOf(t *testing.T) {
	base := errors.New("x")
	for _, tc := range []struct {
		err  error
		want Class
	}{
		{base, Retryable},
		{fmt.Errorf("wrapped: %w", AsFatal(base)), Fatal},
		{&SubtaskError{Err: AsFenced(base)}, Fenced},
		{AsRetryable(AsFatal(base)), Retryable},
		{errors.Join(base, AsFatal(base)), Fatal},
	} {
		if got := ClassOf(tc.err); got != tc.want || !errors.Is(tc.err, base) {
			t.Errorf("%v is %s, want %s", tc.err, got, tc.want)
		}
	}
	if AsFatal(nil) != nil {
		t.Error("AsFatal(nil) is an error")
	}
}

// Two graphs have the same digest only if they are the same: nodes that compile another one are refused by it.
func TestGraphDigest(t *testing.T) {
	g := func() *Graph {
		return &Graph{MaxParallelism: 128, Vertices: []Vertex{{UID: "a", Parallelism: 2}, {UID: "b", Parallelism: 3}},
			Edges: []Edge{{From: 0, To: 1, Exchange: Hash, Keys: []string{"k"}}}}
	}
	one, same := g(), g()
	if one.Digest() != same.Digest() {
		t.Error("equal graphs differ")
	}
	other := g()
	other.Edges[0].Keys[0] = "l"
	if g().Digest() == other.Digest() {
		t.Error("graphs with other keys have one digest")
	}
	if got := g().MaxVertexParallelism(); got != 3 {
		t.Errorf("needs %d slots, want 3", got)
	}
	if in, out := g().Inputs(1), g().Outputs(0); len(in) != 1 || len(out) != 1 {
		t.Errorf("edges in %v, out %v", in, out)
	}
}
