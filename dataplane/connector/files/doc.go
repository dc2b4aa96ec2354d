// Package files reads and writes files of lines on storage that all nodes share.
//
// # Source
//
// A split is a file, its position the byte offset of the next line, its end the file's size when the job was
// first started; what is appended later is not read. A line ends at "\n" or "\r\n", the last one also at the end
// of the split. Empty lines are no records. In a directory, and for a pattern, files whose name begins with a
// dot or an underscore are passed over: they are somebody's unfinished work, for instance that of a sink of ours.
//
// # Sink
//
// Exactly once by renaming. A transaction is one part file, known by its name:
//
//	part-<uid>-<sink>-<subtask>-<attempt>-<checkpoint>.jsonl
//
// It lives through these states in one directory, so that each change of state is one atomic rename:
//
//	.part-….jsonl.open        being written; a sequence number stands for the checkpoint, which is not known yet
//	.part-….jsonl.prepared    complete and on disk; the manifest decides
//	part-….jsonl              committed: visible to readers
//	.part-….jsonl.committed   empty marker, made before the last rename
//
// The marker decides: a commit that is repeated after the visible file was taken away by a consumer still answers
// "committed". Markers go once every answer is known to be recorded: at a later barrier that says so, or when
// the sink's next attempt begins. A part without marker and without files is lost.
//
// Names carry job, attempt and checkpoint, so that neither another job nor an attempt that does not know of its
// end can touch a part that is not its own; whatever such a zombie prepares is named by no manifest and
// stays hidden.
package files
