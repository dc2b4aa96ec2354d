// Package nexmark is a source that generates the events of the Nexmark benchmark: persons, auctions and bids of an
// auction house in the proportion 1 : 3 : 46, as JSON records.
//
// The events follow the generator of nexmark-flink (github.com/nexmark/nexmark) in distribution and shape. Unlike
// there, and as in Apache Beam's, the randomness of an event is seeded by its number alone: event n is the same
// whoever makes it, so that a split can be resumed anywhere, runs can be compared and results checked.
// Event time begins at 2026-01-01 UTC.
//
// Event n with remainder o = n mod 50 is a person if o = 0, an auction if o is 1 to 3, else a bid. Ids of persons
// and auctions grow with n from 1000. Half of all bids go to one auction in a hundred, three quarters of bids
// and auctions come from one person in a hundred.
package nexmark
