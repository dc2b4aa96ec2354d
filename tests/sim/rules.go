package sim

// Rule is a rule of the protocol that a run can break.
type Rule struct {
	// Name is the argument of -break.
	Name string
	// Text is the rule as it stands.
	Text string
	// Needs is another rule that must be broken with it: each of the two suffices.
	Needs string
	// Remembers: the StreamJob must not lose its memory, or the rule in Needs would be missed by itself.
	Remembers bool
	// Unseen says why no check of the simulation notices that the rule is broken; empty for those that are found.
	Unseen string
}

// The names of the rules.
const (
	UnconditionalPut  = "unconditional-put"
	Overlap           = "overlap"
	NoAbortRecord     = "no-abort-record"
	NoObey            = "no-obey"
	NoDecision        = "no-decision"
	NoClaim           = "no-claim"
	CommitByMessage   = "commit-by-message"
	NoMargin          = "no-margin"
	NoAlignment       = "no-alignment"
	NoDeadline        = "no-deadline"
	NoSupersede       = "no-supersede"
	AbortTransactions = "abort-transactions"
	ListOwnOnly       = "list-own-only"
	AckBeforeFlush    = "ack-before-flush"
	NoBuffer          = "no-buffer"
	SlotEarly         = "slot-early"
	LearnEarly        = "learn-early"
	NoReinit          = "no-reinit"
	ReuseUnanswered   = "reuse-unanswered"
	MarkerFirst       = "marker-first"
	MarkerDespiteLoss = "marker-despite-loss"
	IgnoreMarker      = "ignore-marker"
	BelieveLoss       = "believe-loss"
	NoLateAbort       = "no-late-abort"
	NoOwnAbort        = "no-own-abort"
	NoRecover         = "no-recover"
	LateRecover       = "late-recover"
	NoTerminalRecover = "no-terminal-recover"
	AbortAnyAttempt   = "abort-any-attempt"
	CompareByID       = "compare-by-id"
	NoFence           = "no-fence"
	Redeploy          = "redeploy"
	ForgetStops       = "forget-stops"
	WatcherOwns       = "watcher-owns"
	NoStopTasks       = "no-stop-tasks"
	NoAsk             = "no-ask"
	NoBackstop        = "no-backstop"
	ContinueEarly     = "continue-early"
	RecreateFiles     = "recreate-files"
	ReuseAny          = "reuse-any"
	KeepBase          = "keep-base"
	SweepInFlight     = "sweep-in-flight"
	ForgetBefore      = "forget-before"
	NoTombstone       = "no-tombstone"
	NoRevise          = "no-revise"
	ResolveAgain      = "resolve-again"
	FinalRedeploy     = "final-redeploy"
)

// Rules are all rules with a switch, in the order of the protocol.
var Rules = []Rule{
	{Name: Redeploy, Text: "a node process deploys an attempt at most once"},
	{Name: NoFence, Text: "a node that sees a higher attempt ends what it has of lower ones and refuses them"},
	{Name: ForgetStops, Text: "a node remembers the stop of an attempt that it has not deployed yet"},
	{Name: WatcherOwns, Text: "RunTasks watches: a broken context that is no cancellation stops nothing"},
	{Name: NoStopTasks, Text: "whoever ends an attempt stops it on every node, best effort"},
	{Name: NoAsk, Text: "a node without a watcher asks Temporal whether its Attempt is open"},
	{Name: ContinueEarly, Text: "a run continues as new only while no Checkpoint is open"},
	{Name: NoBackstop, Text: "AwaitAttempt is the backstop of the signal attempt-ended"},
	{Name: NoAlignment, Text: "a channel that has delivered its barrier is not read until all have"},
	{Name: NoDeadline, Text: "when the deadline passes, the alignment is released", Needs: NoSupersede},
	{Name: NoSupersede, Text: "a newer barrier ends an older alignment", Needs: NoDeadline},
	{Name: UnconditionalPut, Text: "a decision is written only where none stands"},
	{Name: Overlap, Text: "a checkpoint starts only when the one before is decided"},
	{Name: NoAbortRecord, Text: "an abort is a record at the manifest's key"},
	{Name: NoObey, Text: "on 412, read what stands there and obey it", Needs: CommitByMessage},
	{Name: NoDecision, Text: "no attempt is planned before the checkpoint in flight is decided", Needs: NoClaim, Remembers: true},
	{Name: NoClaim, Text: "planning claims the id after the highest decided one"},
	{Name: NoMargin, Text: "no checkpoint becomes durable whose transactions may time out before they are committed"},
	{Name: AckBeforeFlush, Text: "the ack waits for the flush"},
	{Name: NoBuffer, Text: "records behind a barrier wait until those before it are flushed"},
	{Name: AbortTransactions, Text: "a failed checkpoint never aborts transactions"},
	{Name: ListOwnOnly, Text: "a snapshot lists every transaction that is not known to be committed"},
	{Name: LearnEarly, Text: "the committed number takes effect in a sink when its barrier reaches it", Unseen: "a barrier brings news only of the checkpoint right before it, which every sink has listed by then"},
	{Name: SlotEarly, Text: "a slot is used again only when a committed marker covers it"},
	{Name: NoReinit, Text: "a slot is used again with a new InitProducerID"},
	{Name: ReuseUnanswered, Text: "after an InitProducerID without an answer the slot is abandoned"},
	{Name: CommitByMessage, Text: "CommitSinks is driven by the manifest as read back, never by a message", Needs: NoObey},
	{Name: MarkerFirst, Text: "the committed marker comes after the last commit"},
	{Name: MarkerDespiteLoss, Text: "the committed marker comes only if every transaction is committed"},
	{Name: IgnoreMarker, Text: "what a committed marker covers is not touched", Needs: BelieveLoss},
	{Name: BelieveLoss, Text: "a loss is believed only after a look at the marker"},
	{Name: NoLateAbort, Text: "CommitSinks aborts what lower attempts have opened late"},
	{Name: NoOwnAbort, Text: "a node aborts its own transactions that are not prepared when an attempt ends there"},
	{Name: NoRecover, Text: "RecoverSinks runs before every attempt"},
	{Name: LateRecover, Text: "RecoverSinks runs before any RunTasks"},
	{Name: AbortAnyAttempt, Text: "only transactions of lower attempts are aborted"},
	{Name: CompareByID, Text: "a manifest's transactions are told by id, producer id and epoch"},
	{Name: NoTerminalRecover, Text: "every end of a job runs RecoverSinks under a new attempt number"},
	{Name: RecreateFiles, Text: "state files are named by attempt and checkpoint and never created again"},
	{Name: ReuseAny, Text: "only files of the manifest that the barrier calls durable are named again"},
	{Name: KeepBase, Text: "the base of files to be named again advances with every barrier"},
	{Name: SweepInFlight, Text: "files of checkpoints that may be in flight are not deleted"},
	{Name: ForgetBefore, Text: "the checkpoint before the newest stays until the newest is committed"},
	{Name: NoTombstone, Text: "a retired manifest leaves a tombstone"},
	{Name: NoRevise, Text: "a retention plan is revised against the store before it is executed", Unseen: "nothing that a plan names is named again, except by who holds a checkpoint, which jobs cannot do yet"},
	{Name: ResolveAgain, Text: "start positions are resolved once, into chk-0"},
	{Name: FinalRedeploy, Text: "nothing is deployed after a final checkpoint"},
}
