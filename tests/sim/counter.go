package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/dataplane/barrier"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// counter is a subtask that counts by key, with barrier.Aligner at its inputs and a sink behind it.
type counter struct {
	d       *deployment
	id      job.SubtaskID
	index   int
	keys    job.KeyGroupRange
	counts  [numKeys]int
	in      [][]element
	blocked []bool
	aligner *barrier.Aligner
	// deadline is when the alignment in progress expires; 0: none.
	deadline int
	giveUp   []job.CheckpointID
	sink     *sink
}

func newCounter(d *deployment, id job.SubtaskID) *counter {
	n, par := d.graph.Vertices[0].Parallelism, d.graph.Vertices[1].Parallelism
	c := &counter{
		d: d, id: id, index: id.Index, keys: job.RangeOf(id.Index, par, numKeys),
		in: make([][]element, n), blocked: make([]bool, n), aligner: barrier.New(d.ref, n, d.dep.Restore),
	}
	c.sink = newSink(c)
	return c
}

// restore reads the state files of this subtask's keys, whoever wrote them.
func (c *counter) restore(p *proc, m checkpoint.Manifest) error {
	for _, s := range m.States {
		for _, f := range s.Files {
			k, n, isCount := parseFile(f)
			if !isCount || !c.keys.Contains(job.KeyGroupOf(uint64(k), numKeys)) {
				continue
			}
			body, err := p.store().Get(bg, names.Key(f.Name), 1<<10)
			switch {
			case errors.Is(err, snapshot.ErrNotFound) && c.d.w.temporal.attemptOpen(c.d.ref.Attempt):
				c.d.w.fail("FILE", "attempt %d restores checkpoint %d: %s is gone", c.d.ref.Attempt, m.ID, f.Name)
				return err
			case err != nil:
				return err
			}
			if string(body) != fileOf(k, n) {
				c.d.w.fail("FILE", "%s holds %q, the manifest says %q", f.Name, body, fileOf(k, n))
			}
			c.counts[k] = n
		}
	}
	return nil
}

// run reads the channels, one element at a time.
func (c *counter) run(p *proc) {
	w := c.d.w
	for {
		ch := -1
		p.await(func() bool {
			if len(c.giveUp) > 0 || c.expired() {
				return true
			}
			ch = c.pick()
			return ch >= 0 && len(c.sink.queue) < sinkRoom
		})
		switch {
		case len(c.giveUp) > 0:
			n := c.giveUp[0]
			c.giveUp = c.giveUp[1:]
			if !w.broken(NoDeadline) {
				c.effects(c.aligner.Step(barrier.GiveUp(n)))
			}
			continue
		case c.expired():
			n, _ := c.aligner.Pending()
			c.deadline = 0
			c.effects(c.aligner.Step(barrier.Expire(n)))
			continue
		}
		e := c.in[ch][0]
		c.in[ch] = c.in[ch][1:]
		switch {
		case e.barrier != nil:
			c.effects(c.aligner.Step(barrier.Arrive(ch, *e.barrier)))
		case e.end:
			c.effects(c.aligner.Step(barrier.End(ch)))
		default:
			c.counts[e.key]++
			c.sink.queue = append(c.sink.queue, output{record: record{e.key, c.counts[e.key]}})
		}
		p.step()
	}
}

func (c *counter) expired() bool {
	return c.deadline > 0 && c.d.w.now > c.deadline && !c.d.w.broken(NoDeadline)
}

// pick returns a channel that may be read and holds something, or -1.
func (c *counter) pick() int {
	n := len(c.in)
	from := c.d.w.rng.IntN(n)
	for i := range n {
		ch := (from + i) % n
		if len(c.in[ch]) == 0 || c.blocked[ch] {
			continue
		}
		if e := c.in[ch][0]; e.barrier != nil && c.d.w.broken(NoSupersede) {
			if n, aligning := c.aligner.Pending(); aligning && e.barrier.ID > n {
				continue
			}
		}
		return ch
	}
	return -1
}

func (c *counter) effects(effects []barrier.Effect) {
	d := c.d
	for _, f := range append([]barrier.Effect(nil), effects...) {
		switch f.Kind {
		case barrier.Announce:
			c.deadline = d.w.now + ticks(f.Barrier.Remaining) + d.host.skew
			d.heard(f.Barrier)
		case barrier.Block:
			c.blocked[f.Channel] = true
		case barrier.Unblock:
			clear(c.blocked)
		case barrier.Decline:
			c.deadline = 0
			d.stepBook(checkpoint.BookEvent{Kind: checkpoint.Failed, ID: f.ID, Reason: f.Reason.String()})
		case barrier.Snapshot:
			c.deadline = 0
			c.freeze(f.Barrier)
		case barrier.EndOfInput:
			for k := range numKeys {
				if c.keys.Contains(job.KeyGroupOf(uint64(k), numKeys)) {
					c.sink.queue = append(c.sink.queue, output{record: record{k, c.counts[k] + 1}})
				}
			}
		}
	}
}

// freeze takes the snapshot: the counts now, the transactions when the sink has flushed what is before the
// barrier; both are made durable in the background.
func (c *counter) freeze(b checkpoint.Barrier) {
	counts, pg := c.counts, c.d.pages[b.ID]
	pre := c.sink.prepare(b)
	c.d.spawn(fmt.Sprintf("persist%d", c.index), func(p *proc) {
		p.at("freeze state")
		p.step()
		state := checkpoint.OperatorState{Operator: countVertex, Subtask: c.index, KeyRange: c.keys, Backend: "memory"}
		for _, body := range c.files(counts) {
			f, err := c.upload(p, b.ID, body)
			if c.d.host.failsUntil > p.w.now {
				err = errors.New("no space left on device")
			}
			if err != nil {
				c.d.stepBook(checkpoint.BookEvent{Kind: checkpoint.Failed, ID: b.ID, Reason: err.Error()})
				return
			}
			state.Files = append(state.Files, f)
		}
		p.await(func() bool { return pre.done || pg != nil && pg.dropped })
		if !pre.done {
			return
		}
		p.at("listed")
		c.d.stepBook(checkpoint.BookEvent{Kind: checkpoint.Snapshotted, Share: checkpoint.Share{
			ID: b.ID, Subtask: c.id, States: []checkpoint.OperatorState{state}, Transactions: pre.list,
		}})
	})
}

// files are the contents of the state files: one for the count of each key, and one whose content comes back
// after a while, as that of real files does, so that it matters which old file is named again.
func (c *counter) files(counts [numKeys]int) (out []string) {
	sum := 0
	for k, n := range counts {
		if n > 0 && c.keys.Contains(job.KeyGroupOf(uint64(k), numKeys)) {
			out = append(out, fileOf(k, n))
			sum += n
		}
	}
	return append(out, fmt.Sprintf("phase%d=%d", c.index, sum/2%2))
}

// upload makes a file durable, or names one that is there already if the rules allow it.
func (c *counter) upload(p *proc, n job.CheckpointID, body string) (checkpoint.File, error) {
	sum := sha256.Sum256([]byte(body))
	digest := hex.EncodeToString(sum[:])
	f, found := c.d.reuse.Find(digest, int64(len(body)))
	if c.d.w.broken(ReuseAny) && !found {
		f, found = c.d.named[digest]
	}
	if found {
		c.d.w.count("files named again")
		c.d.reuse.Named(n, f)
		return f, nil
	}
	r, id := c.d.ref, n
	if c.d.w.broken(RecreateFiles) {
		r.Attempt, id = 0, 0
	}
	f, err := snapshot.UploadHashed(bg, p.store(), r, id, body, strings.ReplaceAll(body, "=", "."), int64(len(body)), digest)
	if err != nil {
		return f, err
	}
	c.d.reuse.Named(n, f)
	c.d.named[digest] = f
	return f, nil
}

// fileOf is the content of the file of one key's count; its local name says the same.
func fileOf(key, count int) string { return fmt.Sprintf("k%d=%d", key, count) }

// parseFile reads a local name; isCount is false for the other kind of file.
func parseFile(f checkpoint.File) (key, count int, isCount bool) {
	_, err := fmt.Sscanf(f.Local, "k%d.%d", &key, &count)
	return key, count, err == nil
}
