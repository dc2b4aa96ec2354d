package snapshot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/dataplane/job"
)

// Names formats and parses the keys of one job's objects: the one place that knows them.
//
//	<uid>/spec-<sha256>            a spec that the job runs or ran, with its plan
//	<uid>/attempt-<n>              plan of attempt n (job.Deployment), created before it starts
//	<uid>/shared/<attempt>-<n>-<sha256>   state files
//	<uid>/chk-<n>/part-<attempt>-<node>   a node's share of checkpoint n
//	<uid>/chk-<n>/manifest         the decision: manifest, abort record or tombstone
//	<uid>/chk-<n>/committed        every transaction of n is committed
//	<uid>/retention-<n>            persisted retention plan made after checkpoint n
//	jobs/<escaped name>/<uid>      the job's name → its uids
type Names struct{ UID job.UID }

// Spec is the key of a job spec and what the planner made of it; digest is the SHA-256 (hexadecimal) of the
// spec, since a job that goes on from its latest checkpoint may bring another one.
func (n Names) Spec(digest string) string { return fmt.Sprintf("%s/spec-%s", n.UID, digest) }

// Attempt is the key of an attempt's plan.
func (n Names) Attempt(a job.Attempt) string { return fmt.Sprintf("%s/attempt-%d", n.UID, a) }

// Shared is the key of a state file, relative to the store.
func (n Names) Shared(a job.Attempt, c job.CheckpointID, sha256 string) string {
	return fmt.Sprintf("%s/shared/%d-%d-%s", n.UID, a, c, sha256)
}

// Part is the key of a node's share.
func (n Names) Part(c job.CheckpointID, a job.Attempt, node job.NodeID) string {
	return fmt.Sprintf("%s/chk-%d/part-%d-%s", n.UID, c, a, job.Escape(string(node)))
}

// Manifest is the key of the decision about checkpoint c.
func (n Names) Manifest(c job.CheckpointID) string {
	return fmt.Sprintf("%s/chk-%d/manifest", n.UID, c)
}

// Committed is the key of the marker that all transactions of c are committed.
func (n Names) Committed(c job.CheckpointID) string {
	return fmt.Sprintf("%s/chk-%d/committed", n.UID, c)
}

// Retention is the key of the retention plan made after checkpoint c.
func (n Names) Retention(c job.CheckpointID) string { return fmt.Sprintf("%s/retention-%d", n.UID, c) }

// Prefix is the prefix of everything of the job.
func (n Names) Prefix() string { return string(n.UID) + "/" }

// JobUIDs is the prefix under which the uids of a job's name are listed.
func JobUIDs(name string) string { return "jobs/" + job.Escape(name) + "/" }

// JobUID is the key that records uid as one of the lives of the job called name.
func JobUID(name string, uid job.UID) string { return JobUIDs(name) + string(uid) }

// Parsed is what a key says about itself.
type Parsed struct {
	// Kind is "attempt", "shared", "part", "manifest", "committed", "retention" or "" for a foreign key.
	Kind       string
	Attempt    job.Attempt
	Checkpoint job.CheckpointID
}

// Parse reads a key below Prefix. Foreign keys give a zero Parsed.
func (n Names) Parse(key string) Parsed {
	rest, ok := strings.CutPrefix(key, n.Prefix())
	if !ok {
		return Parsed{}
	}
	switch {
	case strings.HasPrefix(rest, "attempt-"):
		if v, ok := number(rest[len("attempt-"):]); ok {
			return Parsed{Kind: "attempt", Attempt: job.Attempt(v)}
		}
	case strings.HasPrefix(rest, "retention-"):
		if v, ok := number(rest[len("retention-"):]); ok {
			return Parsed{Kind: "retention", Checkpoint: job.CheckpointID(v)}
		}
	case strings.HasPrefix(rest, "shared/"):
		f := strings.SplitN(rest[len("shared/"):], "-", 3)
		if len(f) == 3 {
			a, ok1 := number(f[0])
			c, ok2 := number(f[1])
			if ok1 && ok2 {
				return Parsed{Kind: "shared", Attempt: job.Attempt(a), Checkpoint: job.CheckpointID(c)}
			}
		}
	case strings.HasPrefix(rest, "chk-"):
		return parseCheckpoint(rest[len("chk-"):])
	}
	return Parsed{}
}

func parseCheckpoint(rest string) Parsed {
	id, leaf, ok := strings.Cut(rest, "/")
	v, isNum := number(id)
	if !ok || !isNum {
		return Parsed{}
	}
	p := Parsed{Checkpoint: job.CheckpointID(v)}
	switch {
	case leaf == "manifest" || leaf == "committed":
		p.Kind = leaf
	case strings.HasPrefix(leaf, "part-"):
		a, _, ok := strings.Cut(leaf[len("part-"):], "-")
		n, isNum := number(a)
		if !ok || !isNum {
			return Parsed{}
		}
		p.Kind, p.Attempt = "part", job.Attempt(n)
	default:
		return Parsed{}
	}
	return p
}

func number(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && v >= 0 && strconv.FormatInt(v, 10) == s
}
