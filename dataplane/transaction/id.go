package transaction

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/dataplane/job"
)

// DefaultPrefix is the first segment of transactional ids of jobs that do not choose one.
const DefaultPrefix = "weir"

// MaxIDBytes bounds a transactional id; brokers store every one for days.
const MaxIDBytes = 512

// ID is a transactional id, taken apart:
//
//	<prefix>/<uid>/<sink uid>/<attempt>/<subtask>/<slot>
//
// Prefix and sink are escaped (job.Escape), so that '/' only separates. The prefix comes first, for Kafka's
// prefix ACLs: grant on the escaped prefix.
type ID struct {
	Prefix  string
	UID     job.UID
	Sink    string
	Attempt job.Attempt
	Subtask int
	Slot    int
}

// String formats the id.
func (id ID) String() string {
	return fmt.Sprintf("%s/%s/%s/%d/%d/%d", job.Escape(id.Prefix), id.UID, job.Escape(id.Sink), id.Attempt, id.Subtask, id.Slot)
}

// Validate refuses an id that is too long or that Parse would not give back.
func (id ID) Validate() error {
	s := id.String()
	back, err := Parse(s)
	if err != nil {
		return err
	}
	if back != id {
		return fmt.Errorf("transactional id %q is not of canonical parts", s)
	}
	return nil
}

// Parse reads what ID.String writes, and refuses everything else.
func Parse(s string) (ID, error) {
	bad := func(what string) (ID, error) { return ID{}, fmt.Errorf("transactional id %.80q: %s", s, what) }
	if len(s) > MaxIDBytes {
		return bad(fmt.Sprintf("%d bytes, at most %d", len(s), MaxIDBytes))
	}
	f := strings.Split(s, "/")
	if len(f) != 6 {
		return bad(fmt.Sprintf("%d segments, want 6", len(f)))
	}
	var id ID
	var err error
	if id.Prefix, err = job.Unescape(f[0]); err != nil || id.Prefix == "" {
		return bad("prefix")
	}
	if !isUID(f[1]) {
		return bad("uid")
	}
	id.UID = job.UID(f[1])
	if id.Sink, err = job.Unescape(f[2]); err != nil || id.Sink == "" {
		return bad("sink")
	}
	attempt, ok1 := number(f[3], 63)
	subtask, ok2 := number(f[4], 31)
	slot, ok3 := number(f[5], 31)
	if !ok1 || !ok2 || !ok3 || attempt == 0 {
		return bad("attempt, subtask or slot")
	}
	id.Attempt, id.Subtask, id.Slot = job.Attempt(attempt), int(subtask), int(slot)
	return id, nil
}

// number reads a decimal number without sign or leading zeros that fits into the given number of bits.
func number(s string, bits int) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, bits)
	return v, err == nil && strconv.FormatUint(v, 10) == s
}

func isUID(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
