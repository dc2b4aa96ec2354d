package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// codecSchema has a column of every kind.
var codecSchema = &Schema{HasTime: true, Fields: []Field{
	{Name: "flag", Type: Type{Kind: Bool}},
	{Name: "n", Type: Type{Kind: Int64}},
	{Name: "f", Type: Type{Kind: Float64}},
	{Name: "d", Type: Type{Kind: Decimal, Precision: 38, Scale: 4}},
	{Name: "at", Type: Type{Kind: Timestamp, Precision: 3}},
	{Name: "day", Type: Type{Kind: Date}},
	{Name: "s", Type: Type{Kind: String}},
	{Name: "b", Type: Type{Kind: Bytes}},
}}

// cells describes every logical row of b, for comparison.
func cells(b *Batch) []string {
	out := []string{fmt.Sprintf("rows %d watermark %d idle %v time %v hash %v change %v",
		b.Len(), b.Watermark, b.Idle, b.Time != nil, b.Hash != nil, b.Change != nil)}
	for i := range b.Len() {
		r := b.Row(i)
		var row []byte
		for c := range b.Cols {
			row = b.Cols[c].AppendKey(row, r)
		}
		line := fmt.Sprintf("%x %v", row, b.ChangeAt(r))
		if b.Time != nil {
			line += fmt.Sprint(" at ", b.Time[r])
		}
		if b.Hash != nil {
			line += fmt.Sprint(" hash ", b.Hash[r])
		}
		out = append(out, line)
	}
	return out
}

// drawBatch draws a batch of codecSchema, with or without each optional part.
func drawBatch(t *rapid.T) *Batch {
	rows := rapid.IntRange(0, 200).Draw(t, "rows")
	b := &Batch{Schema: codecSchema, Rows: rows, Cols: emptyColumns(codecSchema)}
	b.Watermark = rapid.Int64().Draw(t, "watermark")
	b.Idle = rapid.Bool().Draw(t, "idle")
	value := rapid.SliceOfN(rapid.Byte(), 0, 40)
	for c := range b.Cols {
		col := &b.Cols[c]
		col.Grow(rows)
		nulls := rapid.Bool().Draw(t, "nulls")
		for i := range rows {
			drawCell(t, col, i, value)
			if nulls && rapid.Bool().Draw(t, "null") {
				col.SetNull(i, rows)
			}
		}
	}
	if rapid.Bool().Draw(t, "has time") {
		b.Time = rapid.SliceOfN(rapid.Int64(), rows, rows).Draw(t, "time")
	}
	if rapid.Bool().Draw(t, "has hash") {
		b.Hash = rapid.SliceOfN(rapid.Uint64(), rows, rows).Draw(t, "hash")
	}
	if rapid.Bool().Draw(t, "has change") {
		b.Change = rapid.SliceOfN(rapid.SampledFrom([]Change{Insert, UpdateBefore, UpdateAfter, Delete}), rows, rows).Draw(t, "change")
	}
	if rapid.Bool().Draw(t, "has selection") {
		b.Sel = []int32{}
		for i := range rows {
			if rapid.Bool().Draw(t, "selected") {
				b.Sel = append(b.Sel, int32(i))
			}
		}
	}
	return b
}

func drawCell(t *rapid.T, c *Column, i int, value *rapid.Generator[[]byte]) {
	switch {
	case c.Type.Kind == Bool:
		c.Bools.SetTo(i, rapid.Bool().Draw(t, "bool"))
	case c.Type.IsInt64():
		c.Ints[i] = rapid.Int64().Draw(t, "int")
	case c.Type.Kind == Float64:
		c.Floats[i] = rapid.Float64().Draw(t, "float")
	case c.Type.Kind == Decimal:
		c.Decs[i] = Dec128{Lo: rapid.Uint64().Draw(t, "lo"), Hi: rapid.Int64().Draw(t, "hi")}
	default:
		c.SetBytes(i, value.Draw(t, "bytes"))
	}
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawBatch(t)
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "prefix")
		wire := AppendBatch(slices.Clone(prefix), in)
		if !bytes.HasPrefix(wire, prefix) {
			t.Fatalf("the bytes before the batch changed: %x, want %x", wire[:len(prefix)], prefix)
		}
		if got, want := len(wire)-len(prefix), EncodedSize(Compact(in)); got != want {
			t.Fatalf("%d bytes were appended, EncodedSize says %d", got, want)
		}
		out, err := DecodeBatch(wire[len(prefix):], codecSchema)
		if err != nil {
			t.Fatal(err)
		}
		want := in
		if in.Len() == 0 { // a batch without rows keeps its watermark only
			want = WatermarkOnly(codecSchema, in.Watermark, in.Idle)
		}
		if got, want := cells(out), cells(Compact(want)); !slices.Equal(got, want) {
			t.Fatalf("decoded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// sample is a small batch with short and long values, nulls and changes.
func sample() *Batch {
	b := &Batch{Schema: codecSchema, Rows: 3, Cols: emptyColumns(codecSchema), Watermark: 42}
	for c := range b.Cols {
		b.Cols[c].Grow(3)
	}
	for i, v := range []string{"short", "a value of more than twelve bytes", "another long value"} {
		b.Cols[6].SetBytes(i, []byte(v))
		b.Cols[7].SetBytes(i, []byte(strings.ToUpper(v)))
		b.Cols[1].Ints[i] = math.MaxInt64 - int64(i)
	}
	b.Cols[7].SetNull(1, 3)
	b.Time = []int64{1, 2, 3}
	b.Change = []Change{Insert, UpdateBefore, Delete}
	return b
}

// Decoding aliases an aligned frame: nothing is allocated per row or per value.
func TestDecodeDoesNotCopy(t *testing.T) {
	wire := AppendBatch(nil, sample())
	out, err := DecodeBatch(wire, codecSchema)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(wire, []byte("a value of more"))
	wire[at] = 'A'
	if got, want := out.Cols[6].Text(1), "A value of more than twelve bytes"; got != want {
		t.Errorf("value = %q after the frame changed, want %q", got, want)
	}
	if bytes.Contains(wire, []byte("A VALUE OF")) {
		t.Error("the bytes of a null row were sent")
	}
	wire[at] = 'a'
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := DecodeBatch(wire, codecSchema); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 3 {
		t.Errorf("%v allocations a batch, want 3: the batch, its columns, their heaps", allocs)
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	good := AppendBatch(nil, sample())
	heap := bytes.Index(good, []byte("a value of more"))
	edit := func(f func(b []byte) []byte) []byte { return f(slices.Clone(good)) }
	for name, src := range map[string][]byte{
		"empty":           {},
		"version":         edit(func(b []byte) []byte { b[0] = 9; return b }),
		"unknown flag":    edit(func(b []byte) []byte { b[1] |= 0x80; return b }),
		"columns":         edit(func(b []byte) []byte { b[2]--; return b }),
		"rows":            edit(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[4:], math.MaxUint32); return b }),
		"no rows":         edit(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[4:], 0); return b }),
		"one row more":    edit(func(b []byte) []byte { b[4]++; return b }),
		"column type":     edit(func(b []byte) []byte { b[headerSize] = byte(Float64); return b }),
		"column flag":     edit(func(b []byte) []byte { b[headerSize+3] = 2; return b }),
		"heap of a bool":  edit(func(b []byte) []byte { b[headerSize+4] = 8; return b }),
		"changed heap":    edit(func(b []byte) []byte { b[heap]++; return b }),
		"too long":        append(slices.Clone(good), 0),
		"unknown change":  edit(func(b []byte) []byte { b[len(b)-8] = 4; return b }),
		"offset too far":  edit(func(b []byte) []byte { b[heap-16-1] = 0x7f; return b }),
		"negative length": edit(func(b []byte) []byte { b[heap-16-13] = 0xff; return b }),
		"buffer":          edit(func(b []byte) []byte { b[heap-16-8] = 1; return b }),
		"inline garbage":  edit(func(b []byte) []byte { b[heap-3*16+15] = 1; return b }),
	} {
		if b, err := DecodeBatch(src, codecSchema); err == nil {
			t.Errorf("%s: decoded %v, want an error", name, cells(b))
		}
	}
	for n := range good {
		if _, err := DecodeBatch(good[:n], codecSchema); err == nil {
			t.Errorf("the first %d of %d bytes were decoded", n, len(good))
		}
	}
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add(AppendBatch(nil, sample()), false)
	f.Add(AppendBatch(nil, WatermarkOnly(codecSchema, 7, true)), true)
	f.Fuzz(func(t *testing.T, src []byte, misaligned bool) {
		if misaligned {
			src = append([]byte{0}, src...)[1:]
		}
		b, err := DecodeBatch(src, codecSchema)
		if err != nil {
			return
		}
		again, err := DecodeBatch(AppendBatch(nil, b), codecSchema)
		if err != nil {
			t.Fatalf("encode and decode again: %v", err)
		}
		if got, want := cells(again), cells(b); !slices.Equal(got, want) {
			t.Errorf("decoded again\n%v\nwant\n%v", got, want)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	in := &Batch{Schema: codecSchema, Rows: 2048, Cols: emptyColumns(codecSchema), Time: make([]int64, 2048)}
	for c := range in.Cols {
		in.Cols[c].Grow(in.Rows)
		for i := range in.Rows {
			if in.Cols[c].Type.IsView() {
				in.Cols[c].SetBytes(i, []byte("a value of thirty-one bytes ...")[:6+i%26])
			}
		}
	}
	wire := AppendBatch(nil, in)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(wire)))
		dst := make([]byte, 0, len(wire))
		for b.Loop() {
			dst = AppendBatch(dst[:0], in)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(wire)))
		for b.Loop() {
			if _, err := DecodeBatch(wire, codecSchema); err != nil {
				b.Fatal(err)
			}
		}
	})
}
