package sim

// Rule is a rule of the protocol that a run can break.
type Rule struct {
	// Name is the argument of -break.
	Name string
	// Text is the rule as it stands.
	Text string
	// Cost says what a breach costs where no check of the simulation can see it; empty if it is found.
	Cost string
}

// The names of the rules.
const (
	UnconditionalPut  = "unconditional-put"
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
