package checkpoint

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/dataplane/job"
)

// Commit is everything that decides the bytes of a manifest.
type Commit struct {
	Deployment job.Deployment
	Graph      job.Graph
	ID         job.CheckpointID
	// Floor is the id below which every checkpoint is void (RetentionPlan.Floor of the newest executed plan).
	Floor job.CheckpointID
	// Parts are the nodes' shares, in any order.
	Parts []Part
}

// BuildManifest joins the parts of all nodes of a deployment into the manifest of checkpoint c.ID. It proves
// first that they are complete, and refuses (ErrInvalid) unless
//
//   - the graph is the deployment's, and the id one that this attempt may use;
//   - every node of the placement has exactly one part, of this uid, attempt and id;
//   - each part lists exactly the subtasks that the placement puts on its node;
//   - every state and transaction belongs to an operator and subtask of that node;
//   - every source has saved its position, and where one subtask of an operator saved state, all did;
//   - keyed state covers every key group exactly once.
//
// The result is final if every part says that its sources had ended before the barrier.
func BuildManifest(c Commit) (Manifest, error) {
	m, err := build(c)
	if err != nil {
		return Manifest{}, fmt.Errorf("build manifest %d of %s: %w", c.ID, c.Deployment.Ref, err)
	}
	return m, nil
}

func build(c Commit) (Manifest, error) {
	if got := c.Graph.Digest(); got != c.Deployment.GraphDigest {
		return Manifest{}, invalid("graph %s, the deployment's is %s", got, c.Deployment.GraphDigest)
	}
	if c.ID < c.Deployment.FirstCheckpoint {
		return Manifest{}, invalid("the attempt's first checkpoint is %d", c.Deployment.FirstCheckpoint)
	}
	g := c.Graph
	m := Manifest{
		Version: FormatVersion, Kind: Durable, UID: c.Deployment.UID, Attempt: c.Deployment.Attempt, ID: c.ID,
		Floor: c.Floor, Final: true, MaxParallelism: g.MaxParallelism, Graph: &g,
	}
	if err := join(&m, c); err != nil {
		return Manifest{}, err
	}
	sortShare(m.States, m.Transactions)
	if err := checkCoverage(g, m.States); err != nil {
		return Manifest{}, err
	}
	return m, m.Validate()
}

// join adds the parts to m, in placement order, so that sums and messages are deterministic.
func join(m *Manifest, c Commit) error {
	parts := map[job.NodeID]*Part{}
	for i := range c.Parts {
		p := &c.Parts[i]
		if parts[p.Node] != nil {
			return invalid("two parts of node %s", p.Node)
		}
		parts[p.Node] = p
	}
	nodes := c.Deployment.Placement.Nodes()
	for _, n := range nodes {
		p := parts[n.Node]
		if p == nil {
			return invalid("no part of node %s", n.Node)
		}
		if err := checkPart(c, p); err != nil {
			return fmt.Errorf("node %s: %w", n.Node, err)
		}
		m.States = append(m.States, p.States...)
		m.Transactions = append(m.Transactions, p.Transactions...)
		m.Stats = m.Stats.Add(p.Stats)
		m.Final = m.Final && p.Ended
	}
	for i := range c.Parts {
		if n := c.Parts[i].Node; !slices.ContainsFunc(nodes, func(s job.NodeSlot) bool { return s.Node == n }) {
			return invalid("part of node %s, which is not in the deployment", n)
		}
	}
	return nil
}

// checkPart proves that p is the complete share of its node.
func checkPart(c Commit, p *Part) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.UID != c.Deployment.UID || p.Attempt != c.Deployment.Attempt || p.ID != c.ID {
		return invalid("%s", p.Name())
	}
	want := SubtasksOf(c.Graph, c.Deployment.Placement, p.Node)
	if !slices.Equal(p.Subtasks, want) {
		return invalid("acks for %v, the placement says %v", p.Subtasks, want)
	}
	slots := c.Deployment.Placement.SlotsOf(p.Node)
	for _, s := range p.States {
		if !slices.Contains(slots, s.Subtask) {
			return invalid("state of %q[%d], which runs elsewhere", s.Operator, s.Subtask)
		}
	}
	for _, t := range p.Transactions {
		if !slices.Contains(slots, t.Subtask) {
			return invalid("transaction %q of subtask %d, which runs elsewhere", t.ID, t.Subtask)
		}
	}
	return nil
}

// SubtasksOf lists the subtasks of g that the placement puts on node, in the order of Part.Subtasks.
func SubtasksOf(g job.Graph, p job.Placement, node job.NodeID) []job.SubtaskID {
	var out []job.SubtaskID
	slots := p.SlotsOf(node)
	for _, v := range g.Vertices {
		for _, s := range slots {
			if s < v.Parallelism {
				out = append(out, job.SubtaskID{Vertex: v.UID, Index: s})
			}
		}
	}
	slices.SortFunc(out, compareSubtasks)
	return out
}

// checkCoverage proves that no source position and no key group is missing. States are sorted.
func checkCoverage(g job.Graph, states []OperatorState) error {
	saved := map[string][]OperatorState{}
	for _, s := range states {
		saved[s.Operator] = append(saved[s.Operator], s)
	}
	for vi, v := range g.Vertices {
		isSource := len(g.Inputs(vi)) == 0
		for oi, o := range v.Operators {
			got := saved[o.UID]
			if isSource && oi == 0 && len(got) == 0 {
				return invalid("source %q saved no position", o.UID)
			}
			if len(got) != 0 && len(got) != v.Parallelism {
				return invalid("operator %q: %d of %d subtasks saved their state", o.UID, len(got), v.Parallelism)
			}
			if err := checkKeyGroups(o.UID, got, v.Parallelism, g.MaxParallelism); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkKeyGroups(operator string, states []OperatorState, p, maxParallelism int) error {
	keyed := slices.ContainsFunc(states, func(s OperatorState) bool { return s.KeyRange.Len() > 0 })
	for i, s := range states {
		if want := job.RangeOf(i, p, maxParallelism); keyed && s.KeyRange != want {
			return invalid("operator %q: subtask %d saved key groups %s, it owns %s", operator, s.Subtask, s.KeyRange, want)
		}
	}
	return nil
}
