package nexmark

import (
	"strconv"
	"time"
)

// The proportion of the kinds of events.
const (
	persons  = 1
	auctions = 3
	cycle    = 50 // persons, auctions and 46 bids
)

const (
	firstID       = 1000
	hotStride     = 100  // one person and auction in so many is hot
	activePersons = 1000 // persons that bid and sell
	openAuctions  = 100  // auctions that are bid for
	idLead        = 10   // ids that are used before they exist
)

// epochMillis is 2026-01-01 UTC, the event time of event 0.
const epochMillis = 1_767_225_600_000

// generator makes events. Not safe for concurrent use.
type generator struct {
	*tables
	delayMicros float64 // between two events
	clock       clock
}

func newGenerator(rate float64) *generator {
	return &generator{tables: sharedTables(), delayMicros: 1e6 / rate}
}

// millis is the event time of an event.
func (g *generator) millis(id int64) int64 {
	return epochMillis + int64(float64(id)*g.delayMicros)/1000
}

// append appends event id as a JSON object.
func (g *generator) append(b []byte, id int64) []byte {
	r := newRandom(id)
	switch o := id % cycle; {
	case o < persons:
		return g.person(b, &r, id)
	case o < persons+auctions:
		return g.auction(b, &r, id)
	}
	return g.bid(b, &r, id)
}

func (g *generator) person(b []byte, r *random, id int64) []byte {
	first, last := firstNames[r.below(int64(len(firstNames)))], lastNames[r.below(int64(len(lastNames)))]
	b = append(b, `{"event_type":0,"person":{"id":`...)
	b = strconv.AppendInt(b, lastPerson(id)+firstID, 10)
	b = append(b, `,"name":"`...)
	b = append(append(append(b, first...), ' '), last...)
	b = append(b, `","emailAddress":"`...)
	start := len(b)
	b = append(r.text(b, 7, ' '), '@')
	b = append(r.text(b, 5, ' '), ".com"...)
	email := len(b) - start
	b = append(b, `","creditCard":"`...)
	for i := range 4 {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendPadded(b, int(r.below(10_000)), 4)
	}
	city := cities[r.below(int64(len(cities)))]
	state := states[r.below(int64(len(states)))]
	b = append(append(b, `","city":"`...), city...)
	b = append(append(b, `","state":"`...), state...)
	b = append(b, `","dateTime":"`...)
	b = g.clock.append(b, g.millis(id))
	b = append(b, `","extra":"`...)
	const card = len("1234 1234 1234 1234")
	b = r.extra(b, g.tables, 8+len(first)+1+len(last)+email+card+len(city)+len(state), 200)
	return append(b, `"},"auction":null,"bid":null}`...)
}

func (g *generator) auction(b []byte, r *random, id int64) []byte {
	b = append(b, `{"event_type":1,"person":null,"auction":{"id":`...)
	b = strconv.AppendInt(b, lastAuction(id)+firstID, 10)
	b = append(b, `,"itemName":"`...)
	start := len(b)
	b = r.text(b, 20, ' ')
	name := len(b) - start
	b = append(b, `","description":"`...)
	start = len(b)
	b = r.text(b, 100, ' ')
	description := len(b) - start
	initial := r.price()
	b = append(b, `","initialBid":`...)
	b = strconv.AppendInt(b, initial, 10)
	b = append(b, `,"reserve":`...)
	b = strconv.AppendInt(b, initial+r.price(), 10)
	b = append(b, `,"dateTime":"`...)
	at := g.millis(id)
	b = g.clock.append(b, at)
	// An auction is open for about as long as it takes to make openAuctions more.
	horizon := g.millis(id+openAuctions*cycle/auctions) - at
	b = append(b, `","expires":"`...)
	b = g.clock.append(b, at+1+r.below(max(2*horizon, 1)))
	b = append(b, `","seller":`...)
	b = strconv.AppendInt(b, r.hotPerson(id, 0)+firstID, 10)
	b = append(b, `,"category":`...)
	b = strconv.AppendInt(b, 10+r.below(5), 10)
	b = append(b, `,"extra":"`...)
	b = r.extra(b, g.tables, 48+name+description, 500)
	return append(b, `"},"bid":null}`...)
}

func (g *generator) bid(b []byte, r *random, id int64) []byte {
	auction := lastAuction(id) / hotStride * hotStride
	if r.below(2) == 0 {
		auction = r.openAuction(id)
	}
	bidder := r.hotPerson(id, 1)
	b = append(b, `{"event_type":2,"person":null,"auction":null,"bid":{"auction":`...)
	b = strconv.AppendInt(b, auction+firstID, 10)
	b = append(b, `,"bidder":`...)
	b = strconv.AppendInt(b, bidder+firstID, 10)
	b = append(b, `,"price":`...)
	b = strconv.AppendInt(b, r.price(), 10)
	b = append(b, `,"channel":"`...)
	var url string
	if r.below(2) > 0 {
		i := r.below(int64(len(channels)))
		b = append(b, channels[i]...)
		url = g.hotURL[i]
	} else {
		i := r.below(coldChannels)
		b = strconv.AppendInt(append(b, "channel-"...), i, 10)
		url = g.coldURL[i]
	}
	b = append(append(b, `","url":"`...), url...)
	b = append(b, `","dateTime":"`...)
	b = g.clock.append(b, g.millis(id))
	b = append(b, `","extra":"`...)
	b = r.extra(b, g.tables, 32, 100)
	return append(b, `"}}`...)
}

// lastPerson is the number of the newest person at event id.
func lastPerson(id int64) int64 {
	return id/cycle*persons + min(id%cycle, persons-1)
}

// lastAuction is the number of the newest auction at event id.
func lastAuction(id int64) int64 {
	k, o := id/cycle, id%cycle
	switch {
	case o < persons:
		return (k-1)*auctions + auctions - 1
	case o >= persons+auctions:
		return k*auctions + auctions - 1
	}
	return k*auctions + o - persons
}

// hotPerson is the hot person's number plus shift three times out of four, else that of any active person.
func (r *random) hotPerson(id, shift int64) int64 {
	if r.below(4) > 0 {
		return lastPerson(id)/hotStride*hotStride + shift
	}
	n := lastPerson(id) + 1
	active := min(n, activePersons)
	return n - active + r.below(active+idLead)
}

// openAuction is the number of any open auction.
func (r *random) openAuction(id int64) int64 {
	last := lastAuction(id)
	oldest := max(last-openAuctions, 0)
	return oldest + r.below(last-oldest+1+idLead)
}

// clock writes times as "2006-01-02 15:04:05.000". It remembers the last minute, which rarely changes.
type clock struct {
	minute int64
	text   []byte
}

func (c *clock) append(b []byte, millis int64) []byte {
	if minute := millis / 60_000; minute != c.minute || c.text == nil {
		c.minute = minute
		c.text = time.UnixMilli(minute*60_000).UTC().AppendFormat(c.text[:0], "2006-01-02 15:04:")
	}
	rest := int(millis % 60_000)
	b = append(b, c.text...)
	b = appendPadded(b, rest/1000, 2)
	b = append(b, '.')
	return appendPadded(b, rest%1000, 3)
}

// appendPadded appends n with leading zeros to a width of at most 4 digits.
func appendPadded(b []byte, n, width int) []byte {
	digits := [4]byte{'0' + byte(n/1000%10), '0' + byte(n/100%10), '0' + byte(n/10%10), '0' + byte(n%10)}
	return append(b, digits[4-width:]...)
}
