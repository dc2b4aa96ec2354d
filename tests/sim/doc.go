// Package sim is a seeded simulation of the whole exactly-once protocol. What decides is the production code:
//
//	dataplane/job          Gate, Place, key groups
//	dataplane/barrier      Aligner
//	dataplane/checkpoint   NodeBook, ReuseSet, BuildManifest, CheckDeadline, Obey, Summarise, PlanRetention, codecs
//	dataplane/transaction  SlotPool, Ledger, Completion, Leftovers, FallBackTarget
//	dataplane/snapshot     Decide, WritePart, ReadPart, SurveyJob, PersistPlan, ExecutePlan, UploadHashed
//
// It runs on models of what is outside:
//
//   - Kafka: the transaction coordinator by the rules of transaction.version 1 and 2, timeouts, and a
//     read-committed reader that reads all the time (kafka.go, reader.go; the client's side is committer.go);
//   - S3: conditional PUTs, strong consistency (store.go implements snapshot.Store);
//   - Temporal: workflows that no crash reaches, activities with retries, heartbeats, timeouts and zombie executions,
//     continue-as-new, resets, terminations (temporal.go). The workflows StreamJob, Attempt and Checkpoint and the
//     control activities follow packages workflows and activities step by step, but are written anew, since those
//     need Temporal's SDK (streamjob.go, attempt.go, checkpointrun.go, control.go);
//   - the network: any request can be lost, arrive late (long after its sender has died), arrive twice, or lose its
//     reply (network.go).
//
// Everything else is a coroutine on a virtual clock (world.go). Each of its steps is a point where its process may
// crash or freeze. Which process takes the next step, what goes wrong and when is drawn from the seed: a run is a pure
// function of it. The job counts by key over two partitions, with a transactional sink, at a parallelism between 2
// and 3, and is bounded; every key fires once at the end.
//
// # A run
//
// Every run sees at least five failures and eight durable checkpoints before its input ends: nodes and control workers
// crash or freeze (at a random time, or at an exact point of the protocol: see trapLabels) and are replaced, so that
// what was frozen wakes up as a zombie; all nodes crash at once; machines are cut off from each other or from
// Temporal; Temporal, Kafka and S3 are away; Temporal's database is lost; the StreamJob is reset or terminated, its
// Attempt is terminated; a day passes. The user rescales and cancels. When the job has ended the run goes on until
// every zombie has woken up and done its worst.
//
// # Checks
//
//	LOST, DOUBLE     the read-committed output has each key's counts as 1, 2, 3, …: exactly once and in order
//	STATE            the state of a durable checkpoint is that of a replay of the input up to its positions
//	FILE             no file that a restorable checkpoint names is missing or deleted
//	TORN, MARKER     a durable checkpoint's transactions are all committed, or all lost and fallen back from; a marker
//	                 tells the truth
//	OPEN, BLOCKED    no transaction is open when the job is at rest; none of an older attempt outlasts a checkpoint
//	DECIDED TWICE, RESURRECTED   a decision is never changed, a retired checkpoint never comes back
//	FALSE ALARM, NO FALL BACK, SILENT LOSS   losses are told where there are any and nowhere else, and a job that can
//	                 go back to an earlier checkpoint does
//	STUCK, OUTPUT    once faults have stopped the job comes to its end, and all of the output is there
//	PANIC            no assertion of the production code fails
//
// One thing is tolerated: a zombie that wakes up after the job has come to rest can open a transaction that nobody
// looks for any more. It ends it itself when it notices, or the broker does at its timeout.
//
// # Commands
//
//	go test ./tests/sim                                  100 seeds, and the tests of the simulation itself
//	go test ./tests/sim -run Seeds -seeds 200            more of them, from -first on
//	go test ./tests/sim -run Seeds -seed 17 -v           one seed, with its trace
//	go test ./tests/sim -run Seeds -seed 17 -break no-fence -v   the same, with a rule broken
//	go test ./tests/sim -run Hunt -hunt -timeout 0       break every rule; print the table below
//
// # The rules, broken
//
// How many seeds it takes until the check on the right notices that a rule is left out; rules.go has their text.
// A dash: no check can notice it, for the reason given. Where two rules each suffice, they are broken together.
//
// @@TABLE@@
package sim
