// Package cluster knows which worker processes are alive, where they listen and how many slots they have
// free. It wraps hashicorp/memberlist (SWIM with Lifeguard).
//
// What it says is a hint, never an authority: a node that gossip calls dead may still run, and one that it
// calls alive may be gone. Two copies of a task are prevented by attempt numbers, not by membership, so a
// false alarm costs a restart and nothing else. Free slots are a hint in the same sense: a node refuses what
// it cannot host.
//
// A node id is new with every process start. So memberlist's troubles with reclaimed names and stale
// incarnations do not arise: a process that comes back is another node, and the old one is found dead.
//
// Memberlist alone does not heal a long partition: each side forgets the other after a while and probes only
// whom it knows. Cluster therefore keeps contacting the join addresses that no alive member has, and the
// addresses of members that were lost.
package cluster
