package expr

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
)

const benchRows = 4096

// bids is a batch like those of Nexmark bids.
func bids() *batch.Batch {
	s := &batch.Schema{Fields: []batch.Field{
		{Name: "auction", Type: intType}, {Name: "price", Type: intType}, {Name: "channel", Type: textType}, {Name: "url", Type: textType},
		{Name: "rate", Type: floatType}, {Name: "amount", Type: dec122}, {Name: "optional", Type: intType, Nullable: true}, {Name: "at", Type: timestampType},
	}}
	b := &batch.Batch{Schema: s, Rows: benchRows}
	for _, f := range s.Fields {
		b.Cols = append(b.Cols, batch.NewColumn(f.Type, benchRows))
	}
	seed := uint64(1)
	for i := range benchRows {
		seed = seed*6364136223846793005 + 1442695040888963407
		r := int64(seed >> 40)
		b.Cols[0].Ints[i] = 1000 + r%1000
		b.Cols[1].Ints[i] = r % 200
		b.Cols[2].SetBytes(i, []byte([]string{"Google", "Apple", "Baidu", "channel-1234"}[r%4]))
		b.Cols[3].SetBytes(i, fmt.Appendf(nil, "https://www.nexmark.com/%d/item.htm?query=1", r))
		b.Cols[4].Floats[i] = float64(r)
		b.Cols[5].Decs[i] = batch.DecFromInt64(r)
		b.Cols[6].Ints[i] = r
		if r%10 == 0 {
			b.Cols[6].SetNull(i, benchRows)
		}
		b.Cols[7].Ints[i] = 1_767_225_600_000_000 + r*1000
	}
	return b
}

func benchProgram(b *testing.B, src string) (*batch.Batch, *Program) {
	data := bids()
	n, err := Parse(src)
	if err != nil {
		b.Fatal(err)
	}
	typed, err := Bind(n, SchemaScope(data.Schema))
	if err != nil {
		b.Fatal(err)
	}
	return data, mustCompile(b, typed)
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
}

func BenchmarkSelect(b *testing.B) {
	for _, src := range []string{
		"price > 100", "price > 100 and auction % 123 = 0", "auction % 123 = 0", "channel = 'Apple'", "url = 'https://www.nexmark.com/1/item.htm?query=1'",
		"price between 10 and 20", "channel in ('Apple', 'Google')", "price > auction - 1050", "optional > 1000", "rate > 1e3", "amount > 100.5", "url like '%item%'", "price < 50 or price > 150",
	} {
		b.Run(src, func(b *testing.B) {
			data, p := benchProgram(b, src)
			q, err := NewPredicate(p)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]int32, 0, benchRows)
			b.ReportAllocs()
			for b.Loop() {
				if dst, err = q.Select(data, nil, dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b)
		})
	}
}

func BenchmarkEval(b *testing.B) {
	for _, src := range []string{
		"price + 1", "price * auction", "price * 0.908", "rate * 0.5e0 + 1", "case when price > 100 then price else 0 end", "coalesce(optional, 0)",
		"upper(channel)", "channel || url", "split_index(url, '/', 3)", "date_trunc('hour', at)", "date_format(at, 'yyyy-MM-dd')", "cast(price as string)", "amount + 1", "amount / 3",
	} {
		b.Run(src, func(b *testing.B) {
			data, p := benchProgram(b, src)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Borrow(data, nil); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b)
		})
	}
}
