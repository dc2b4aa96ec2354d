package cluster

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// nexmark is a job of the named queries over the generator's events, each with a sink out_<name>.
func nexmark(parallelism int, backend string, names ...string) string {
	var steps, sinks strings.Builder
	for _, q := range queries {
		if slices.Contains(names, q.name) {
			fmt.Fprintf(&steps, "  %s: %s\n", q.name, q.step)
			fmt.Fprintf(&sinks, "  out_%[1]s: {from: %[1]s, discard: {}}\n", q.name)
		}
	}
	return fmt.Sprintf(`
name: oracle
parallelism: %d
sources:
  events:
    nexmark: {events: 100000, rate: 1000/s}
    event_time: {at: "coalesce(bid.dateTime, auction.dateTime, person.dateTime)", max_out_of_order: 4s}
steps:
  bid: {from: events, where: event_type = 2, select: [bid.*]}
%ssinks:
%sstate: {%s: {}}
`, parallelism, steps.String(), sinks.String(), backend)
}

// query is a query of the oracle in the job language. keys is the number of its leading columns that identify a
// row, 0 if it only appends.
type query struct {
	name, step string
	keys       int
}

var queries = []query{
	{"q0", `{from: bid, select: [auction, bidder, price, dateTime, extra]}`, 0},
	{"q1", `{from: bid, select: [auction, bidder, {price: 0.908 * price}, dateTime, extra]}`, 0},
	{"q2", `{from: bid, where: "mod(auction, 123) = 0", select: [auction, price]}`, 0},
	{"q14", `
    from: bid
    where: 0.908 * price > 1000000 and 0.908 * price < 50000000
    select:
      - auction
      - bidder
      - price: 0.908 * price
      - time: >-
          case when hour(dateTime) >= 8 and hour(dateTime) <= 18 then 'dayTime'
          when hour(dateTime) <= 6 or hour(dateTime) >= 20 then 'nightTime' else 'otherTime' end
      - dateTime
      - extra
      - c: char_length(extra) - char_length(replace(extra, 'c', ''))`, 0},
	{"q17", `
    from: bid
    key_by: [auction, {day: "date_format(dateTime, 'yyyy-MM-dd')"}]
    aggregate:
      total: count(*)
      rank1: count(*) filter (where price < 10000)
      rank2: count(*) filter (where price >= 10000 and price < 1000000)
      rank3: count(*) filter (where price >= 1000000)
      min: min(price)
      max: max(price)
      avg: avg(price)
      sum: sum(price)
    ttl: none
    select: [auction, day, total, rank1, rank2, rank3, min, max, avg, sum]`, 2},
	{"q21", `
    from: bid
    where: "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) is not null or lower(channel) in ('apple', 'google', 'facebook', 'baidu')"
    select:
      - auction
      - bidder
      - price
      - channel
      - channel_id: >-
          case when lower(channel) = 'apple' then '0' when lower(channel) = 'google' then '1'
          when lower(channel) = 'facebook' then '2' when lower(channel) = 'baidu' then '3'
          else regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) end`, 0},
	{"q22", `{from: bid, select: [auction, bidder, price, channel, {a: "split_index(url, '/', 3)"}, {b: "split_index(url, '/', 4)"}, {c: "split_index(url, '/', 5)"}]}`, 0},
	{"tumble", `
    from: bid
    key_by: [auction]
    window: {tumble: 10s}
    aggregate: {n: count(*), total: sum(price)}
    select: [auction, window_start, window_end, n, total]`, 0},
}

// answers are rows and digest of every query, from testdata/flink.tsv.
func answers(t *testing.T) map[string][2]string {
	t.Helper()
	f, err := os.Open("testdata/flink.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][2]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Split(s.Text(), "\t"); len(fields) == 3 && !strings.HasPrefix(s.Text(), "#") {
			out[fields[0]] = [2]string{fields[1], fields[2]}
		}
	}
	return out
}

// check compares the committed rows of the named queries with what Flink answered.
func (c *cluster) check(names ...string) {
	c.t.Helper()
	flink := answers(c.t)
	for _, q := range queries {
		if !slices.Contains(names, q.name) {
			continue
		}
		want, ok := flink[q.name]
		if !ok {
			c.t.Fatalf("no answer of %s", q.name)
		}
		rows := c.out.rows("out_" + q.name)
		if q.keys > 0 {
			rows = c.out.table("out_"+q.name, q.keys)
		}
		c.compare(q.name, rows, want)
	}
}

func (c *cluster) compare(name string, rows []string, want [2]string) {
	c.t.Helper()
	h := sha256.New()
	for _, r := range rows {
		_, _ = io.WriteString(h, r+"\n") // a hash takes everything
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want[1] {
		c.t.Errorf("%s: %d rows with digest %s, want %s with %s; the first:\n%s", name, len(rows), got, want[0], want[1],
			strings.Join(rows[:min(len(rows), 5)], "\n"))
		if dir := os.Getenv("WEIR_ORACLE_OUT"); dir != "" {
			_ = os.WriteFile(dir+"/"+name+".tsv", []byte(strings.Join(rows, "\n")+"\n"), 0o600) // for whoever compares
		}
	}
}

// TestFlinksAnswers compares final results with those of Apache Flink over the same events.
func TestFlinksAnswers(t *testing.T) {
	var names []string
	for _, q := range queries {
		names = append(names, q.name)
	}
	for _, p := range []int{1, 3} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			c := newCluster(t, p, 1, nexmark(p, "pebble", names...))
			r := c.deploy()
			c.tap.let(5)
			r.mustCheckpoint()
			r.finish()
			c.check(names...)
		})
	}
}
