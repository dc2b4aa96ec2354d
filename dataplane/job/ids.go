package job

import (
	"fmt"
	"strconv"
	"strings"
)

// UID identifies one life of a job. It is minted once when a StreamJob starts for the first time and is
// carried through continue-as-new and restores in place. Everything that must not meet the leftovers of an
// older job of the same name (object keys, transaction ids, fencing) is named by the UID, never by the
// job's name. It is a lower-case hexadecimal string and safe as a path segment.
type UID string

// Attempt numbers the deployments of a job: 1, 2, …; 0 means "none yet". Never reused.
type Attempt int64

// CheckpointID numbers checkpoints: 0 is the start position written before attempt 1. Never reused.
type CheckpointID int64

// NodeID identifies one worker process. It is new with every process start.
type NodeID string

// String returns the decimal form, as in object names.
func (a Attempt) String() string { return strconv.FormatInt(int64(a), 10) }

// String returns the decimal form, as in object names.
func (c CheckpointID) String() string { return strconv.FormatInt(int64(c), 10) }

// Ref names one deployment of one job. Every frame, handshake, barrier, ack and order carries it.
type Ref struct {
	UID     UID     `json:"uid"`
	Attempt Attempt `json:"attempt"`
}

// String returns "uid/attempt".
func (r Ref) String() string { return fmt.Sprintf("%s/%d", r.UID, r.Attempt) }

// SubtaskID names one parallel instance of a vertex within an attempt.
type SubtaskID struct {
	// Vertex is the vertex's UID (that of its first operator).
	Vertex string `json:"vertex"`
	// Index is in [0, parallelism of the vertex).
	Index int `json:"index"`
}

// String returns "vertex[index]".
func (s SubtaskID) String() string { return fmt.Sprintf("%s[%d]", s.Vertex, s.Index) }

// Escape makes any user-given text safe as one segment of an object key, a file name or a transactional
// id: letters, digits, '_' and '-' stay, every other byte becomes ".xx" (hexadecimal). The result never
// contains '/' and is never "." or "..". The empty text becomes ".".
func Escape(s string) string {
	if s == "" {
		return "."
	}
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, ".%02x", c)
	}
	return b.String()
}

// Unescape reverses Escape. It refuses anything that Escape cannot have produced.
func Unescape(s string) (string, error) {
	if s == "." {
		return "", nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '.' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("unescape %q: cut off at %d", s, i)
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("unescape %q: bad escape at %d", s, i)
		}
		b = append(b, byte(v))
		i += 2
	}
	if Escape(string(b)) != s {
		return "", fmt.Errorf("unescape %q: not in canonical form", s)
	}
	return string(b), nil
}
