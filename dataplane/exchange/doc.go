// Package exchange moves batches, barriers and ends between the subtasks of one attempt of a job: by
// reference within a node, over TCP between nodes.
//
// A Server is a process's listener. It routes each connection to the Mesh of its attempt and refuses every
// other: an attempt below the highest heard of, a peer that means another process, garbage. A Mesh is one
// attempt's part on this node: a Gate for each subtask that reads channels, an Output for each channel that a
// subtask writes, a Partitioner for each edge, and one connection to every other node of the attempt, whether
// data flows between them or not.
//
// # Flow control
//
// Every channel has a bounded queue at its reader. Within a node the writer waits while it is full. Between
// nodes the reader grants credit, a number of elements and of bytes, and the writer spends it; so what a
// connection delivers always has a place, its reader never waits, and one slow subtask stops only its own
// channels. Heartbeats, announcements and declines share the connection and are never stuck behind a full queue.
// Source of the idea: Flink's credit-based flow control.
//
// # Failure
//
// A mesh is whole or it is over. The first broken connection, silent peer, damaged frame or newer attempt ends
// it; nothing is dialled again once the attempt runs, because a frame may have been lost with the old
// connection and the attempt's restart repairs that exactly. Before it goes, a node tells its peers why, so
// that all of them name the same lost node.
//
// # The wire
//
// The node with the lower id dials. Everything is a frame, a header of 56 bytes and a payload, little-endian:
//
//	 0  magic u32 "WEIR"      4  version u8   5  type u8   6  zero u16
//	 8  uid tag u64           the hash of the job's uid; the hello frame has the uid itself
//	16  attempt i64
//	24  edge u32   28  from u32   32  to u32    the channel, or zero
//	36  length u32            of the payload: at most 64 KiB, of a batch 16 MiB
//	40  sequence u64          0, 1, 2, … within a channel, else within the connection's control frames
//	48  checksum u32          CRC-32C of the header with this field zero, and the payload
//	52  zero u32
//
// The dialler sends hello (who it is, whom it means, what it runs) and waits. The acceptor answers with
// welcome or refuse; while it does not know the attempt yet it sends heartbeats, and refuses in the end.
// Afterwards each side sends batch, barrier and end frames within the other's credit, and at any time credit,
// heartbeat, announce, decline and, last, goodbye. A header is checked whole before its payload is read, lengths before
// anything is allocated. Its size is a multiple of 8, so that a batch is aligned within its frame.
//
// Connections are neither encrypted nor authenticated: bind them to a private network.
package exchange
