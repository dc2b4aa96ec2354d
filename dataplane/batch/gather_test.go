package batch

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// every has a column of every kind.
var every = &Schema{HasTime: true, Fields: []Field{
	{Name: "b", Type: Type{Kind: Bool}, Nullable: true},
	{Name: "i", Type: Type{Kind: Int64}, Nullable: true},
	{Name: "f", Type: Type{Kind: Float64}, Nullable: true},
	{Name: "d", Type: Type{Kind: Decimal, Precision: 20, Scale: 2}, Nullable: true},
	{Name: "s", Type: Type{Kind: String}, Nullable: true},
	{Name: "t", Type: Type{Kind: Timestamp, Precision: 3}, Nullable: true},
}}

// fill makes a batch of n rows from any source of numbers.
func fill(n int, next func(label string) int) *Batch {
	b := &Batch{Schema: every, Rows: n, Cols: make([]Column, len(every.Fields)), Time: make([]int64, n), Watermark: NoWatermark}
	for c := range b.Cols {
		b.Cols[c] = NewColumn(every.Fields[c].Type, n)
	}
	for i := range n {
		v := next("value")
		b.Time[i] = int64(v)
		b.Cols[0].Bools.SetTo(i, v%2 == 0)
		b.Cols[1].Ints[i] = int64(v)
		b.Cols[2].Floats[i] = float64(v) / 3
		b.Cols[3].Decs[i] = Dec128{Lo: uint64(v), Hi: -int64(v % 2)}
		b.Cols[4].SetBytes(i, []byte(strings.Repeat(fmt.Sprint(v), 1+v%9)))
		b.Cols[5].Ints[i] = int64(v) * 1000
		if v%5 == 0 {
			b.Cols[v%len(b.Cols)].SetNull(i, n)
		}
	}
	return b
}

// rowText is physical row r of b.
func rowText(b *Batch, r int) string {
	var s strings.Builder
	for c := range b.Cols {
		col := &b.Cols[c]
		switch {
		case col.Null(r):
			s.WriteString("null")
		case col.Type.Kind == Bool:
			fmt.Fprint(&s, col.Bools.Get(r))
		case col.Type.IsInt64():
			fmt.Fprint(&s, col.Ints[r])
		case col.Type.Kind == Float64:
			fmt.Fprint(&s, col.Floats[r])
		case col.Type.Kind == Decimal:
			fmt.Fprint(&s, col.Decs[r])
		default:
			s.Write(col.Bytes(r))
		}
		s.WriteByte(' ')
	}
	fmt.Fprintf(&s, "@%d %s", b.Time[r], b.ChangeAt(r))
	return s.String()
}

// Gathering rows of several batches gives these rows in this order, whatever their nulls, selections and strings.
func TestGatherModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewBuilder(every)
		var want []string
		var last *Batch
		for range rapid.IntRange(1, 6).Draw(t, "inputs") {
			src := last
			if src == nil || rapid.Bool().Draw(t, "another batch") {
				src = fill(rapid.IntRange(1, 150).Draw(t, "rows"), func(l string) int { return rapid.IntRange(0, 40).Draw(t, l) })
				if rapid.Bool().Draw(t, "changes") {
					src.Change = make([]Change, src.Rows)
					for i := range src.Change {
						src.Change[i] = Change(i % 4)
					}
				}
			}
			last = src
			rows := rapid.SliceOfN(rapid.Int32Range(0, int32(src.Rows-1)), 0, 80).Draw(t, "rows taken")
			g.Gather(src, rows)
			for _, r := range rows {
				want = append(want, rowText(src, int(r)))
			}
		}
		if g.Len() != len(want) {
			t.Fatalf("%d rows gathered, want %d", g.Len(), len(want))
		}
		b := g.Finish(7, true)
		if len(want) == 0 {
			if b != nil {
				t.Fatalf("a batch of no rows")
			}
			return
		}
		if b.Rows != len(want) || b.Watermark != 7 || !b.Idle {
			t.Fatalf("rows %d watermark %d idle %v", b.Rows, b.Watermark, b.Idle)
		}
		for i, w := range want {
			if got := rowText(b, i); got != w {
				t.Fatalf("row %d: got %s, want %s", i, got, w)
			}
		}
		if g.Len() != 0 || g.Finish(0, false) != nil {
			t.Fatal("the builder is not empty after Finish")
		}
	})
}

func TestCompactKeepsLogicalRows(t *testing.T) {
	b := fill(100, func(string) int { return 3 })
	for i := range b.Rows {
		b.Cols[1].Ints[i] = int64(i)
	}
	b.Sel, b.Watermark = []int32{3, 50, 99}, 12
	c := Compact(b)
	if c.Sel != nil || c.Rows != 3 || c.Watermark != 12 {
		t.Fatalf("%d rows, selection %v, watermark %d", c.Rows, c.Sel, c.Watermark)
	}
	for i, r := range []int{3, 50, 99} {
		if got, want := rowText(c, i), rowText(b, r); got != want {
			t.Errorf("row %d: got %s, want %s", i, got, want)
		}
	}
	b.Sel = []int32{}
	if c := Compact(b); c.Len() != 0 || c.Watermark != 12 {
		t.Errorf("nothing selected: %d rows, watermark %d", c.Len(), c.Watermark)
	}
}

// The bytes and hashes of keys decide where stored state lies: they outlive versions of the program.
func TestKeysAreGolden(t *testing.T) {
	b := &Batch{Schema: every, Rows: 3, Cols: make([]Column, len(every.Fields))}
	for c := range b.Cols {
		b.Cols[c] = NewColumn(every.Fields[c].Type, 3)
	}
	b.Cols[0].Bools.Set(0)
	b.Cols[1].Ints = []int64{-2, 1 << 40, 0}
	b.Cols[2].Floats = []float64{1.5, math.Copysign(0, -1), math.Float64frombits(0xfff8000000000123)}
	b.Cols[3].Decs = []Dec128{{Lo: 1050}, {Lo: math.MaxUint64, Hi: -1}, {}}
	b.Cols[4].SetBytes(0, []byte("ab"))
	b.Cols[4].SetBytes(1, []byte("longer than twelve"))
	b.Cols[5].Ints = []int64{1_000_000, -1, 0}
	for c := range b.Cols {
		b.Cols[c].SetNull(2, 3)
	}
	b.Cols[2].Valid = nil // the NaN is a value
	keys := NewKeys([]int{0, 1, 2, 3, 4, 5})
	for i, want := range []string{
		"010101fffffffffffffffe013ff80000000000000100000000000000000000000000" + "00041a" + "01000000026162" + "0100000000000f4240",
		"0100010000010000000000010000000000000000" + "01ffffffffffffffffffffffffffffffff" + "01000000126c6f6e676572207468616e207477656c7665" + "01ffffffffffffffff",
		"0000017ff80000000000000000" + "00",
	} {
		if got := hex.EncodeToString(keys.Append(nil, b, i)); got != want {
			t.Errorf("key %d:\ngot  %s\nwant %s", i, got, want)
		}
	}
	hashes := keys.Hash(nil, b)
	for i := range hashes {
		if want := HashBytes(keys.Append(nil, b, i)); hashes[i] != want {
			t.Errorf("hash of key %d is %x, that of its bytes %x", i, hashes[i], want)
		}
	}
	// The short cut for one integer column is no other function.
	one := NewKeys([]int{1})
	b.Cols[1].Valid = nil
	for i, h := range one.Hash(nil, b) {
		if want := HashBytes(one.Append(nil, b, i)); h != want {
			t.Errorf("hash of integer key %d is %x, that of its bytes %x", i, h, want)
		}
	}
	if got, want := HashBytes([]byte("weir")), uint64(0x9831dc741817118); got != want {
		t.Errorf("hash of weir is %x, want %x", got, want)
	}
}

// DecodeKey reverses AppendKey, and refuses what is cut off.
func TestDecodeKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := fill(1, func(l string) int { return rapid.IntRange(0, 40).Draw(t, l) })
		for c := range b.Cols {
			key := b.Cols[c].AppendKey(nil, 0)
			col := NewColumn(every.Fields[c].Type, 1)
			rest, err := col.DecodeKey(append(key, "rest"...), 0, 1)
			if err != nil || string(rest) != "rest" {
				t.Fatalf("decode %x: rest %q, %v", key, rest, err)
			}
			if again := col.AppendKey(nil, 0); string(again) != string(key) {
				t.Fatalf("column %d: %x decoded and encoded is %x", c, key, again)
			}
			for n := range key {
				cut := NewColumn(every.Fields[c].Type, 1)
				if _, err := cut.DecodeKey(key[:n], 0, 1); err == nil {
					t.Fatalf("column %d: %d of the %d bytes %x were enough", c, n, len(key), key)
				}
			}
		}
	})
}
