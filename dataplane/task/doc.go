// Package task runs one subtask: one goroutine that reads a source or the channels from other subtasks,
// calls the chain of operators, writes to sinks and outgoing channels, aligns barriers and freezes state.
//
// The goroutine owns everything of the subtask: there is no lock on the path of records. Other goroutines
// reach it through its mailbox, which it looks into between batches. What a barrier leaves behind, a
// Snapshot, is persisted elsewhere while the subtask goes on.
package task
