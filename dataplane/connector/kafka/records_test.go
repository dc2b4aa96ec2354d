package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

// flat is a record as both readers see it.
type flat struct {
	offset      int64
	millis      int64
	key, value  string
	nokey, null bool
}

func (f flat) String() string {
	return fmt.Sprintf("%d@%d %q(%v)=%q(%v)", f.offset, f.millis, f.key, f.nokey, f.value, f.null)
}

// walked reads a response with the walker.
func walked(t testing.TB, rp *kmsg.FetchResponseTopicPartition, position, end int64, limit int) ([]flat, int64) {
	t.Helper()
	w := newWalker(newCodecs(64<<20), "t/0", rp, position, end)
	var got []flat
	for {
		rs, err := w.next(limit)
		if err != nil {
			t.Fatal(err)
		}
		if rs == nil {
			return got, w.position
		}
		for i := range rs.Len() {
			k, v := rs.Key(i), rs.Value(i)
			got = append(got, flat{rs.Offsets[i], rs.Times[i] / 1000, string(k), string(v), k == nil, v == nil})
		}
	}
}

// reference reads a response with the client's own code.
func reference(t testing.TB, rp *kmsg.FetchResponseTopicPartition, position int64) ([]flat, int64) {
	t.Helper()
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: position, IsolationLevel: kgo.ReadCommitted(), Topic: "t", Partition: rp.Partition,
	}, rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatal(fp.Err)
	}
	var want []flat
	for _, r := range fp.Records {
		want = append(want, flat{r.Offset, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value), r.Key == nil, r.Value == nil})
	}
	return want, next
}

// rawFetch asks the broker for everything of partition 0 of topic from offset.
func rawFetch(t testing.TB, cl *kgo.Client, topic string, offset int64) *kmsg.FetchResponseTopicPartition {
	t.Helper()
	meta, err := fetchMetadata(t.Context(), cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{cfg: SourceConfig{Topic: topic, FetchBytes: 32 << 20, PartitionBytes: 32 << 20}}
	p := &partition{topic: meta.id, leader: meta.partitions[0]}
	p.split.Position = offset
	resp, err := cl.Broker(int(p.leader.broker)).Request(t.Context(), r.fetchRequest([]*partition{p}))
	if err != nil {
		t.Fatal(err)
	}
	rp := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := codeError(rp.ErrorCode); err != nil {
		t.Fatal(err)
	}
	return rp
}

// compare holds the walker to the reference on one response, from several positions.
func compare(t *testing.T, rp *kmsg.FetchResponseTopicPartition, positions ...int64) {
	t.Helper()
	for _, position := range positions {
		for _, limit := range []int{1, 1 << 20} {
			got, gotNext := walked(t, rp, position, 1<<62, limit)
			want, wantNext := reference(t, rp, position)
			if gotNext != wantNext {
				t.Errorf("from %d: position %d, want %d", position, gotNext, wantNext)
			}
			if len(got) != len(want) {
				t.Fatalf("from %d: %d records, want %d", position, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("from %d: record %d is %v, want %v", position, i, got[i], want[i])
				}
			}
		}
	}
}

func testRecords(topic string, from, n int) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		k := from + i
		rs[i] = &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "value %d %s", k, strings.Repeat("x", k%300))}
		switch k % 5 {
		case 0:
			rs[i].Key = fmt.Appendf(nil, "key %d", k)
		case 1:
			rs[i].Key, rs[i].Value = []byte{}, nil
		case 2:
			rs[i].Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: "null"}}
		}
	}
	return rs
}

// Ensure the walker and the client read the same from batches of every codec, mixed with aborted and
// committed transactions of two producers, from any position.
func TestWalkerAgreesWithClient(t *testing.T) {
	c := kafkatest.Fake(t)
	brokers := c.ListenAddrs()
	kafkatest.CreateTopic(t, brokers, "t", 1)
	cl := kafkatest.Client(t, brokers)
	produceMixed(t, brokers, "t")
	rp := rawFetch(t, cl, "t", 0)
	if len(rp.AbortedTransactions) == 0 {
		t.Fatal("the response names no aborted transaction: the test tests nothing")
	}
	compare(t, rp, 0, 1, 7, 149, 150, 151, 500, 1000, 1<<40)
	for _, offset := range []int64{1, 100, 377} {
		compare(t, rawFetch(t, cl, "t", offset), offset)
	}
}

// produceMixed fills partition 0 with batches of every codec and with transactions of both outcomes.
func produceMixed(t testing.TB, brokers []string, topic string) {
	t.Helper()
	ctx := t.Context()
	tx := make([]*kgo.Client, 2)
	for i := range tx {
		tx[i] = kafkatest.Client(t, brokers, kgo.TransactionalID(fmt.Sprint("mixed-", i)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	n := 0
	for round, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.NoCompression()} {
		plain := kafkatest.Client(t, brokers, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i, p := range tx {
			if err := p.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			must(t, p.ProduceSync(ctx, testRecords(topic, n, 20+i)...).FirstErr())
			n += 20 + i
		}
		must(t, plain.ProduceSync(ctx, testRecords(topic, n, 50)...).FirstErr())
		n += 50
		for i, p := range tx {
			must(t, p.ProduceSync(ctx, testRecords(topic, n, 5)...).FirstErr())
			n += 5
			must(t, p.EndTransaction(ctx, kgo.TransactionEndTry((round+i)%3 == 0)))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Ensure records at and after the end of a split are not handed on, and the position stops there.
func TestWalkerStopsAtEnd(t *testing.T) {
	rp := &kmsg.FetchResponseTopicPartition{RecordBatches: slicesConcat(
		makeBatch(0, 9, 0, 1, rawRecord(0, "k", "a"), rawRecord(3, "k", "b"), rawRecord(9, "k", "c")),
		makeBatch(20, 25, 0, 1, rawRecord(0, "k", "d"), rawRecord(5, "k", "e")))}
	for _, c := range []struct {
		position, end int64
		want          string
		next          int64
	}{
		{0, 100, "abcde", 26}, {0, 26, "abcde", 26}, {0, 25, "abcd", 25}, {3, 21, "bcd", 21}, {4, 20, "c", 20},
		{0, 12, "abc", 12}, {10, 20, "", 20}, {4, 9, "", 9}, {26, 30, "", 26},
	} {
		got, next := walked(t, rp, c.position, c.end, 1<<20)
		var text string
		for _, r := range got {
			text += r.value
		}
		if text != c.want || next != c.next {
			t.Errorf("[%d, %d): %q to %d, want %q to %d", c.position, c.end, text, next, c.want, c.next)
		}
	}
}

// Ensure an empty batch, as compaction leaves it, moves the position.
func TestWalkerEmptyBatch(t *testing.T) {
	rp := &kmsg.FetchResponseTopicPartition{RecordBatches: makeBatch(5, 99, 0, 1)}
	if got, next := walked(t, rp, 5, 1<<62, 1<<20); len(got) != 0 || next != 100 {
		t.Errorf("%d records to %d, want none to 100", len(got), next)
	}
}

// Ensure damaged batches are refused with the partition and offset in the message.
func TestWalkerRefusesDamage(t *testing.T) {
	good := makeBatch(10, 12, 0, 1, rawRecord(0, "k", "a"), rawRecord(1, "k", "b"), rawRecord(2, "k", "c"))
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	for name, b := range map[string][]byte{
		"flipped bit":     flip(70),
		"flipped crc":     flip(18),
		"old magic":       func() []byte { b := bytes.Clone(good); b[16] = 1; return b }(),
		"falling offsets": makeBatch(10, 12, 0, 1, rawRecord(2, "k", "a"), rawRecord(1, "k", "b")),
		"offset outside":  makeBatch(10, 12, 0, 1, rawRecord(3, "k", "a")),
		"too many":        withCount(good, 1000),
		"too few":         withCount(good, 2),
		"unknown codec":   makeBatch(10, 12, 7, 1, rawRecord(0, "k", "a")),
		"no gzip":         makeBatch(10, 12, 1, 1, rawRecord(0, "k", "a")),
	} {
		w := newWalker(newCodecs(1<<20), "t/0", &kmsg.FetchResponseTopicPartition{RecordBatches: b}, 0, 1<<62)
		_, err := w.next(1 << 20)
		if !errors.Is(err, errCorrupt) || !strings.Contains(err.Error(), "t/0") {
			t.Errorf("%s: error %v, want a corrupt batch of t/0", name, err)
		}
	}
}

// Ensure no codec decompresses more than it may.
func TestCodecsAreBounded(t *testing.T) {
	big := make([]byte, 1<<20)
	for _, c := range []struct {
		codec codec
		opt   kgo.CompressionCodec
	}{{codecGzip, kgo.GzipCompression()}, {codecSnappy, kgo.SnappyCompression()}, {codecLZ4, kgo.Lz4Compression()}, {codecZstd, kgo.ZstdCompression()}} {
		comp, err := kgo.DefaultCompressor(c.opt)
		must(t, err)
		packed, _ := comp.Compress(new(bytes.Buffer), big)
		out, err := newCodecs(len(big)).decompress([]byte("before"), packed, c.codec)
		if err != nil || !bytes.Equal(out, append([]byte("before"), big...)) {
			t.Errorf("codec %d: %d bytes, error %v; want %d bytes", c.codec, len(out), err, len(big)+6)
		}
		if _, err := newCodecs(len(big)-1).decompress(nil, packed, c.codec); !errors.Is(err, errTooLarge) {
			t.Errorf("codec %d with a limit below the size: error %v, want %v", c.codec, err, errTooLarge)
		}
	}
}

// Ensure Java's framing of snappy is read.
func TestXerialSnappy(t *testing.T) {
	comp, err := kgo.DefaultCompressor(kgo.SnappyCompression())
	must(t, err)
	framed := append([]byte{}, xerial...)
	framed = append(framed, 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range []string{"hello ", "world"} {
		block, _ := comp.Compress(new(bytes.Buffer), []byte(part))
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
	}
	out, err := newCodecs(100).decompress(nil, framed, codecSnappy)
	if err != nil || string(out) != "hello world" {
		t.Errorf("%q, error %v; want %q", out, err, "hello world")
	}
	for cut := 1; cut < len(framed); cut++ {
		if out, err := newCodecs(100).decompress(nil, framed[:cut], codecSnappy); err == nil && len(out) >= len("hello world") {
			t.Errorf("cut at %d: %q without an error", cut, out)
		}
	}
}

// makeBatch builds a record batch whose checksum is right.
func makeBatch(first, last int64, attributes uint16, producer int64, records ...[]byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(first))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, attributes)
	b = binary.BigEndian.AppendUint32(b, uint32(last-first))
	b = binary.BigEndian.AppendUint64(b, 1_700_000_000_000)
	b = binary.BigEndian.AppendUint64(b, 1_700_000_000_999)
	b = binary.BigEndian.AppendUint64(b, uint64(producer))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(records)))
	for _, r := range records {
		b = append(b, r...)
	}
	return seal(b)
}

func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func withCount(b []byte, n uint32) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[57:], n)
	return seal(b)
}

func rawRecord(delta int64, key, value string) []byte {
	r := []byte{0}
	r = binary.AppendVarint(r, 0)
	r = binary.AppendVarint(r, delta)
	r = append(binary.AppendVarint(r, int64(len(key))), key...)
	r = append(binary.AppendVarint(r, int64(len(value))), value...)
	r = append(r, 0)
	return append(binary.AppendVarint(nil, int64(len(r))), r...)
}

func slicesConcat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// FuzzWalker feeds damaged responses, with the checksums put right so that the damage gets through: nothing
// panics, spans stay within the buffer, offsets ascend and stay within the split.
func FuzzWalker(f *testing.F) {
	f.Add(makeBatch(10, 12, 0, 1, rawRecord(0, "k", "a"), rawRecord(2, "", "c")), int64(0), true)
	f.Add(makeBatch(5, 99, attrControl|attrTx, 1, []byte{0x14, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0}), int64(0), true)
	f.Add(makeBatch(0, 1, attrTx, 1, rawRecord(0, "k", "v")), int64(1), false)
	for _, kind := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		comp, err := kgo.DefaultCompressor(kind)
		if err != nil {
			f.Fatal(err)
		}
		packed, code := comp.Compress(new(bytes.Buffer), append(rawRecord(0, "k", "v"), rawRecord(1, "k", strings.Repeat("w", 100))...))
		f.Add(withCount(makeBatch(0, 1, uint16(code), 1, packed), 2), int64(0), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, position int64, fix bool) {
		if fix && len(b) >= batchHeader {
			b = seal(bytes.Clone(b))
		}
		rp := &kmsg.FetchResponseTopicPartition{RecordBatches: b,
			AbortedTransactions: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1, FirstOffset: 3}}}
		position = max(0, position)
		w := newWalker(newCodecs(1<<16), "t/0", rp, position, 1<<40)
		last := position - 1
		for {
			rs, err := w.next(1 << 10)
			if err != nil || rs == nil {
				break
			}
			for i := range rs.Len() {
				_, _ = rs.Key(i), rs.Value(i)
				if o := rs.Offsets[i]; o <= last || o >= 1<<40 {
					t.Fatalf("offset %d after %d", o, last)
				}
				last = rs.Offsets[i]
			}
			if w.position <= last {
				t.Fatalf("position %d is not past offset %d", w.position, last)
			}
		}
	})
}

// BenchmarkWalk measures the walk over uncompressed batches of 196-byte values.
func BenchmarkWalk(b *testing.B) {
	rp := benchResponse(b)
	codecs := newCodecs(1 << 20)
	var records int
	b.SetBytes(int64(len(rp.RecordBatches)))
	for b.Loop() {
		w := newWalker(codecs, "t/0", rp, 0, 1<<62)
		rs, err := w.next(1 << 30)
		if err != nil {
			b.Fatal(err)
		}
		records = rs.Len()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}

// BenchmarkProcessFetchPartition is the client's own reading of the same bytes, to compare.
func BenchmarkProcessFetchPartition(b *testing.B) {
	rp := benchResponse(b)
	var records int
	b.SetBytes(int64(len(rp.RecordBatches)))
	for b.Loop() {
		fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, rp, kgo.DefaultDecompressor(), nil)
		records = len(fp.Records)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}

func benchResponse(b *testing.B) *kmsg.FetchResponseTopicPartition {
	c := kafkatest.Fake(b)
	kafkatest.CreateTopic(b, c.ListenAddrs(), "t", 1)
	cl := kafkatest.Client(b, c.ListenAddrs(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	var rs []*kgo.Record
	for range 5000 {
		rs = append(rs, &kgo.Record{Topic: "t", Value: bytes.Repeat([]byte("v"), 196)})
	}
	must(b, cl.ProduceSync(context.Background(), rs...).FirstErr())
	return rawFetch(b, cl, "t", 0)
}
