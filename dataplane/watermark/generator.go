package watermark

// Options are the settings of a source's event time.
type Options struct {
	// OutOfOrder is how far, in microseconds, a row may be behind the newest one of its partition. At least 0.
	OutOfOrder int64
	// IdleAfter is after how many microseconds without anything to read a partition is left out; 0 = never.
	IdleAfter int64
}

// Generator makes the watermark of one source subtask from those of its partitions. It belongs to the
// subtask's goroutine; only Add allocates. Partitions are called by the index that Add returned.
//
// A subtask without partitions is idle at once and says nothing: not None, which would hold everybody up,
// and not Max, which would close everybody's windows. A partition is idle once there has been nothing to read
// in it for IdleAfter: silence because the broker does not answer is not idleness, so the source must say
// Empty. A partition that has never had a row becomes idle like any other.
type Generator struct {
	opts       Options
	merger     *Merger
	partitions []partition
	ended      bool
}

type partition struct {
	maxAt int64
	// emptySince is when the partition was first found empty without a row since; valid if empty.
	emptySince int64
	empty      bool
}

// NewGenerator returns a generator without partitions.
func NewGenerator(o Options) *Generator { return &Generator{opts: o, merger: NewMerger(0)} }

// Add adds a partition. maxAt is the newest event time of it that an earlier attempt saw (Newest, as saved), or
// None: after a restore the watermark goes on where it was, and no closed window opens again.
func (g *Generator) Add(maxAt int64) int {
	g.partitions = append(g.partitions, partition{maxAt: maxAt})
	return g.merger.Add(Bounded(maxAt, g.opts.OutOfOrder))
}

// Remove takes partition p away, because another subtask reads it now or because it is gone.
func (g *Generator) Remove(p int) { g.merger.Remove(p) }

// Observe says that rows of partition p were read, the newest of them at maxAt.
func (g *Generator) Observe(p int, maxAt int64) {
	q := &g.partitions[p]
	q.empty = false
	q.maxAt = max(q.maxAt, maxAt)
	g.merger.Advance(p, Bounded(q.maxAt, g.opts.OutOfOrder))
}

// ObserveMark says that rows of partition p were read and that the job computes the watermark itself: w, as
// of the newest row. Max is taken as Max − 1 µs, since only an end is an end.
func (g *Generator) ObserveMark(p int, w int64) {
	q := &g.partitions[p]
	q.empty = false
	q.maxAt = max(q.maxAt, Add(Add(min(w, Max-1), g.opts.OutOfOrder), 1))
	g.merger.Advance(p, min(w, Max-1))
}

// Empty says that at now there was nothing left to read in partition p.
func (g *Generator) Empty(p int, now int64) {
	q := &g.partitions[p]
	if !q.empty {
		q.empty, q.emptySince = true, now
	}
	g.idleIfDue(p, now)
}

// Tick lets time pass: partitions that have been empty for long enough become idle. It returns when the next
// one will, on the same clock, or Max.
func (g *Generator) Tick(now int64) (next int64) {
	next = Max
	for p := range g.partitions {
		if due, ok := g.idleIfDue(p, now); ok {
			next = min(next, due)
		}
	}
	return next
}

// idleIfDue makes p idle if it is due; otherwise it says when p will be, if nothing comes.
func (g *Generator) idleIfDue(p int, now int64) (due int64, pending bool) {
	q := &g.partitions[p]
	if !q.empty || g.opts.IdleAfter <= 0 || g.merger.states[p] != active {
		return 0, false
	}
	if due := Add(q.emptySince, g.opts.IdleAfter); now < due {
		return due, true
	}
	g.merger.SetIdle(p)
	return 0, false
}

// End says that partition p of a bounded source has been read to its end.
func (g *Generator) End(p int) { g.merger.End(p) }

// EndInput says that the source has ended: from now on the watermark is Max.
func (g *Generator) EndInput() { g.ended = true }

// Watermark is the subtask's watermark; idle says that it must be left out downstream.
func (g *Generator) Watermark() (w int64, idle bool) {
	if g.ended {
		return Max, false
	}
	return g.merger.Watermark(), g.merger.Idle()
}

// Newest is the newest event time seen in partition p, None if none: what the source saves.
func (g *Generator) Newest(p int) int64 { return g.partitions[p].maxAt }
