package checkpoint

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/dataplane/job"
)

// Names in manifests become object keys and file names, so they are checked against whitelists.
var (
	uidPattern    = regexp.MustCompile(`^[0-9a-z]{1,64}$`)
	digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	sharedPattern = regexp.MustCompile(`^shared/(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})-([0-9a-f]{64})$`)
	// deletePattern is what a retention plan may name: objects of a job, relative to its prefix.
	deletePattern = regexp.MustCompile(`^(shared/[0-9]+-[0-9]+-[0-9a-f]{64}|attempt-[0-9]+|retention-[0-9]+|chk-[0-9]+/(manifest|committed|part-[0-9]+-[A-Za-z0-9_.-]+))$`)
	localPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// maxSubtask bounds subtask numbers and parallelism; key groups are 16 bits wide.
const maxSubtask = 1 << 16

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// SharedName is the name of a state file in a manifest: relative to the job's prefix.
func SharedName(a job.Attempt, n job.CheckpointID, sha256 string) string {
	return fmt.Sprintf("shared/%d-%d-%s", a, n, sha256)
}

// Name names the manifest in messages: "checkpoint 12 of 0a1b (attempt 3)".
func (m Manifest) Name() string {
	return fmt.Sprintf("%s %d of %s (attempt %d)", m.Kind, m.ID, m.UID, m.Attempt)
}

// Name names the part in messages.
func (p Part) Name() string {
	return fmt.Sprintf("part of node %s of checkpoint %d of %s (attempt %d)", p.Node, p.ID, p.UID, p.Attempt)
}

// Is checks that m is what stands at checkpoint n of uid: an object copied to another key is refused.
func (m Manifest) Is(uid job.UID, n job.CheckpointID) error {
	if m.UID != uid || m.ID != n {
		return invalid("%s found in the place of checkpoint %d of %s", m.Name(), n, uid)
	}
	return nil
}

// Validate checks everything that can be checked without other objects; it wraps ErrVersion or ErrInvalid.
func (m Manifest) Validate() error {
	if err := validateHead(m.Version, m.UID, m.Attempt, m.ID); err != nil {
		return err
	}
	if m.Floor < 0 || m.Floor > m.ID {
		return invalid("floor %d above checkpoint %d", m.Floor, m.ID)
	}
	if !utf8.ValidString(m.Reason) {
		return invalid("reason is not UTF-8")
	}
	switch m.Kind {
	case Durable:
		return m.validateDurable()
	case Aborted, Retired:
		if m.Final || m.Origin != nil || m.Graph != nil || m.MaxParallelism != 0 || len(m.States) > 0 || len(m.Transactions) > 0 || m.Stats != (Stats{}) {
			return invalid("%s record with content", m.Kind)
		}
		return nil
	}
	return invalid("unknown kind %q", m.Kind)
}

func validateHead(version int, uid job.UID, a job.Attempt, n job.CheckpointID) error {
	if version != FormatVersion {
		return fmt.Errorf("version %d, this program knows %d: %w", version, FormatVersion, ErrVersion)
	}
	if !uidPattern.MatchString(string(uid)) {
		return invalid("uid %q", uid)
	}
	if a < 0 || n < 0 {
		return invalid("attempt %d, checkpoint %d", a, n)
	}
	return nil
}

func (m Manifest) validateDurable() error {
	if m.Graph == nil {
		return invalid("no graph")
	}
	if m.Origin != nil && (*m.Origin < 0 || *m.Origin >= m.ID) {
		return invalid("origin %d of checkpoint %d", *m.Origin, m.ID)
	}
	if m.MaxParallelism < 1 || m.MaxParallelism >= maxSubtask || m.MaxParallelism != m.Graph.MaxParallelism {
		return invalid("max parallelism %d, graph says %d", m.MaxParallelism, m.Graph.MaxParallelism)
	}
	owner, err := operators(*m.Graph)
	if err != nil {
		return err
	}
	if err := validateStates(m.States, m.MaxParallelism); err != nil {
		return err
	}
	for _, s := range m.States {
		if err := member(owner, s.Operator, s.Subtask); err != nil {
			return err
		}
	}
	if err := validateTransactions(m.Transactions, m.ID); err != nil {
		return err
	}
	for _, t := range m.Transactions {
		if err := member(owner, t.Sink, t.Subtask); err != nil {
			return err
		}
	}
	return nil
}

func member(owner map[string]int, operator string, subtask int) error {
	p, ok := owner[operator]
	if !ok {
		return invalid("operator %q is not in the graph", operator)
	}
	if subtask >= p {
		return invalid("subtask %d of operator %q, whose parallelism is %d", subtask, operator, p)
	}
	return nil
}

// operators maps every operator of g to the parallelism of its vertex.
func operators(g job.Graph) (map[string]int, error) {
	out := map[string]int{}
	for _, v := range g.Vertices {
		if v.Parallelism < 1 || v.Parallelism >= maxSubtask {
			return nil, invalid("parallelism %d of vertex %q", v.Parallelism, v.UID)
		}
		for _, o := range v.Operators {
			if _, ok := out[o.UID]; ok || o.UID == "" || !utf8.ValidString(o.UID) {
				return nil, invalid("operator uid %q is empty, not text or not unique", o.UID)
			}
			out[o.UID] = v.Parallelism
		}
	}
	return out, nil
}

// Validate checks everything that can be checked without other objects; it wraps ErrVersion or ErrInvalid.
func (p Part) Validate() error {
	if err := validateHead(p.Version, p.UID, p.Attempt, p.ID); err != nil {
		return err
	}
	if p.Node == "" || !utf8.ValidString(string(p.Node)) {
		return invalid("node %q", p.Node)
	}
	if len(p.Subtasks) == 0 {
		return invalid("no subtasks")
	}
	for i, s := range p.Subtasks {
		if s.Vertex == "" || !utf8.ValidString(s.Vertex) || s.Index < 0 || s.Index >= maxSubtask {
			return invalid("subtask %s", s)
		}
		if i > 0 && compareSubtasks(p.Subtasks[i-1], s) >= 0 {
			return invalid("subtasks %s and %s are not in order", p.Subtasks[i-1], s)
		}
	}
	if err := validateStates(p.States, maxSubtask-1); err != nil {
		return err
	}
	return validateTransactions(p.Transactions, p.ID)
}

func validateStates(states []OperatorState, maxParallelism int) error {
	for i, s := range states {
		if s.Operator == "" || !utf8.ValidString(s.Operator) || s.Subtask < 0 || s.Subtask >= maxSubtask {
			return invalid("state of operator %q, subtask %d", s.Operator, s.Subtask)
		}
		if i > 0 && compareStates(states[i-1], s) >= 0 {
			return invalid("states of %q[%d] and %q[%d] are not in order", states[i-1].Operator, states[i-1].Subtask, s.Operator, s.Subtask)
		}
		if s.KeyRange.From > s.KeyRange.To || int(s.KeyRange.To) > maxParallelism {
			return invalid("key groups %s of %q[%d]", s.KeyRange, s.Operator, s.Subtask)
		}
		if len(s.Files) > 0 && !localPattern.MatchString(s.Backend) {
			return invalid("backend %q of %q[%d]", s.Backend, s.Operator, s.Subtask)
		}
		local := map[string]bool{}
		for _, f := range s.Files {
			if err := f.Validate(); err != nil {
				return fmt.Errorf("%q[%d]: %w", s.Operator, s.Subtask, err)
			}
			if local[f.Local] {
				return invalid("two files %q of %q[%d]", f.Local, s.Operator, s.Subtask)
			}
			local[f.Local] = true
		}
	}
	return nil
}

// Validate checks names, digest and size against the whitelists: what passes can neither leave the job's
// prefix in the store nor the directory that it is downloaded into.
func (f File) Validate() error {
	if !digestPattern.MatchString(f.SHA256) {
		return invalid("file %q: digest %q", f.Name, f.SHA256)
	}
	parts := sharedPattern.FindStringSubmatch(f.Name)
	if parts == nil || parts[3] != f.SHA256 {
		return invalid("file name %q is not shared/<attempt>-<n>-%s", f.Name, f.SHA256)
	}
	if !localPattern.MatchString(f.Local) || strings.Contains(f.Local, "..") {
		return invalid("file %q: local name %q", f.Name, f.Local)
	}
	if f.Size < 0 {
		return invalid("file %q: size %d", f.Name, f.Size)
	}
	return nil
}

func validateTransactions(ts []Transaction, n job.CheckpointID) error {
	for i, t := range ts {
		if t.Sink == "" || t.Connector == "" || t.ID == "" || !utf8.ValidString(t.Sink+t.Connector+t.Resource+t.ID) {
			return invalid("transaction %q of sink %q, connector %q", t.ID, t.Sink, t.Connector)
		}
		if i > 0 && ts[i-1].ID >= t.ID {
			return invalid("transactions %q and %q are not in order", ts[i-1].ID, t.ID)
		}
		if t.Subtask < 0 || t.Subtask >= maxSubtask || t.Records < 0 || t.TimeoutMs < 0 || t.BeginUnixMs < 0 {
			return invalid("transaction %q: subtask %d, %d records, begun %d, timeout %d", t.ID, t.Subtask, t.Records, t.BeginUnixMs, t.TimeoutMs)
		}
		if t.Checkpoint < 0 || t.Checkpoint > n {
			return invalid("transaction %q of checkpoint %d in checkpoint %d", t.ID, t.Checkpoint, n)
		}
		if t.TimeoutMs > 0 && t.BeginUnixMs == 0 {
			return invalid("transaction %q has a timeout and no begin", t.ID)
		}
	}
	return nil
}

func compareStates(a, b OperatorState) int {
	return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Subtask, b.Subtask))
}

func compareSubtasks(a, b job.SubtaskID) int {
	return cmp.Or(cmp.Compare(a.Vertex, b.Vertex), cmp.Compare(a.Index, b.Index))
}

func compareTransactions(a, b Transaction) int { return cmp.Compare(a.ID, b.ID) }

func sortShare(states []OperatorState, ts []Transaction) {
	slices.SortStableFunc(states, compareStates)
	slices.SortStableFunc(ts, compareTransactions)
}
