// Package checkpoint holds the rules by which a checkpoint comes to exist, as pure functions and state
// machines: no clock, goroutine, lock or I/O. Nodes, control activities and the simulator run the same code.
//
// # Deciding
//
//  1. The job orders checkpoint n on every node of the attempt, one at a time: n+1 starts only when n is
//     decided. The order and the barrier both carry a Barrier: n, the time left, and three numbers: the newest
//     decided, the newest durable, the newest committed. A barrier may come before the order; a node that hears
//     of n either way injects it into its own sources at once (NodeBook: Heard → Inject). An n not above the
//     newest heard is refused, unless its page is still open. A newer n ends an older one, and so does the
//     deadline: a declined checkpoint never fails the attempt and never blocks a channel for longer than that. A
//     node that declines tells its peers, which decline too (NodeBook: Tell, PeerDeclined): n cannot succeed any
//     more, and they would wait for barriers that its subtasks no longer forward.
//  2. When every subtask of a node has contributed, the node writes its Part and acks with a reference to it.
//     When all nodes have, BuildManifest proves that the parts are complete, and the manifest is created at
//     chk-<n>/manifest if nothing stands there. That PUT decides. Its bytes are a pure function of the input:
//     lists sorted, no clock. So a retried commit writes the same bytes, and Obey can tell our own lost reply
//     from another decision. Another decision is obeyed.
//  3. Abort is a decision too: NewAbort makes a record for the same key under the same condition. The first
//     writer wins, and nobody acts on "aborted" before having read or written that object.
//  4. CheckDeadline refuses to commit when a prepared transaction might be aborted by its system before it
//     could be committed: then the abort record is written and the attempt fails.
//
// # Numbers
//
// Attempts and checkpoint ids rise and are never used again: not after a restore, a reset of the workflow or the
// loss of Temporal's database. So planning stands on what the store lists (Summarise), and not on memory alone:
// the next attempt is above everything known and listed, and the planner claims the id after the highest decided
// one with an abort record that names the new attempt (NewClaim). If another was first, it lists again and starts
// over. Since ids are contiguous, nothing that an older attempt has in flight can become durable afterwards.
//
// # Start, restore, end
//
// Start and end positions are resolved once, into chk-0 (NewStart). Going back to an older checkpoint writes its
// content under a new id, without transactions (Restored). A manifest is final when every source had ended before
// the barrier: nothing is deployed after it. A manifest that is truncated, damaged, of an unknown version or
// invalid stops the job with that reason (ErrTruncated, ErrDamaged, ErrVersion, ErrInvalid); nothing ever falls
// back from it silently.
//
// # Transactions
//
// A sink lists all of its prepared transactions that are not known to be committed, those of earlier checkpoints
// included: an aborted checkpoint never aborts transactions, they commit with the next one that succeeds. Package
// transaction has the rules of what follows.
//
// # Files
//
// State files are shared/<attempt>-<n>-<sha256>: created once, never created again. For checkpoint n a node names
// again only files that it named in the manifest which barrier n calls the latest durable, or in the restored one
// (ReuseSet). That manifest is not retired before a later one is durable, so a late delete can only hit what
// nobody refers to. PlanRetention says what may go: never the newest Keep, nor the one before the newest until
// the newest is committed, nor what is held; never a file that a kept manifest names, nor one of a checkpoint
// that may be in flight. A plan is persisted, then revised against the store (Revise), then executed; every
// operation may be repeated. A retired manifest leaves a tombstone at its key, or a frozen worker's delayed PUT
// would bring it back; each manifest records the floor below which ids are void, and what stands below it may go
// after a day (TombstoneAge).
//
// # Format
//
// See seal in codec.go: one line of JSON, one line with its SHA-256. Names that become object keys or file names
// are checked against whitelists when read (File.Validate).
package checkpoint
