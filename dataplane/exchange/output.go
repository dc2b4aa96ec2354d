package exchange

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// Output is the writing side of a channel. It belongs to the goroutine of the subtask that writes.
type Output struct {
	mesh    *Mesh
	channel job.Channel
	schema  *batch.Schema

	// Within the node.
	queue *queue

	// Between nodes.
	peer  job.NodeID
	to    *conn  // set when the mesh starts
	seq   uint64 // of the next frame
	limit int    // bytes of a batch frame's payload
	space chan struct{}
	mu    struct {
		sync.Mutex
		credit  credit
		waiting bool // the writer waits for space
	}
}

// Send appends e to the channel, waiting for room. It takes over the batch: nobody may change it afterwards.
// It returns the mesh's error once that is over, and the cause of ctx's end.
func (o *Output) Send(ctx context.Context, e batch.Element) error {
	if err := o.mesh.Err(); err != nil {
		return err
	}
	if o.queue != nil {
		return o.push(ctx, e)
	}
	if e.Kind == batch.BatchElement {
		return o.sendBatch(ctx, e.Batch)
	}
	if err := o.spend(ctx); err != nil {
		return err
	}
	frame := reserveHeader(o.to.buffer())
	typ := endFrame
	if e.Kind == batch.BarrierElement {
		typ = barrierFrame
		frame = append(frame, controlPayload(e.Barrier)...)
	}
	o.send(typ, frame)
	return nil
}

// push appends to the queue of a reader in this process.
func (o *Output) push(ctx context.Context, e batch.Element) error {
	for !o.queue.gate.push(o.queue, item{element: e}) {
		if err := o.wait(ctx, o.queue.space); err != nil {
			return err
		}
	}
	return nil
}

// sendBatch encodes b into a frame, or into several when one would be too long. The watermark holds after
// the last row, so only the last part carries it.
func (o *Output) sendBatch(ctx context.Context, b *batch.Batch) error {
	if err := o.spend(ctx); err != nil {
		return err
	}
	frame := reserveHeader(o.to.buffer())
	if b.Len() <= batch.MaxRows {
		frame = batch.AppendBatch(frame, b)
		if len(frame)-headerSize <= o.limit {
			o.send(batchFrame, frame)
			return nil
		}
	}
	o.to.recycle(frame)
	o.mu.Lock()
	o.mu.credit.elements++ // unspent; the parts pay for themselves
	o.mu.Unlock()
	if b.Len() < 2 {
		return job.AsFatal(fmt.Errorf("send to channel %s: a row of %d bytes does not fit a frame of %d", o.channel, len(frame)-headerSize, o.limit))
	}
	first, second := split(b)
	if err := o.sendBatch(ctx, first); err != nil {
		return err
	}
	return o.sendBatch(ctx, second)
}

// split cuts b in two halves of its logical rows.
func split(b *batch.Batch) (first, second *batch.Batch) {
	rows := batch.AllRows(b, nil)
	half := len(rows) / 2
	g := batch.NewBuilder(b.Schema)
	g.Gather(b, rows[:half])
	first = g.Finish(batch.NoWatermark, false)
	g.Gather(b, rows[half:])
	return first, g.Finish(b.Watermark, b.Idle)
}

// send hands a frame to the connection, whose credit has been spent.
func (o *Output) send(typ frameType, frame []byte) {
	seal(frame, header{typ: typ, tag: o.mesh.tag, attempt: o.mesh.ref.Attempt, channel: o.channel, seq: o.seq})
	o.seq++
	o.mu.Lock()
	o.mu.credit.bytes -= len(frame) - headerSize
	o.mu.Unlock()
	o.to.enqueue(frame)
}

// spend waits for credit and takes one element of it. Bytes are taken when they are known, so the last batch
// before the writer waits may exceed them.
func (o *Output) spend(ctx context.Context) error {
	for {
		o.mu.Lock()
		if o.mu.credit.elements > 0 && o.mu.credit.bytes > 0 {
			o.mu.credit.elements--
			o.mu.Unlock()
			return nil
		}
		o.mu.waiting = true
		o.mu.Unlock()
		if err := o.wait(ctx, o.space); err != nil {
			return err
		}
	}
}

// refill adds credit that the reader granted.
func (o *Output) refill(g grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.credit.elements += g.elements
	o.mu.credit.bytes += g.bytes
	if o.mu.waiting && o.mu.credit.elements > 0 && o.mu.credit.bytes > 0 {
		o.mu.waiting = false
		signal(o.space)
	}
}

// wait returns nil when space is signalled.
func (o *Output) wait(ctx context.Context, space <-chan struct{}) error {
	select {
	case <-space:
		return nil
	case <-o.mesh.done:
		return o.mesh.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
