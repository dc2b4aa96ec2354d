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
// in it for IdleAfter, by reports that follow each other closely: silence, because the broker does not answer or
// the process stood still, is not idleness, and rows that were written meanwhile would come late. A partition that
// has never had a row becomes idle like any other.
type Generator struct {
	opts       Options
	merger     *Merger
	partitions []partition
	ended      bool
}

type partition struct {
	maxAt int64
	// emptySince is when the partition was first found empty, without a row or a silence since, emptyAt when
	// it was last; valid if empty.
	emptySince, emptyAt int64
	empty               bool
}

// maxSilence is how many microseconds may lie between two reports that a partition is empty, for the time
// between them to count.
const maxSilence = 2_000_000

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

// Empty says that at now there was nothing left to read in partition p. It must be said again and again: once
// it has been true for IdleAfter, p is idle.
func (g *Generator) Empty(p int, now int64) {
	q := &g.partitions[p]
	if !q.empty || now > Add(q.emptyAt, maxSilence) {
		q.empty, q.emptySince = true, now
	}
	q.emptyAt = now
	if g.opts.IdleAfter > 0 && g.merger.states[p] == active && now >= Add(q.emptySince, g.opts.IdleAfter) {
		g.merger.SetIdle(p)
	}
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
