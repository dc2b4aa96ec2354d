package sim

// numKeys is the number of keys. With numKeys as maximum parallelism and a key's number as its hash, every key
// is a key group of its own.
const numKeys = 4

// partitions is the number of partitions of the input topic.
const partitions = 2

// input is the input topic: for each partition the keys of its records, in order. Its end is withheld until
// the run has seen enough checkpoints and failures.
type input struct {
	w     *world
	keys  [partitions][]int
	every int // ticks between two records of a partition
	shut  bool
	// start is the position of chk-0, once it is written.
	start    [partitions]int
	resolved bool
}

// high is the high watermark of partition p.
func (in *input) high(p int) int {
	end := len(in.keys[p])
	if in.shut {
		end -= 2
	}
	return min(2+in.w.now/in.every, end)
}

// counts is what a correct job has counted when it has read from the start up to at.
func (in *input) counts(at [partitions]int) (c [numKeys]int) {
	for p, keys := range in.keys {
		for i := in.start[p]; i < min(at[p], len(keys)); i++ {
			c[keys[i]]++
		}
	}
	return c
}

// final is what the output must hold when everything is read and every key has fired once at the end.
func (in *input) final() [numKeys]int {
	var end [partitions]int
	for p := range end {
		end[p] = len(in.keys[p])
	}
	c := in.counts(end)
	for k := range c {
		c[k]++
	}
	return c
}

// reader reads the output topic read-committed, all the time: everything up to the first transaction that is
// still open, aborted ones left out. The counts of each key must come as 1, 2, 3, …
type reader struct {
	w    *world
	at   [outputs]int
	last [numKeys]int
	// gap is set when a count was missed in a run whose transactions can time out: allowed only if the job
	// says so and stops.
	gap bool
}

func (r *reader) read() {
	b := r.w.kafka
	for o := range b.log {
		for ; r.at[o] < len(b.log[o]); r.at[o]++ {
			e := b.log[o][r.at[o]]
			if e.in.state.open() {
				break
			}
			if e.in.state == completeCommit {
				r.see(e)
			}
		}
	}
}

func (r *reader) see(e entry) {
	k, c, was := e.key, e.count, r.last[e.key]
	r.last[k] = c
	if c == was+1 {
		return
	}
	switch {
	case c <= was:
		r.w.fail("DOUBLE", "key %d: the reader had seen %d, then read %d in %s", k, was, c, e.in)
	case r.w.kafka.timeout > 0:
		r.w.tracef("reader: key %d: %d follows on %d", k, c, was)
		r.gap = true
	default:
		r.w.fail("LOST", "key %d: the reader had seen %d, then read %d in %s", k, was, c, e.in)
	}
}
