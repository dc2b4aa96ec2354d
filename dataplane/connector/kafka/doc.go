// Package kafka reads and writes Apache Kafka for the data plane.
//
// Source. Partitions are read directly, without a consumer group: their offsets live in checkpoints, so a
// group's rebalances and commits have no say in what is read. A [connector.Reader] sends its own fetch
// requests, one in flight per leader, and walks the record batches of the answers in place (records.go):
// spans into the fetch buffer instead of an object a record. Reading is read-committed.
//
// Sink. Exactly once by transactions that a checkpoint decides (sink.go, txn.go): a client of its own per
// transaction, closed after the pre-commit without ending the transaction. Phase two belongs to the
// [Committer], which ends a transaction from any process by a raw EndTxn with the stored producer id and
// epoch (committer.go). Ids and the reuse of their slots are the rules of package transaction.
//
// Errors are classified where they are first understood (errors.go): a missing right or topic, lost records
// and records that are too large are fatal, a fenced producer is fenced, everything else may be tried again.
package kafka
