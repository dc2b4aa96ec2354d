package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/exchange"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/state"
	"github.com/weirstream/weir/dataplane/task"
)

// wire attaches the attempt to the exchange and makes its subtasks, which do not run yet.
func (a *attempt) wire() (err error) {
	p := a.compiled.Program
	a.mesh, err = a.n.cfg.Exchange.Attach(exchange.MeshConfig{
		Ref: a.dep.Ref, Nodes: a.dep.Placement.Nodes(), Channels: a.channels(), GraphDigest: a.dep.GraphDigest,
		OnAnnounce: func(_ job.NodeID, b checkpoint.Barrier) { go a.announced(b) },
		OnDecline:  func(from job.NodeID, b checkpoint.Barrier, why string) { go a.peerDeclined(from, b, why) },
	})
	if err != nil {
		return err
	}
	ids := checkpoint.SubtasksOf(p.Graph, a.dep.Placement, a.n.cfg.ID)
	a.book = newBook(a, a.manifest, ids)
	byUID := map[string]int{}
	for v := range p.Graph.Vertices {
		byUID[p.Graph.Vertices[v].UID] = v
	}
	for _, id := range ids {
		s, err := a.subtask(byUID[id.Vertex], id)
		if err != nil {
			return fmt.Errorf("subtask %s: %w", id, err)
		}
		a.subtasks = append(a.subtasks, s)
		if s.IsSource() {
			a.sourcesOpen.Add(1)
		}
	}
	if a.sourcesOpen.Load() == 0 {
		close(a.sourcesEnded)
	}
	return nil
}

// announced is told of a barrier that a peer has heard of, perhaps before this node has started.
func (a *attempt) announced(b checkpoint.Barrier) {
	if b, err := a.whenStarted(a.ctx, b); err == nil {
		a.Heard(b)
	}
}

// peerDeclined is told of a checkpoint that a peer has declined.
func (a *attempt) peerDeclined(from job.NodeID, b checkpoint.Barrier, why string) {
	if b, err := a.whenStarted(a.ctx, b); err == nil {
		a.book.peerDeclined(b, fmt.Sprintf("node %s declined it: %s", from, why))
	}
}

// channels lists every channel of the attempt.
func (a *attempt) channels() []exchange.ChannelSpec {
	p := a.compiled.Program
	var out []exchange.ChannelSpec
	for e := range p.Graph.Edges {
		for _, ch := range channelsOf(&p.Graph, e) {
			out = append(out, exchange.ChannelSpec{
				Channel: ch, FromNode: a.dep.Placement.Slots[ch.From].Node, ToNode: a.dep.Placement.Slots[ch.To].Node,
				Schema: p.EdgeSchemas[e],
			})
		}
	}
	return out
}

// channelsOf lists the channels of edge e: one to one if it is forward, else all to all.
func channelsOf(g *job.Graph, e int) (out []job.Channel) {
	edge := &g.Edges[e]
	for from := range g.Vertices[edge.From].Parallelism {
		for to := range g.Vertices[edge.To].Parallelism {
			if edge.Exchange != job.Forward || from == to {
				out = append(out, job.Channel{Edge: e, From: from, To: to})
			}
		}
	}
	return out
}

func (a *attempt) subtask(v int, id job.SubtaskID) (*task.Subtask, error) {
	p := a.compiled.Program
	vx := &p.Vertices[v]
	cfg := task.Config{
		Ref: a.dep.Ref, ID: id, Vertex: vx, Parallelism: p.Graph.Vertices[v].Parallelism,
		MaxParallelism: p.Graph.MaxParallelism, Restored: a.dep.FirstCheckpoint - 1, States: a.manifest.States,
		Transactions: a.manifest.Transactions, Backends: map[string]state.Backend{}, Download: downloader{a},
		Listener: a, Log: a.n.cfg.Log,
	}
	if vx.Source == nil {
		var channels []job.Channel
		for i, e := range p.Graph.Inputs(v) {
			for _, ch := range channelsOf(&p.Graph, e) {
				if ch.To == id.Index {
					channels = append(channels, ch)
					cfg.ChannelInput = append(cfg.ChannelInput, i)
				}
			}
		}
		g, err := a.mesh.Gate(channels...)
		if err != nil {
			return nil, err
		}
		cfg.Gate = gate{g}
	}
	for _, e := range p.Graph.Outputs(v) {
		o, err := a.output(e, id.Index)
		if err != nil {
			return nil, err
		}
		cfg.Outputs = append(cfg.Outputs, o)
	}
	if err := a.openStates(cfg); err != nil {
		return nil, err
	}
	return task.New(cfg), nil
}

// openStates opens an empty state for every keyed operator of the subtask.
func (a *attempt) openStates(cfg task.Config) error {
	for _, st := range cfg.Vertex.Stages {
		if !st.Keyed {
			continue
		}
		dir := filepath.Join(a.dir, job.Escape(st.UID)+"-"+fmt.Sprint(cfg.ID.Index))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return errors.Join(err, closeAll(cfg.Backends))
		}
		b, err := a.compiled.NewState(state.Config{
			Dir: dir, KeyRange: job.RangeOf(cfg.ID.Index, cfg.Parallelism, cfg.MaxParallelism), MaxParallelism: cfg.MaxParallelism,
		})
		if err != nil {
			return errors.Join(fmt.Errorf("open state of %s: %w", st.UID, err), closeAll(cfg.Backends))
		}
		cfg.Backends[st.UID] = b
	}
	return nil
}

func closeAll(backends map[string]state.Backend) error {
	var errs []error
	for _, b := range backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// output makes the writing side of edge e for subtask from.
func (a *attempt) output(e, from int) (task.Output, error) {
	p := a.compiled.Program
	var outs []*exchange.Output
	for _, ch := range channelsOf(&p.Graph, e) {
		if ch.From != from {
			continue
		}
		o, err := a.mesh.Output(ch)
		if err != nil {
			return nil, err
		}
		outs = append(outs, o)
	}
	return exchange.NewPartitioner(exchange.PartitionerConfig{
		Exchange: p.Graph.Edges[e].Exchange, Schema: p.EdgeSchemas[e], Outputs: outs,
		Keys: p.EdgeKeys[e], MaxParallelism: p.Graph.MaxParallelism,
	})
}

// gate adapts exchange.Gate to the task's words.
type gate struct{ *exchange.Gate }

// Next implements task.Gate.
func (g gate) Next(ctx context.Context) (int, batch.Element, error) {
	ch, e, err := g.Gate.Next(ctx)
	if errors.Is(err, exchange.ErrWoken) {
		err = task.ErrWoken
	}
	return ch, e, err
}
