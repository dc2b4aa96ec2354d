package activitiestest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// Node is a worker process without a data plane: it deploys, counts, snapshots and stops.
type Node struct {
	id      job.NodeID
	slots   int
	cluster *Cluster

	mu       sync.Mutex
	deploys  *sync.Cond
	gate     *job.Gate
	running  map[job.Ref]*tasks
	decline  string
	stalled  bool
	held     job.CheckpointID
	deployed []job.Ref
	stops    []job.Ref
}

// tasks is one attempt on a node.
type tasks struct {
	dep   job.Deployment
	ended chan struct{}
	err   error
	atEnd chan struct{} // closed when the sources have reached their end
	heard job.CheckpointID
	// part is the answer to whoever asks for checkpoint heard again.
	part checkpoint.Part
	// prepared are transactions that no committed checkpoint covers.
	prepared []checkpoint.Transaction
	records  int64
}

var _ activities.Node = (*Node)(nil)

// ID implements activities.Node.
func (n *Node) ID() job.NodeID { return n.id }

// Deployed lists the attempts that were deployed here, each of them once.
func (n *Node) Deployed() []job.Ref {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]job.Ref(nil), n.deployed...)
}

// Stops lists the orders to stop.
func (n *Node) Stops() []job.Ref {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]job.Ref(nil), n.stops...)
}

// Running lists the attempts that run here.
func (n *Node) Running() []job.Ref {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []job.Ref
	for ref, t := range n.running {
		if !t.over() {
			out = append(out, ref)
		}
	}
	return out
}

// Decline makes the node decline every checkpoint for the reason given; "" ends that.
func (n *Node) Decline(why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decline = why
}

// Fail ends an attempt on this node, if it runs.
func (n *Node) Fail(ref job.Ref, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.finish(ref, err)
}

// Stall makes the node hold every share back until the order is withdrawn or the attempt has ended.
func (n *Node) Stall() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stalled = true
}

// Resume ends Stall for orders that come from now on.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stalled, n.held = false, 0
}

// Held is the checkpoint whose share the node holds back; 0: none.
func (n *Node) Held() job.CheckpointID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held
}

func (n *Node) hold(id job.CheckpointID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stalled {
		n.held = id
	}
	return n.stalled
}

// AwaitRunning returns when the attempt is deployed here.
func (n *Node) AwaitRunning(ref job.Ref) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.running[ref] == nil {
		n.deploys.Wait()
	}
}

// FailWhenRunning ends an attempt on this node as soon as it is deployed here.
func (n *Node) FailWhenRunning(ref job.Ref, err error) {
	n.AwaitRunning(ref)
	n.Fail(ref, err)
}

// EndSources lets the sources of an attempt reach their end.
func (n *Node) EndSources(ref job.Ref) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.running[ref]; t != nil && !isClosed(t.atEnd) {
		close(t.atEnd)
	}
}

func (n *Node) finish(ref job.Ref, err error) {
	if t := n.running[ref]; t != nil && !t.over() {
		t.err = err
		close(t.ended)
	}
}

func (t *tasks) over() bool { return isClosed(t.ended) }

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Deploy deploys a plan as it stands in the store, without anybody watching.
func (n *Node) Deploy(plan []byte) {
	var dep job.Deployment
	if err := json.Unmarshal(plan, &dep); err != nil {
		panic(err) // written by PlaceAttempt
	}
	if _, err := n.admit(dep); err != nil {
		panic(err)
	}
}

// RunTasks implements activities.Node.
func (n *Node) RunTasks(ctx context.Context, dep job.Deployment) error {
	t, err := n.admit(dep)
	if err != nil {
		return err
	}
	select {
	case <-t.ended:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// admit deploys dep unless it was deployed before.
func (n *Node) admit(dep job.Deployment) (*tasks, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first, err := n.gate.Admit(dep.Ref)
	if err != nil {
		return nil, err
	}
	if first {
		for ref := range n.running {
			if ref.UID == dep.UID && ref.Attempt < dep.Attempt {
				n.finish(ref, job.AsFenced(&job.StaleError{Ref: ref, Highest: dep.Attempt}))
			}
		}
		n.running[dep.Ref] = &tasks{dep: dep, ended: make(chan struct{}), atEnd: make(chan struct{})}
		n.deployed = append(n.deployed, dep.Ref)
		n.deploys.Broadcast()
	}
	return n.running[dep.Ref], nil
}

// StopTasks implements activities.Node.
func (n *Node) StopTasks(_ context.Context, ref job.Ref) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gate.Stop(ref)
	n.stops = append(n.stops, ref)
	n.finish(ref, job.AsFenced(&job.StoppedError{Ref: ref}))
	return nil
}

// Snapshot implements activities.Node: it saves a source position per slot and, in a transactional job,
// prepares a transaction per slot.
func (n *Node) Snapshot(ctx context.Context, b checkpoint.Barrier) (checkpoint.Ack, error) {
	part, err := n.part(b)
	if err != nil {
		return checkpoint.Ack{}, err
	}
	if n.hold(b.ID) {
		n.mu.Lock()
		t := n.running[b.Ref]
		n.mu.Unlock()
		select {
		case <-t.ended:
			return checkpoint.Ack{}, t.err
		case <-ctx.Done():
			return checkpoint.Ack{}, context.Cause(ctx)
		}
	}
	return snapshot.WritePart(ctx, n.cluster.Store, part)
}

func (n *Node) part(b checkpoint.Barrier) (checkpoint.Part, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.running[b.Ref]
	switch {
	case n.decline != "":
		return checkpoint.Part{}, &activities.DeclinedError{ID: b.ID, Why: n.decline}
	case t == nil || t.over():
		return checkpoint.Part{}, &activities.DeclinedError{ID: b.ID, Why: "the attempt does not run here"}
	case b.ID == t.heard && b.ID > b.Decided:
		return t.part, nil
	case b.ID <= t.heard:
		return checkpoint.Part{}, &activities.DeclinedError{ID: b.ID, Why: fmt.Sprintf("checkpoint %d was heard of before", t.heard)}
	}
	t.heard = b.ID
	spec, err := parse(t.dep.Spec)
	if err != nil {
		return checkpoint.Part{}, err
	}
	var open []checkpoint.Transaction
	for _, x := range t.prepared {
		if x.Checkpoint > b.Committed {
			open = append(open, x)
		}
	}
	t.prepared = open
	p := checkpoint.Part{
		Version: checkpoint.FormatVersion, UID: b.UID, Attempt: b.Attempt, ID: b.ID, Node: n.id,
		Subtasks: checkpoint.SubtasksOf(spec.Graph(), t.dep.Placement, n.id), Ended: isClosed(t.atEnd),
	}
	t.records += 100
	for _, slot := range t.dep.Placement.SlotsOf(n.id) {
		p.States = append(p.States, checkpoint.OperatorState{Operator: "src", Subtask: slot, Inline: json.RawMessage(fmt.Sprintf(`{"offset":%d}`, t.records))})
		if spec.Transactional {
			t.prepared = append(t.prepared, n.cluster.Sinks.Begin(b.Ref, slot, b.ID))
		}
	}
	p.Transactions = sorted(t.prepared)
	p.Stats = checkpoint.Stats{Bytes: 1 << 20, Uploaded: 1 << 10, Files: 1, Records: t.records, Transactions: len(p.Transactions)}
	t.part = p
	return p, nil
}

// AwaitEnd implements activities.Node.
func (n *Node) AwaitEnd(ctx context.Context, ref job.Ref) error {
	n.mu.Lock()
	t := n.running[ref]
	n.mu.Unlock()
	if t == nil {
		return fmt.Errorf("attempt %s does not run here yet", ref)
	}
	select {
	case <-t.atEnd:
		return nil
	case <-t.ended:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Live implements activities.Node.
func (n *Node) Live(ref job.Ref) activities.Live {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.running[ref]; t != nil {
		return activities.Live{Records: t.records}
	}
	return activities.Live{}
}
