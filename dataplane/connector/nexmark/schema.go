package nexmark

import (
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// Columns are the columns of an event, for a JSON decoder with timestamps in SQL's notation: event_type (0 person,
// 1 auction, 2 bid), and all members of the structs person, auction and bid, each of which is there or null.
func Columns() []format.Column {
	bigint, text := batch.Type{Kind: batch.Int64}, batch.Type{Kind: batch.String}
	stamp := batch.Type{Kind: batch.Timestamp, Precision: 3}
	cols := []format.Column{{Name: "event_type", Path: []string{"event_type"}, Type: bigint}}
	add := func(t batch.Type, paths string) {
		for path := range strings.FieldsSeq(paths) {
			cols = append(cols, format.Column{Name: path, Path: strings.Split(path, "."), Type: t, OptionalAt: 1})
		}
	}
	add(bigint, "person.id")
	add(text, "person.name person.emailAddress person.creditCard person.city person.state")
	add(stamp, "person.dateTime")
	add(text, "person.extra")
	add(bigint, "auction.id")
	add(text, "auction.itemName auction.description")
	add(bigint, "auction.initialBid auction.reserve")
	add(stamp, "auction.dateTime auction.expires")
	add(bigint, "auction.seller auction.category")
	add(text, "auction.extra")
	add(bigint, "bid.auction bid.bidder bid.price")
	add(text, "bid.channel bid.url")
	add(stamp, "bid.dateTime")
	add(text, "bid.extra")
	return cols
}
