package json

import (
	"bytes"
	stdjson "encoding/json"
	"sync"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

const benchBatch = 4096

var benchRecords = sync.OnceValue(func() *format.Records { return auctionRecords(50_000) })

// benchDecode reports the time a record takes in batches of benchBatch.
func benchDecode(b *testing.B, o Options, branches ...format.Branch) {
	rs := benchRecords()
	d := mustDecoder(b, o, branches...)
	b.SetBytes(int64(len(rs.Buf) / rs.Len()))
	b.ReportAllocs()
	b.ResetTimer()
	from := 0
	for done := 0; done < b.N; {
		n := min(benchBatch, rs.Len()-from, b.N-done)
		out, bad, err := d.Decode(rs, from, from+n, nil)
		if err != nil || len(bad) > 0 || len(out) != len(branches) {
			b.Fatal(err, bad)
		}
		done += n
		if from += n; from == rs.Len() {
			from = 0
		}
	}
}

func BenchmarkDecodeBid(b *testing.B) {
	benchDecode(b, Options{Timestamps: SQL}, bidsOnly(bidColumns()...))
}

func BenchmarkDecodeBidUnfiltered(b *testing.B) {
	benchDecode(b, Options{Timestamps: SQL}, branchOf(bidColumns()...))
}

func BenchmarkDecodePriceWhereBid(b *testing.B) {
	cols := bidColumns()
	benchDecode(b, Options{Timestamps: SQL}, bidsOnly(cols[0], cols[2]))
}

func BenchmarkDecodeTypeWherePerson(b *testing.B) {
	br := branchOf(col("event_type", bigint), optional(col("person.name", text), 1))
	br.WhereColumns = []int{0}
	br.Where = zero{}
	benchDecode(b, Options{Timestamps: SQL}, br)
}

// zero is column 0 = 0 as a kernel.
type zero struct{}

func (zero) Select(b *batch.Batch, _, dst []int32) ([]int32, error) {
	for i, n := range b.Cols[0].Ints {
		if n == 0 {
			dst = append(dst, int32(i))
		}
	}
	return dst, nil
}

func BenchmarkDecodeBidByParser(b *testing.B) {
	rs := benchRecords()
	d := mustDecoder(b, Options{Timestamps: SQL}, branchOf(bidColumns()...))
	d.plain = true
	b.ResetTimer()
	for done := 0; done < b.N; done += benchBatch {
		if _, bad, err := d.Decode(rs, 0, benchBatch, nil); err != nil || len(bad) > 0 {
			b.Fatal(err, bad)
		}
	}
}

func BenchmarkStandardLibraryBid(b *testing.B) {
	rs := benchRecords()
	type event struct {
		EventType int64 `json:"event_type"`
		Bid       *struct {
			Auction, Bidder, Price        int64
			Channel, URL, DateTime, Extra string
		}
	}
	b.SetBytes(int64(len(rs.Buf) / rs.Len()))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var e event
		if err := stdjson.Unmarshal(rs.Value(i%rs.Len()), &e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFloor is the least that reading a bid's seven values in their known places costs: no validation, no
// columns.
func BenchmarkFloor(b *testing.B) {
	rs := benchRecords()
	b.SetBytes(int64(len(rs.Buf) / rs.Len()))
	sum := 0
	until := func(v []byte, skip int, c byte) ([]byte, []byte) {
		v = v[skip:]
		i := bytes.IndexByte(v, c)
		return v[:i], v[i+1:]
	}
	num := func(v []byte) (n int) {
		for _, c := range v {
			n = n*10 + int(c-'0')
		}
		return n
	}
	for i := 0; b.Loop(); i++ {
		v := rs.Value(i % rs.Len())
		if v[14] != '2' {
			continue
		}
		v = v[len(`{"event_type":2,"person":null,"auction":null,"bid":{`):]
		var f []byte
		for _, name := range [...]string{`"auction":`, `"bidder":`, `"price":`} {
			f, v = until(v, len(name), ',')
			sum += num(f)
		}
		for _, name := range [...]string{`"channel":"`, `,"url":"`, `,"dateTime":"`, `,"extra":"`} {
			f, v = until(v, len(name), '"')
			sum += len(f)
		}
	}
	if sum == 0 {
		b.Fatal("nothing was read")
	}
}
