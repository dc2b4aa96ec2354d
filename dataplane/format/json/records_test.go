package json

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// recordsOf puts the values into one buffer, apart from each other by a byte that is no JSON.
func recordsOf(values ...string) *format.Records {
	rs := &format.Records{Split: "t/0"}
	for i, v := range values {
		rs.Buf = append(rs.Buf, 0)
		rs.Values = append(rs.Values, format.Span{Off: int32(len(rs.Buf)), Len: int32(len(v))})
		rs.Offsets = append(rs.Offsets, int64(i))
		rs.Buf = append(rs.Buf, v...)
	}
	return rs
}

// col asks for a path written with points.
func col(path string, t batch.Type) format.Column {
	return format.Column{Name: path, Path: strings.Split(path, "."), Type: t}
}

func optional(c format.Column, at int) format.Column {
	c.Optional, c.OptionalAt = true, at
	return c
}

func branchOf(cols ...format.Column) format.Branch {
	s := &batch.Schema{}
	for _, c := range cols {
		s.Fields = append(s.Fields, batch.Field{Name: c.Name, Type: c.Type, Nullable: c.Optional || c.OptionalAt > 0})
	}
	return format.Branch{Schema: s, Columns: cols}
}

func mustDecoder(t testing.TB, o Options, branches ...format.Branch) *Decoder {
	t.Helper()
	d, err := NewDecoder(o, branches)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustDecode decodes all of rs.
func mustDecode(t testing.TB, d *Decoder, rs *format.Records) ([]*batch.Batch, []format.Bad) {
	t.Helper()
	out, bad, err := d.Decode(rs, 0, rs.Len(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out, bad
}

// show renders a value for comparison.
func show(c *batch.Column, row int) string {
	switch {
	case c.Null(row):
		return "null"
	case c.Type.Kind == batch.Bool:
		return fmt.Sprint(c.Bools.Get(row))
	case c.Type.IsInt64():
		return fmt.Sprint(c.Ints[row])
	case c.Type.Kind == batch.Float64:
		return fmt.Sprint(c.Floats[row])
	case c.Type.Kind == batch.Decimal:
		return fmt.Sprintf("%d:%d", c.Decs[row].Hi, c.Decs[row].Lo)
	}
	return fmt.Sprintf("%q", c.Bytes(row))
}

// whereFunc is a predicate over a row.
type whereFunc func(b *batch.Batch, row int) (bool, error)

func (f whereFunc) Select(b *batch.Batch, sel, dst []int32) ([]int32, error) {
	in := &batch.Batch{Rows: b.Rows, Sel: sel}
	for i := range in.Len() {
		row := in.Row(i)
		take, err := f(b, row)
		if err != nil {
			return dst, &batch.RowError{Row: row, Place: "where", Err: err}
		}
		if take {
			dst = append(dst, int32(row))
		}
	}
	return dst, nil
}

var (
	bigint  = batch.Type{Kind: batch.Int64}
	text    = batch.Type{Kind: batch.String}
	double  = batch.Type{Kind: batch.Float64}
	boolean = batch.Type{Kind: batch.Bool}
	stamp3  = batch.Type{Kind: batch.Timestamp, Precision: 3}
	binary3 = batch.Type{Kind: batch.Bytes}
	day     = batch.Type{Kind: batch.Date}
	money   = batch.Type{Kind: batch.Decimal, Precision: 12, Scale: 2}
)

// auctionRecords returns n records in the shape of the Nexmark benchmark: 2 % persons, 6 % auctions, 92 % bids.
func auctionRecords(n int) *format.Records {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(r.IntN(26))
		}
		return string(b)
	}
	values := make([]string, n)
	for i := range values {
		at := fmt.Sprintf("2026-01-01 %02d:%02d:%02d.%03d", i/36000000%24, i/600000%60, i/10000%60, i/10%1000)
		switch {
		case i%50 == 0:
			values[i] = fmt.Sprintf(`{"event_type":0,"person":{"id":%d,"name":"%s %s","emailAddress":"%s@%s.com","creditCard":"1234 5678 9012 3456","city":"Phoenix","state":"AZ","dateTime":"%s","extra":"%s"},"auction":null,"bid":null}`,
				1000+i/50, word(5), word(6), word(5), word(4), at, word(100))
		case i%50 < 4:
			values[i] = fmt.Sprintf(`{"event_type":1,"person":null,"auction":{"id":%d,"itemName":"%s","description":"%s","initialBid":%d,"reserve":%d,"dateTime":"%s","expires":"%s","seller":%d,"category":%d,"extra":"%s"},"bid":null}`,
				1000+i/16, word(12), word(60), r.IntN(1e6), r.IntN(1e7), at, at, 1000+i/50, 10+r.IntN(5), word(400))
		default:
			values[i] = fmt.Sprintf(`{"event_type":2,"person":null,"auction":null,"bid":{"auction":%d,"bidder":%d,"price":%d,"channel":"channel-%d","url":"https://www.nexmark.com/%s/%s/%s/item.htm?query=1&channel_id=%d","dateTime":"%s","extra":"%s"}}`,
				1000+i/16, 1000+i/50, 100+r.IntN(1e7), r.IntN(10000), word(4), word(4), word(3), r.IntN(1<<31), at, word(54+r.IntN(28)))
		}
	}
	return recordsOf(values...)
}

// bidColumns are the seven columns of a bid, below an optional struct.
func bidColumns() []format.Column {
	cols := []format.Column{
		col("bid.auction", bigint), col("bid.bidder", bigint), col("bid.price", bigint), col("bid.channel", text),
		col("bid.url", text), col("bid.dateTime", stamp3), col("bid.extra", text),
	}
	for i := range cols {
		cols[i].OptionalAt = 1
	}
	return cols
}

// bidsOnly filters by an event type of 2 in the first column.
func bidsOnly(cols ...format.Column) format.Branch {
	b := branchOf(append([]format.Column{col("event_type", bigint)}, cols...)...)
	b.WhereColumns = []int{0}
	b.Where = equal2{}
	return b
}

// equal2 is event_type = 2 as a kernel.
type equal2 struct{}

func (equal2) Select(b *batch.Batch, sel, dst []int32) ([]int32, error) {
	ints := b.Cols[0].Ints
	if sel == nil {
		for i, n := range ints {
			if n == 2 {
				dst = append(dst, int32(i))
			}
		}
		return dst, nil
	}
	for _, i := range sel {
		if ints[i] == 2 {
			dst = append(dst, i)
		}
	}
	return dst, nil
}
