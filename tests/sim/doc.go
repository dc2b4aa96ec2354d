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
// A dash: not noticed in 1,000 seeds (no-stop-tasks and no-ask: 150), and not expected to be, for the reason given. Where two rules each suffice, they
// are broken together.
//
//	redeploy                             67  FILE
//	no-fence                              2  STATE
//	forget-stops                          –  fencing by attempt number catches what a forgotten stop lets start; it costs a useless deployment
//	watcher-owns                          –  it costs a restart of the job after every outage of Temporal, no record
//	no-stop-tasks                         –  fencing is the safety; it costs the time until the nodes notice
//	no-ask                                –  fencing is the safety; it costs a job that runs on for nobody
//	continue-early                       26  FALSE ALARM
//	no-backstop                          27  STUCK
//	no-alignment                          1  STATE
//	no-deadline + no-supersede           52  STUCK
//	no-supersede + no-deadline           52  STUCK
//	unconditional-put                     2  DECIDED TWICE
//	no-abort-record                     730  FALSE ALARM
//	no-obey + commit-by-message          28  DOUBLE
//	no-decision                           –  the next attempt's claim decides in its place
//	no-claim                             15  FALSE ALARM
//	no-margin                             –  it costs loud losses, not silent ones
//	ack-before-flush                      1  MARKER
//	no-buffer                            13  LOST
//	abort-transactions                    5  FALSE ALARM
//	list-own-only                        11  SILENT LOSS
//	learn-early                           –  while a checkpoint starts only when the one before is decided, no snapshot is left that could list too little
//	slot-early                           25  FALSE ALARM
//	no-reinit                           818  LOST
//	reuse-unanswered                     80  FALSE ALARM
//	commit-by-message + no-obey          28  DOUBLE
//	marker-first                          1  MARKER
//	marker-despite-loss                  32  MARKER
//	ignore-marker                         –  the second look at the marker (believe-loss) finds it
//	believe-loss                        192  FALSE ALARM
//	no-late-abort + no-own-abort         16  BLOCKED
//	no-own-abort                          –  recovery aborts them; it costs readers the time until then
//	no-recover                            6  LOST
//	late-recover                        380  SILENT LOSS
//	abort-any-attempt                     1  FALSE ALARM
//	compare-by-id + no-late-abort       158  BLOCKED
//	no-terminal-recover                 162  OPEN
//	recreate-files                        1  FILE
//	reuse-any                             1  FILE
//	keep-base                             1  FILE
//	sweep-in-flight                       5  FILE
//	forget-before                       191  NO FALL BACK
//	no-tombstone                         11  RESURRECTED
//	no-revise                             –  it matters where a savepoint or restore holds a checkpoint, which jobs cannot do yet
//	resolve-again                         1  STATE
//	final-redeploy                        1  DOUBLE
//
// The rules as they stand: no violation in 3,000 seeds (8 million ticks, 21,000 failures, 49,000 checkpoints), some 40
// ms of CPU a seed.
package sim
