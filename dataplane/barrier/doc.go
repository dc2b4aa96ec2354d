// Package barrier decides when a subtask with several input channels takes its snapshot: the alignment of
// checkpoint barriers, as a pure state machine. It has no clock, goroutine or I/O; the task feeds it events
// and carries out the effects.
//
//	channel 0   r r r ▮ r r r          ▮ = barrier n. Channel 0 delivered it first, so it is blocked:
//	channel 1   r r r r r r ▮ r        its next records belong after n. When channel 1 delivers n too,
//	            ────────────▲          the state holds exactly the records before n on every channel:
//	                     snapshot      snapshot, forward n, unblock.
//
// The rules (they are those of the checkpoint protocol, see package checkpoint):
//
//   - A newer barrier ends an older alignment: the older checkpoint is declined and every channel released.
//   - An id that is not above the newest one handled is ignored, whatever became of that one.
//   - A channel that has ended counts as aligned. It may still carry barriers; they count as news of n only.
//   - With Barrier.Aligned unset (at least once) no channel is ever blocked.
//   - When the deadline passes, or the node has given n up, the alignment is released and n declined: a
//     barrier that reached half the cluster never blocks a channel for longer than that.
//
// A declined checkpoint is not forwarded; the subtasks behind release it by their own deadline or by n+1.
// Source: the algorithm is Flink's (Carbone et al., "Lightweight Asynchronous Snapshots", 2015), the shape
// (Step, effects) that of etcd's raft.
package barrier
