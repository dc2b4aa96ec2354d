// Package transaction holds the rules of sink transactions as pure functions and state machines: how they are
// called, when a slot may be used again, what a snapshot lists, what to commit, abort or leave alone, and when a
// job must fall back or stop. It has no clock, goroutine or I/O.
//
// # The life of a transaction
//
//	records of n-1..n ──► open ──barrier n──► prepared ──manifest that lists it──► to be committed ──► committed
//	                                            │  flushed; producer id and epoch noted
//	                                            └─ listed by every checkpoint until known to be committed
//
// The barrier ends a transaction's input. It is flushed, and the snapshot lists it, together with every earlier
// one that is not known to be committed (Ledger). An aborted or failed checkpoint never aborts transactions:
// they commit with the next one that succeeds. The committed number that a barrier carries takes effect in a
// sink when that barrier reaches it, and not when the node hears of it.
//
// # Names
//
// <prefix>/<uid>/<sink uid>/<attempt>/<subtask>/<slot>: a zombie can only touch ids of its own attempt. A slot is
// used again only within its attempt, only after chk-<n>/committed covers it, and with a new InitProducerID each
// time: a second commit of the old transaction would otherwise be refused (fenced) without telling committed
// from aborted. After an InitProducerID without an answer the slot is abandoned: a late one would abort what
// comes next (SlotPool).
//
// # Completing a manifest's transactions
//
// Completion drives both CommitSinks and RecoverSinks from the manifest as read back from the store, never from
// a message. What a committed marker covers is skipped. The others are committed oldest first, each until the
// answer is definitive. Where the oldest is lost and none is committed, the rest is aborted, so that falling
// back stays possible. Only if every one is committed is the marker put. A loss is believed only after a look at
// the marker: a superseded worker may be refused because another has long finished and the id is in use again.
//
//	CommitSinks:  all committed → marker, done      any lost → the attempt fails, recovery decides
//	RecoverSinks: all committed → marker, done      all lost → fall back, loudly      some lost → stop, say what
//
// Afterwards Leftovers tells which ongoing transactions of lower attempts to abort.
package transaction
