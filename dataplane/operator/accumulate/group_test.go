package accumulate

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"pgregory.net/rapid"
)

// Groups are the rows of equal canonical keys, in order, whatever the hashes are: they only speed up.
func TestGroupsAgreeWithModel(t *testing.T) {
	schema := &batch.Schema{Fields: []batch.Field{
		{Name: "i", Type: batch.Type{Kind: batch.Int64}}, {Name: "n", Type: batch.Type{Kind: batch.Int64}, Nullable: true}, {Name: "s", Type: batch.Type{Kind: batch.String}},
	}}
	rapid.Check(t, func(t *rapid.T) {
		cols := rapid.SampledFrom([][]int{{}, {0}, {1}, {2}, {0, 1}, {2, 1}, {0, 1, 2}}).Draw(t, "keys")
		colliding := rapid.Bool().Draw(t, "colliding")
		g := NewGrouper(cols, true)
		for range 3 { // later batches find earlier scratch memory
			n := rapid.IntRange(1, 60).Draw(t, "rows")
			b := &batch.Batch{Schema: schema, Rows: n}
			for _, f := range schema.Fields {
				b.Cols = append(b.Cols, batch.NewColumn(f.Type, n))
			}
			var rows []int32
			for i := range n {
				b.Cols[0].Ints[i] = rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(-50, 50)).Draw(t, "i")
				if rapid.Bool().Draw(t, "null") {
					b.Cols[1].SetNull(i, n)
				}
				b.Cols[2].SetBytes(i, []byte(rapid.SampledFrom([]string{"", "a", "ab", "a longer one than a view"}).Draw(t, "s")))
				if rapid.IntRange(0, 4).Draw(t, "selected") > 0 || i == 0 {
					rows = append(rows, int32(i))
				}
			}
			if colliding {
				b.Hash = make([]uint64, n)
			}
			checkGroups(t, g.Group(b, rows), batch.NewKeys(cols), b, rows, colliding)
		}
	})
}

func checkGroups(t *rapid.T, got *Groups, keys *batch.Keys, b *batch.Batch, rows []int32, colliding bool) {
	var order []string
	want := map[string][]int32{}
	for _, r := range rows {
		k := string(keys.Append(nil, b, int(r)))
		if want[k] == nil {
			order = append(order, k)
		}
		want[k] = append(want[k], r)
	}
	if got.Len() != len(order) || got.Keys.Len() != len(order) {
		t.Fatalf("%d groups with %d keys, want %d", got.Len(), got.Keys.Len(), len(order))
	}
	from := int32(0)
	for i, k := range order {
		if string(got.Keys.Key(i)) != k {
			t.Fatalf("key %d is %x, want %x", i, got.Keys.Key(i), k)
		}
		if hash := batch.HashBytes([]byte(k)); !colliding && got.Keys.Hash[i] != hash {
			t.Fatalf("hash %d is %x, want %x", i, got.Keys.Hash[i], hash)
		}
		if part := got.Rows[from:got.Ends[i]]; !slices.Equal(part, want[k]) || got.Last[i] != part[len(part)-1] {
			t.Fatalf("group %d has rows %v, last %d; want %v", i, part, got.Last[i], want[k])
		}
		from = got.Ends[i]
	}
}

func TestCallsAreChecked(t *testing.T) {
	for _, c := range []Call{{Func: "sum"}, {Func: "max"}, {Func: "median"}} {
		if _, err := New([]Call{c}); err == nil {
			t.Errorf("%s without an argument was accepted", c.Func)
		}
	}
}
