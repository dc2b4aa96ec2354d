package exchange

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// PartitionerConfig describes one outgoing edge of a subtask.
type PartitionerConfig struct {
	Exchange job.Exchange
	Schema   *batch.Schema
	// Outputs are the channels to the subtasks of the target, by their index.
	Outputs []*Output
	// Keys are the key columns of a Hash edge; MaxParallelism is its number of key groups.
	Keys           []int
	MaxParallelism int
	// CarriesHash says that batches come with Batch.Hash computed from Keys. Otherwise a Hash edge computes
	// it; a hash of other columns, left over from an earlier edge, must never route a row.
	CarriesHash bool
	// BatchRows is how many rows make an open batch leave; 0 means 2048.
	BatchRows int
}

// Partitioner distributes the batches of one edge over its channels. For each it keeps an open batch into
// which the rows of its inputs are gathered; the batch leaves when it is full, at Flush, and before a barrier
// or an end. Watermarks go to every channel, coalesced: each batch carries the newest. It belongs to the
// goroutine of the subtask that writes.
type Partitioner struct {
	cfg   PartitionerConfig
	outs  []target
	keys  *batch.Keys
	owner []int32 // target by key group
	next  int     // Rebalance: where rows go now

	// What holds after the last input.
	watermark int64
	idle      bool
	inputs    int // since everything was flushed

	// Scratch memory. ends is, for each target, the end of its rows in sorted.
	rows, sorted, ends []int32
	hashes             []uint64
}

// target is a channel with its open batch and what it was told last.
type target struct {
	out       *Output
	open      *batch.Builder
	watermark int64
	idle      bool
}

const (
	defaultBatchRows = 2048
	// maxInputs is after how many inputs everything is flushed, however little it is: open batches keep their
	// inputs' memory alive, and a channel without rows has to hear of watermarks while others are busy.
	maxInputs = 128
)

// NewPartitioner returns a partitioner with empty batches.
func NewPartitioner(cfg PartitionerConfig) (*Partitioner, error) {
	if len(cfg.Outputs) == 0 {
		return nil, fmt.Errorf("exchange: a %s edge without channels", cfg.Exchange)
	}
	if cfg.BatchRows <= 0 {
		cfg.BatchRows = defaultBatchRows
	}
	p := &Partitioner{cfg: cfg, watermark: batch.NoWatermark, ends: make([]int32, len(cfg.Outputs))}
	for _, o := range cfg.Outputs {
		p.outs = append(p.outs, target{out: o, open: batch.NewBuilder(cfg.Schema), watermark: batch.NoWatermark})
	}
	switch cfg.Exchange {
	case job.Forward:
		if len(cfg.Outputs) != 1 {
			return nil, fmt.Errorf("exchange: a forward edge with %d channels", len(cfg.Outputs))
		}
	case job.Rebalance:
	case job.Hash:
		if len(cfg.Keys) == 0 || cfg.MaxParallelism < len(cfg.Outputs) {
			return nil, fmt.Errorf("exchange: a hash edge of %d key columns and %d key groups for %d channels", len(cfg.Keys), cfg.MaxParallelism, len(cfg.Outputs))
		}
		p.keys = batch.NewKeys(cfg.Keys)
		p.owner = make([]int32, cfg.MaxParallelism)
		for g := range p.owner {
			p.owner[g] = int32(job.OwnerOf(job.KeyGroup(g), len(cfg.Outputs), cfg.MaxParallelism))
		}
	default:
		return nil, fmt.Errorf("exchange: unknown kind of edge %q", cfg.Exchange)
	}
	return p, nil
}

// Send distributes b, which it takes over. It waits for room while a full batch has to leave.
func (p *Partitioner) Send(ctx context.Context, b *batch.Batch) error {
	if b.Watermark != batch.NoWatermark {
		p.watermark = max(p.watermark, b.Watermark)
	}
	p.idle = b.Idle
	p.inputs++
	if b.Len() > 0 {
		if err := p.distribute(ctx, b); err != nil {
			return err
		}
	}
	if p.inputs >= maxInputs {
		return p.Flush(ctx)
	}
	return nil
}

func (p *Partitioner) distribute(ctx context.Context, b *batch.Batch) error {
	switch p.cfg.Exchange {
	case job.Hash:
		if len(p.outs) == 1 {
			return p.whole(ctx, &p.outs[0], p.withHash(b, new([]uint64)))
		}
		return p.scatter(ctx, p.withHash(b, &p.hashes)) // gathering copies the hashes
	case job.Rebalance:
		t := &p.outs[p.next]
		if err := p.whole(ctx, t, b); err != nil {
			return err
		}
		if t.open.Len() == 0 { // its batch has left
			p.next = (p.next + 1) % len(p.outs)
		}
		return nil
	default:
		return p.whole(ctx, &p.outs[0], b)
	}
}

// withHash returns b with the hash of the edge's keys, in *memory, which grows where it has to.
func (p *Partitioner) withHash(b *batch.Batch, memory *[]uint64) *batch.Batch {
	if p.cfg.CarriesHash && b.Hash != nil {
		return b
	}
	hashed := *b // b's buffers may be shared with others
	*memory = p.keys.Hash(*memory, b)
	hashed.Hash = *memory
	return &hashed
}

// whole sends all rows of b to t: as they are when they make a good batch, else with others.
func (p *Partitioner) whole(ctx context.Context, t *target, b *batch.Batch) error {
	if n := b.Len(); 2*n < p.cfg.BatchRows || 2*n < b.Rows {
		return p.gather(ctx, t, b, batch.AllRows(b, p.scratch(b)))
	}
	// What was gathered before leaves with the watermark that held before b.
	if earlier := t.open.Finish(t.watermark, false); earlier != nil {
		if err := p.deliver(ctx, t, earlier); err != nil {
			return err
		}
	}
	told := *b
	told.Watermark, told.Idle = p.watermark, p.idle
	return p.deliver(ctx, t, &told)
}

func (p *Partitioner) scratch(b *batch.Batch) []int32 {
	if cap(p.rows) < b.Rows {
		p.rows = make([]int32, b.Rows)
	}
	return p.rows
}

// scatter sends each row to the owner of its key group: a counting sort of the row numbers by target, then one
// gather a target.
func (p *Partitioner) scatter(ctx context.Context, b *batch.Batch) error {
	rows := batch.AllRows(b, p.scratch(b))
	if cap(p.sorted) < len(rows) {
		p.sorted = make([]int32, max(len(rows), defaultBatchRows))
	}
	sorted := p.sorted[:len(rows)]
	clear(p.ends)
	p.count(b.Hash, rows)
	start := int32(0)
	for i, n := range p.ends {
		p.ends[i] = start
		start += n
	}
	p.place(b.Hash, rows, sorted) // moves each start to its end
	start = 0
	for i, end := range p.ends {
		if end > start {
			p.outs[i].open.Gather(b, sorted[start:end])
		}
		start = end
	}
	for i := range p.outs {
		if err := p.leaveIfFull(ctx, &p.outs[i]); err != nil {
			return err
		}
	}
	return nil
}

// count adds to ends the number of rows of each target.
func (p *Partitioner) count(hash []uint64, rows []int32) {
	groups := uint64(len(p.owner))
	if groups&(groups-1) == 0 { // hash % groups without a division
		for _, r := range rows {
			p.ends[p.owner[hash[r]&(groups-1)]]++
		}
		return
	}
	for _, r := range rows {
		p.ends[p.owner[hash[r]%groups]]++
	}
}

// place writes the rows into sorted, each target's in order from where ends says, and advances ends.
func (p *Partitioner) place(hash []uint64, rows, sorted []int32) {
	groups := uint64(len(p.owner))
	mask := uint64(0)
	if groups&(groups-1) == 0 {
		mask = groups - 1
	}
	for _, r := range rows {
		g := hash[r] & mask
		if mask == 0 {
			g = hash[r] % groups
		}
		t := p.owner[g]
		sorted[p.ends[t]] = r
		p.ends[t]++
	}
}

func (p *Partitioner) gather(ctx context.Context, t *target, b *batch.Batch, rows []int32) error {
	t.open.Gather(b, rows)
	return p.leaveIfFull(ctx, t)
}

func (p *Partitioner) leaveIfFull(ctx context.Context, t *target) error {
	if t.open.Len() < p.cfg.BatchRows {
		return nil
	}
	return p.flushRows(ctx, t)
}

// flushRows sends t's open batch, if it has rows, with the newest watermark.
func (p *Partitioner) flushRows(ctx context.Context, t *target) error {
	if b := t.open.Finish(p.watermark, p.idle); b != nil {
		return p.deliver(ctx, t, b)
	}
	return nil
}

func (p *Partitioner) deliver(ctx context.Context, t *target, b *batch.Batch) error {
	t.watermark, t.idle = b.Watermark, b.Idle
	return t.out.Send(ctx, batch.Element{Kind: batch.BatchElement, Batch: b})
}

// Flush sends every open batch, and the watermark to the channels that have not heard of it.
func (p *Partitioner) Flush(ctx context.Context) error {
	p.inputs = 0
	for i := range p.outs {
		t := &p.outs[i]
		if err := p.flushRows(ctx, t); err != nil {
			return err
		}
		if t.watermark != p.watermark || t.idle != p.idle {
			if err := p.deliver(ctx, t, batch.WatermarkOnly(p.cfg.Schema, p.watermark, p.idle)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Barrier flushes and sends b into every channel.
func (p *Partitioner) Barrier(ctx context.Context, b checkpoint.Barrier) error {
	return p.broadcast(ctx, batch.Element{Kind: batch.BarrierElement, Barrier: &b})
}

// End flushes and ends every channel: only barriers may follow.
func (p *Partitioner) End(ctx context.Context) error {
	return p.broadcast(ctx, batch.Element{Kind: batch.EndElement})
}

func (p *Partitioner) broadcast(ctx context.Context, e batch.Element) error {
	if err := p.Flush(ctx); err != nil {
		return err
	}
	for i := range p.outs {
		if err := p.outs[i].out.Send(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
