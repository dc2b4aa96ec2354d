// Package accumulate is what aggregating operators share: grouping of a batch's rows by key, fixed-width
// accumulators (count, sum, min, max, avg, each with FILTER) and the columns made of them.
//
// An operator works a batch at a time:
//
//	set.Prepare(b, rows)      // arguments and filters: the only step that can fail for a row
//	groups := grouper.Group(b, rows)
//	table.Resolve(&groups.Keys, slots)
//	set.Fold(groups, entries) // a tight loop per aggregate and key
//	set.Results(entries, …)   // typed columns of the results
//
// # Accumulators
//
// An entry is a run of 64-bit words (state.Layout.Words), all zero when new. Word 0 counts the rows of the
// entry, so it is zero only for a new one. Each call then has, in order:
//
//	count           number (none for count(*) without a filter: that is word 0)
//	sum, avg bigint low and high half of a 128-bit sum · number of values
//	sum, avg double bits of the sum · number
//	sum, avg dec.   low and high half of the unscaled sum · number; its top bit marks an overflow
//	                (none if an earlier sum or avg adds up the same: its words are read)
//	min, max        value (decimals: two words; text: none, it is a variable field) · 1 if there is a value
//
// Sums are wide, so that folding never fails and does not depend on the order: a sum that does not fit its
// type is an error of the result. The layout outlives versions of the program: it is stored.
package accumulate
