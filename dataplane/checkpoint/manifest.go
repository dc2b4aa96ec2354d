package checkpoint

import (
	"encoding/json"

	"github.com/weirstream/weir/dataplane/job"
)

// Kind says what stands at the key chk-<n>/manifest. The first writer of that key decides checkpoint n.
type Kind string

// The decisions. Durable: the checkpoint exists. Aborted: it never will. Retired: it was durable and has
// been deleted; the tombstone keeps a delayed PUT from bringing it back.
const (
	Durable Kind = "checkpoint"
	Aborted Kind = "abort"
	Retired Kind = "tombstone"
)

// FormatVersion is the version of the manifest and part objects that this program writes.
const FormatVersion = 1

// Manifest is the one object that makes a checkpoint exist. Its bytes are a pure function of the plan and
// the nodes' parts (sorted, no clock), so that a retried commit writes the same bytes.
type Manifest struct {
	Version int              `json:"version"`
	Kind    Kind             `json:"kind"`
	UID     job.UID          `json:"uid"`
	Attempt job.Attempt      `json:"attempt"`
	ID      job.CheckpointID `json:"id"`
	// Reason is why an abort record was written, or what a claim is for.
	Reason string `json:"reason,omitempty"`
	// Final is set when every source had ended before the barrier: nothing comes after this checkpoint.
	Final bool `json:"final,omitempty"`
	// Origin is the checkpoint whose content this one repeats under a new id (fall back, restore in place).
	Origin *job.CheckpointID `json:"origin,omitempty"`
	// Floor is the id below which every checkpoint is void: tombstones below it may go.
	Floor          job.CheckpointID `json:"floor"`
	MaxParallelism int              `json:"max_parallelism,omitempty"`
	Graph          *job.Graph       `json:"graph,omitempty"`
	// States are sorted by operator UID and subtask.
	States []OperatorState `json:"states,omitempty"`
	// Transactions are all prepared and not known to be committed, sorted by ID.
	Transactions []Transaction `json:"transactions,omitempty"`
	// Stats are sums over the parts, for people.
	Stats Stats `json:"stats"`
}

// OperatorState is what one operator of one subtask saved.
type OperatorState struct {
	Operator string            `json:"operator"` // operator UID
	Subtask  int               `json:"subtask"`
	KeyRange job.KeyGroupRange `json:"key_groups"` // zero for operators without keyed state
	// Inline is a small state (offsets, watermarks, list state of a sink) in the operator's own JSON.
	Inline json.RawMessage `json:"inline,omitempty"`
	// Backend names the format of Files: "memory" or "pebble".
	Backend string `json:"backend,omitempty"`
	Files   []File `json:"files,omitempty"`
}

// File is one immutable object of state.
type File struct {
	// Name is the object's key relative to the job's prefix: shared/<attempt>-<n>-<sha256>.
	Name string `json:"name"`
	// Local is the name under which the backend wants the file back, such as 000012.sst. It is checked
	// against a strict pattern before it touches a file system.
	Local string `json:"local"`
	Size  int64  `json:"size"`
	// SHA256 is the hexadecimal digest of the content.
	SHA256 string `json:"sha256"`
}

// Transaction is a prepared sink transaction: enough to commit it from any process, at any later time.
type Transaction struct {
	// Sink is the operator UID of the sink, Connector its kind ("kafka", "files"), Resource what a
	// connector needs to reach the system that holds it (for kafka: the connection's name in the spec).
	Sink      string `json:"sink"`
	Connector string `json:"connector"`
	Resource  string `json:"resource,omitempty"`
	Subtask   int    `json:"subtask"`
	// ID is the transactional id, or the name of the prepared part.
	ID            string `json:"id"`
	ProducerID    int64  `json:"producer_id,omitempty"`
	ProducerEpoch int16  `json:"producer_epoch,omitempty"`
	// Protocol is the broker's transaction.version when the transaction began (1 or 2).
	Protocol int `json:"protocol,omitempty"`
	// Checkpoint is the one whose barrier ended the transaction.
	Checkpoint job.CheckpointID `json:"checkpoint"`
	// BeginUnixMs is when the transaction began, by the node's wall clock; TimeoutMs after it the system aborts it.
	BeginUnixMs int64 `json:"begin_unix_ms,omitempty"`
	TimeoutMs   int64 `json:"timeout_ms,omitempty"`
	// Records is the number of records written in it, for messages about what is at stake.
	Records int64 `json:"records"`
	// Data is what else the connector needs (the files sink: names of parts), opaque here.
	Data json.RawMessage `json:"data,omitempty"`
}

// Part is one node's share of a checkpoint: its ack names this object.
type Part struct {
	Version int              `json:"version"`
	UID     job.UID          `json:"uid"`
	Attempt job.Attempt      `json:"attempt"`
	ID      job.CheckpointID `json:"id"`
	Node    job.NodeID       `json:"node"`
	// Subtasks lists every subtask of the node, so that the coordinator can prove the acks complete.
	Subtasks []job.SubtaskID `json:"subtasks"`
	// Ended is set when every source subtask of the node had ended before the barrier.
	Ended        bool            `json:"ended"`
	States       []OperatorState `json:"states"`
	Transactions []Transaction   `json:"transactions"`
	Stats        Stats           `json:"stats"`
}

// Ack is what a node's Snapshot returns through Temporal: a reference, at most a few hundred bytes.
type Ack struct {
	Node job.NodeID `json:"node"`
	// Part is the key of the part object relative to the job's prefix, SHA256 the digest of its bytes.
	Part   string `json:"part"`
	SHA256 string `json:"sha256"`
	Stats  Stats  `json:"stats"`
}

// Stats are figures of a checkpoint or of a node's share. Adding two of them takes sums and maxima.
type Stats struct {
	// Bytes is the size of all state that the checkpoint names; Uploaded what was new.
	Bytes    int64 `json:"bytes"`
	Uploaded int64 `json:"uploaded"`
	Files    int   `json:"files"`
	// Records is the number of source records before the barrier since the attempt began.
	Records int64 `json:"records"`
	// AlignMs and SyncUs are the longest alignment and the longest synchronous pause of any subtask.
	AlignMs int64 `json:"align_ms"`
	SyncUs  int64 `json:"sync_us"`
	// Transactions is the number of prepared transactions.
	Transactions int `json:"transactions"`
	// LagRecords is what the sources had still to read at the barrier, as far as known.
	LagRecords int64 `json:"lag_records"`
}

// Add returns the union of two shares.
func (s Stats) Add(o Stats) Stats {
	return Stats{
		Bytes: s.Bytes + o.Bytes, Uploaded: s.Uploaded + o.Uploaded, Files: s.Files + o.Files,
		Records: s.Records + o.Records, AlignMs: max(s.AlignMs, o.AlignMs), SyncUs: max(s.SyncUs, o.SyncUs),
		Transactions: s.Transactions + o.Transactions, LagRecords: s.LagRecords + o.LagRecords,
	}
}
