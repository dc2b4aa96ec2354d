package config

import "time"

// Settings are those of one worker process, defaults filled in. Temporal's address and TLS are not among
// them: they come from Temporal's own environment configuration, so that temporal and weir agree.
type Settings struct {
	// DataDir holds the node's working copies of state; a dead process's are cleaned.
	DataDir string
	// Slots is how many subtasks of each chain the node takes; at least 1.
	Slots int
	// Storage is the snapshot store of jobs that name none: an s3:// or file:// URL, or empty.
	Storage  string
	S3       S3Settings
	Cluster  ClusterSettings
	Exchange Listener
	// HTTP is the host:port of /metrics, /healthz and /readyz.
	HTTP string
	// Pprof serves profiles on HTTP too.
	Pprof   bool
	Log     LogSettings
	Failure FailureSettings
}

// Listener is where a server listens and how others reach it. Both are host:port; Advertise is empty for
// "the address that Bind got".
type Listener struct{ Bind, Advertise string }

// ClusterSettings are those of gossip.
type ClusterSettings struct {
	Listener
	// Join are host:port of members to join; empty starts a cluster.
	Join []string
}

// S3Settings say how to reach the object store. Without AccessKey and SecretKey the AWS SDK's own chain
// (environment, profile, instance role) decides.
type S3Settings struct {
	Endpoint  string
	Region    string
	PathStyle bool
	AccessKey Secret
	SecretKey Secret
	// SessionToken belongs to temporary keys.
	SessionToken Secret
}

// LogSettings are those of log/slog.
type LogSettings struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is text or json.
	Format string
}

// FailureSettings are the times by which failures are noticed.
type FailureSettings struct {
	// Keepalive is how often an idle exchange connection is probed; after PeerTimeout of silence the peer is lost.
	Keepalive   time.Duration
	PeerTimeout time.Duration
	// ProbeInterval and ProbeTimeout are those of gossip.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	// UnseenGrace is how long after joining a member that was never seen may still appear.
	UnseenGrace time.Duration
	// LeaveTimeout bounds a clean exit.
	LeaveTimeout time.Duration
}

// SettingsInput are the sources of settings, weakest first: defaults, File, Env, Flags.
type SettingsInput struct {
	// FileName is shown in messages; Data is the file's YAML, nil for none.
	FileName string
	Data     []byte
	// Env is as os.Environ returns it.
	Env []string
	// Flags are the values of the flags that were given, by Setting.Flag.
	Flags map[string]string
}

// Setting describes one setting, for whoever registers flags or shows them.
type Setting struct {
	// Key is the dotted path in the file, Env the environment variable, Flag the flag without its dashes.
	Key, Env, Flag string
	// Kind is a word for the value: "duration", "integer", "true \| false".
	Kind string
	// Default is "" if there is none.
	Default string
	Doc     string
	// Bool settings may be given as a flag without a value.
	Bool bool
}

// SettingValue is the effective value of a setting; secrets are shown as their references.
type SettingValue struct{ Key, Value string }
