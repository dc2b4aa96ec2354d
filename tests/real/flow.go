package real

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/job"
)

// Flow watches a job from outside, over the workers' HTTP servers and a read-committed reader, so that it needs
// no Temporal. It is safe for concurrent use.
type Flow struct {
	reader *proof.Reader
	mu     struct {
		sync.Mutex
		read    map[job.Attempt]map[int]int64 // records read by the sources, by worker
		first   map[job.Attempt]time.Time     // when an attempt was first seen to have read something
		on      map[int]job.Attempt           // attempt with records by worker; 0 none
		news    []time.Time                   // when the reader was shown something new
		newest  job.Attempt
		lastSum int
	}
}

// WatchFlow starts to watch every worker and the reader until the test ends.
func (c *Cluster) WatchFlow(reader *proof.Reader) *Flow {
	c.t.Helper()
	f := &Flow{reader: reader}
	f.mu.read = map[job.Attempt]map[int]int64{}
	f.mu.first = map[job.Attempt]time.Time{}
	f.mu.on = map[int]job.Attempt{}
	ctx, cancel := context.WithCancel(c.Ctx)
	var all sync.WaitGroup
	for _, w := range c.Workers {
		all.Go(func() { every(ctx, 50*time.Millisecond, func() { f.ask(ctx, w) }) })
	}
	all.Go(func() { every(ctx, 20*time.Millisecond, f.look) })
	c.t.Cleanup(func() { cancel(); all.Wait() })
	return f
}

// every calls do again and again. There is no event to await across processes.
func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *Flow) ask(ctx context.Context, w *local.Worker) {
	figures, err := w.Figures(ctx)
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.on[w.Index] = 0
	if err != nil {
		return // dead, frozen or starting
	}
	for _, a := range figures {
		n := a.Ref.Attempt
		f.mu.newest = max(f.mu.newest, n)
		f.mu.on[w.Index] = max(f.mu.on[w.Index], n)
		var read int64
		for _, s := range a.Subtasks {
			if s.Source {
				read += s.Records
			}
		}
		if f.mu.read[n] == nil {
			f.mu.read[n] = map[int]int64{}
		}
		f.mu.read[n][w.Index] = read
		if _, known := f.mu.first[n]; !known && read > 0 {
			f.mu.first[n] = now
		}
	}
}

func (f *Flow) look() {
	sum := f.reader.Passed()
	f.mu.Lock()
	defer f.mu.Unlock()
	if sum != f.mu.lastSum {
		f.mu.lastSum = sum
		f.mu.news = append(f.mu.news, time.Now())
	}
}

// Attempt is the highest attempt that any worker has shown.
func (f *Flow) Attempt() job.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.newest
}

// Read is how many records the sources of an attempt have read, as far as their workers have told.
func (f *Flow) Read(n job.Attempt) (sum int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.mu.read[n] {
		sum += r
	}
	return sum
}

// On is the attempt that a worker has shown to run when it was asked last; 0: none, or no answer.
func (f *Flow) On(w *local.Worker) job.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.on[w.Index]
}

// Resumed is the first moment after t at which an attempt higher than n was seen to have read records.
func (f *Flow) Resumed(n job.Attempt, t time.Time) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var best time.Time
	for a, at := range f.mu.first {
		if a > n && at.After(t) && (best.IsZero() || at.Before(best)) {
			best = at
		}
	}
	return best, !best.IsZero()
}

// Shown is the first moment after t at which the reader was shown something new.
func (f *Flow) Shown(t time.Time) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.mu.news {
		if at.After(t) {
			return at, true
		}
	}
	return time.Time{}, false
}

// LongestSilence is the longest time between from and to in which the reader was shown nothing new.
func (f *Flow) LongestSilence(from, to time.Time) (longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := from
	for _, at := range f.mu.news {
		if at.Before(from) {
			continue
		}
		if at.After(to) {
			break
		}
		longest, last = max(longest, at.Sub(last)), at
	}
	return max(longest, to.Sub(last))
}

// RestartJob starts a job with the temporal CLI and the options {"from": from}, for a name that has checkpoints.
func (c *Cluster) RestartJob(name string, spec []byte, from string) {
	c.t.Helper()
	j, err := config.ParseJob("job.yaml", spec)
	if err != nil {
		c.t.Fatal(err)
	}
	file, options := filepath.Join(c.Dir, name+".json"), filepath.Join(c.Dir, name+"-options.json")
	for path, b := range map[string][]byte{file: j.JSON(), options: []byte(`{"from":"` + from + `"}`)} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	c.CLI("workflow", "start", "--type", "StreamJob", "--task-queue", "weir", "--workflow-id", name, "--task-timeout", "5s",
		"--input-file", file, "--input-file", options)
}
