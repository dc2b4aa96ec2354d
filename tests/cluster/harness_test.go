// Package cluster runs jobs on several nodes in this process: spec, plan, engine, nodes, exchange and a store in
// memory, with the control plane's part played by hand. Its sinks collect rows, committed and not.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/cmd/engine"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/exchange"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/node"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
	"github.com/weirstream/weir/dataplane/state"
)

// cluster is a job, the nodes that may run it and what a control plane knows of it.
type cluster struct {
	t      *testing.T
	store  *snapshottest.Faulty
	engine *engine.Engine
	out    *output
	tap    *tap
	slots  int
	nodes  []*member
	// opening, if set, is called before a node opens the store for a deployment; state before it opens a state.
	opening func()
	state   func() error
	// faults is what the store does; faulted is told of calls that it meets.
	faults  atomic.Pointer[fault]
	faulted chan struct{}
	edit    []func(*node.Config)

	uid   job.UID
	spec  json.RawMessage
	graph job.Graph

	attempt job.Attempt
	// decided is the newest decided checkpoint, durable the newest durable one, committed the newest with all of
	// its transactions committed.
	decided, durable, committed job.CheckpointID
}

// fault is what happens to calls of op on keys that contain part.
type fault struct {
	op   snapshottest.Op
	part string
	snapshottest.Fault
}

// decideFault is the store's snapshottest.Faulty.Decide.
func (c *cluster) decideFault(op snapshottest.Op, key string) snapshottest.Fault {
	f := c.faults.Load()
	if f == nil || f.op != op || !strings.Contains(key, f.part) {
		return snapshottest.Fault{}
	}
	select {
	case c.faulted <- struct{}{}:
	default:
	}
	return f.Fault
}

// member is one node.
type member struct {
	id     job.NodeID
	server *exchange.Server
	node   *node.Node
	dead   bool
}

// newCluster starts the nodes and writes the job's start position. edit changes what a node is made of.
func newCluster(t *testing.T, nodes, slots int, spec string, edit ...func(*node.Config)) *cluster {
	t.Helper()
	j, err := config.ParseJob("job.yaml", []byte(spec))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("WEIR_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c := &cluster{
		t: t, uid: "0f0f", spec: j.JSON(), engine: &engine.Engine{Log: log}, out: newOutput(), tap: newTap(), slots: slots,
		faulted: make(chan struct{}, 1), edit: edit,
	}
	c.store = &snapshottest.Faulty{Store: snapshottest.NewMemory(), Decide: c.decideFault}
	p, err := c.engine.Plan(t.Context(), c.spec)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	c.graph = p.Graph
	for i := range nodes {
		c.add(job.NodeID(fmt.Sprintf("n%d", i+1)), log)
	}
	t.Cleanup(func() { c.close() })
	c.start()
	return c
}

func (c *cluster) add(id job.NodeID, log *slog.Logger) {
	c.t.Helper()
	server, err := exchange.Listen(exchange.ServerConfig{Addr: "127.0.0.1:0", Self: id, Timings: exchange.RelaxedTimings(), Logger: log})
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{id: id, server: server}
	cfg := node.Config{
		ID: id, Slots: c.slots, DataDir: filepath.Join(c.t.TempDir(), string(id)), Exchange: server, Compile: c.compile,
		OpenStore: func(context.Context, string) (snapshot.Store, error) {
			if c.opening != nil {
				c.opening()
			}
			return c.store, nil
		},
		Log: log.With("node", string(id)),
	}
	for _, f := range c.edit {
		f(&cfg)
	}
	m.node = node.New(cfg)
	c.nodes = append(c.nodes, m)
}

// compile is the engine's, with sinks that collect and sources that can be stopped.
func (c *cluster) compile(ctx context.Context, dep job.Deployment) (node.Compiled, error) {
	n, err := c.engine.Compile(ctx, dep)
	if err != nil {
		return n, err
	}
	open := n.NewState
	n.NewState = func(cfg state.Config) (state.Backend, error) {
		if c.state != nil {
			if err := c.state(); err != nil {
				return nil, err
			}
		}
		return open(cfg)
	}
	for v := range n.Program.Vertices {
		vx := &n.Program.Vertices[v]
		for i := range vx.Sinks {
			vx.Sinks[i].Connector = &collector{out: c.out}
		}
		if vx.Source != nil {
			vx.Source.Connector = &tapped{Source: vx.Source.Connector, tap: c.tap}
		}
	}
	return n, nil
}

// start writes chk-0.
func (c *cluster) start() {
	c.t.Helper()
	states, err := c.engine.Start(c.t.Context(), c.spec)
	if err != nil {
		c.t.Fatalf("start: %v", err)
	}
	m, err := checkpoint.NewStart(c.uid, c.graph, states)
	if err != nil {
		c.t.Fatal(err)
	}
	c.decide(m)
}

// decide writes a decision, which must be ours.
func (c *cluster) decide(m checkpoint.Manifest) {
	c.t.Helper()
	v, err := snapshot.Decide(c.t.Context(), c.store, m)
	if err != nil || !v.Ours {
		c.t.Fatalf("decide checkpoint %d: %+v, %v", m.ID, v, err)
	}
	c.decided = m.ID
}

// run is an attempt.
type run struct {
	c     *cluster
	dep   job.Deployment
	on    []*member
	ended map[job.NodeID]chan error
}

// plan claims the next checkpoint id for a new attempt from the newest durable checkpoint, brings the sinks to
// rest and places the attempt on the living nodes.
func (c *cluster) plan() job.Deployment {
	c.t.Helper()
	c.attempt++
	ref := job.Ref{UID: c.uid, Attempt: c.attempt}
	c.decide(checkpoint.NewClaim(ref, c.decided+1, 0))
	restore, err := snapshot.ReadManifest(c.t.Context(), c.store, c.uid, c.durable)
	if err != nil {
		c.t.Fatal(err)
	}
	c.out.commit(restore.Transactions)
	c.out.abort()
	c.committed = c.durable
	var free []job.NodeSlots
	for _, m := range c.living() {
		free = append(free, job.NodeSlots{ID: m.id, Addr: m.server.Addr(), Slots: c.slots})
	}
	placement, err := job.Place(c.graph.MaxVertexParallelism(), free)
	if err != nil {
		c.t.Fatal(err)
	}
	return job.Deployment{
		Ref: ref, JobName: "test", Spec: c.spec, GraphDigest: c.graph.Digest(), Restore: c.durable,
		FirstCheckpoint: c.decided + 1, Placement: placement, Storage: "memory://",
	}
}

func (c *cluster) living() (out []*member) {
	for _, m := range c.nodes {
		if !m.dead {
			out = append(out, m)
		}
	}
	return out
}

// deploy plans an attempt and runs it on its nodes.
func (c *cluster) deploy() *run {
	c.t.Helper()
	return c.runs(c.plan())
}

// runs calls RunTasks on every node of dep.
func (c *cluster) runs(dep job.Deployment) *run {
	r := &run{c: c, dep: dep, ended: map[job.NodeID]chan error{}}
	for _, m := range c.living() {
		if len(dep.Placement.SlotsOf(m.id)) == 0 {
			continue
		}
		r.on = append(r.on, m)
		ended := make(chan error, 1)
		r.ended[m.id] = ended
		go func() { ended <- m.node.RunTasks(context.Background(), dep) }()
	}
	return r
}

// barrier is the next checkpoint's.
func (c *cluster) barrier(r *run, remaining time.Duration) checkpoint.Barrier {
	return checkpoint.Barrier{
		Ref: r.dep.Ref, ID: c.decided + 1, Remaining: remaining, Decided: c.decided, Durable: c.durable, Committed: c.committed, Aligned: true,
	}
}

// snapshots orders b on every node of the attempt and returns the acks, or the first error.
func (r *run) snapshots(b checkpoint.Barrier) ([]checkpoint.Ack, error) {
	type answer struct {
		ack checkpoint.Ack
		err error
	}
	answers := make(chan answer, len(r.on))
	for _, m := range r.on {
		go func() {
			ack, err := r.order(m, b)
			answers <- answer{ack, err}
		}()
	}
	var acks []checkpoint.Ack
	var err error
	for range r.on {
		a := <-answers
		acks = append(acks, a.ack)
		err = errors.Join(err, a.err)
	}
	return acks, err
}

// order is the Snapshot activity: it is retried until the node has heard of the attempt.
func (r *run) order(m *member, b checkpoint.Barrier) (checkpoint.Ack, error) {
	for {
		ack, err := m.node.Snapshot(r.c.t.Context(), b)
		if err == nil || !strings.Contains(err.Error(), "does not run") {
			return ack, err
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the order is retried, as the control plane does
	}
}

// checkpoint takes the next checkpoint on every node, decides it and commits its transactions.
func (r *run) checkpoint() (checkpoint.Manifest, error) {
	r.c.t.Helper()
	b := r.c.barrier(r, time.Minute)
	acks, err := r.snapshots(b)
	if err != nil {
		return r.abort(b.ID, err)
	}
	return r.commit(b.ID, acks), nil
}

func (r *run) abort(n job.CheckpointID, why error) (checkpoint.Manifest, error) {
	r.c.t.Helper()
	r.c.decide(checkpoint.NewAbort(r.dep.Ref, n, 0, why.Error()))
	return checkpoint.Manifest{}, why
}

func (r *run) commit(n job.CheckpointID, acks []checkpoint.Ack) checkpoint.Manifest {
	r.c.t.Helper()
	c := checkpoint.Commit{Deployment: r.dep, Graph: r.c.graph, ID: n}
	for _, a := range acks {
		p, err := snapshot.ReadPart(r.c.t.Context(), r.c.store, r.dep.Ref, n, a)
		if err != nil {
			r.c.t.Fatal(err)
		}
		c.Parts = append(c.Parts, p)
	}
	m, err := checkpoint.BuildManifest(c)
	if err != nil {
		r.c.t.Fatal(err)
	}
	r.c.decide(m)
	r.c.durable = n
	r.c.out.commit(m.Transactions)
	r.c.committed = n
	return m
}

// mustCheckpoint is checkpoint without a failure.
func (r *run) mustCheckpoint() checkpoint.Manifest {
	r.c.t.Helper()
	m, err := r.checkpoint()
	if err != nil {
		r.c.t.Fatalf("checkpoint: %v", err)
	}
	return m
}

// outcome waits for the end of the attempt on a node.
func (r *run) outcome(m *member) error {
	r.c.t.Helper()
	select {
	case err := <-r.ended[m.id]:
		r.ended[m.id] <- err
		return err
	case <-time.After(20 * time.Second):
		r.c.t.Fatalf("attempt %s has not ended on node %s", r.dep.Ref, m.id)
		return nil
	}
}

// stop stops the attempt everywhere.
func (r *run) stop() {
	r.c.t.Helper()
	for _, m := range r.on {
		if err := m.node.StopTasks(r.c.t.Context(), r.dep.Ref); err != nil {
			r.c.t.Fatal(err)
		}
	}
}

// finish lets the sources read to their ends, takes the final checkpoint and stops.
func (r *run) finish() {
	r.c.t.Helper()
	r.c.tap.open()
	for _, m := range r.on {
		if err := r.awaitEnd(m); err != nil {
			r.c.t.Fatalf("sources on node %s: %v", m.id, err)
		}
	}
	if m := r.mustCheckpoint(); !m.Final {
		r.c.t.Fatalf("checkpoint %d after the end of all sources is not final", m.ID)
	}
	r.stop()
}

func (r *run) awaitEnd(m *member) error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(r.c.t.Context(), 4*time.Minute)
	defer cancel()
	go func() {
		for {
			err := m.node.AwaitEnd(ctx, r.dep.Ref)
			if err == nil || !strings.Contains(err.Error(), "does not run") {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		return err
	case err := <-r.ended[m.id]:
		return err
	}
}

// kill is the death of a node as its peers see it: its connections break.
func (c *cluster) kill(m *member) {
	m.dead = true
	m.server.Close()
}

// close ends everything and checks that nothing is left running.
func (c *cluster) close() {
	for _, m := range c.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := m.node.Leave(ctx); err != nil {
			c.t.Errorf("node %s: %v", m.id, err)
		}
		cancel()
		m.server.Close()
	}
	c.tap.open()
	leaks(c.t)
}
