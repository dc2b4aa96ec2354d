package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTemporalAway takes the control plane away under load. Records go on flowing, nothing is deployed anew, and
// checkpoints go on when it is back. Then its database is lost: the job goes on from what is in S3.
func TestTemporalAway(t *testing.T) {
	away := 30 * time.Second
	if *long {
		away = 3 * time.Minute
	}
	r := start(t, *seed, endless)
	r.flows(0)
	attempt := r.flow.Attempt()

	r.Temporal.Kill()
	t.Logf("Temporal killed in attempt %d", attempt)
	begin, last := time.Now(), r.flow.Read(attempt)
	for step := range 5 {
		r.wait(time.Until(begin.Add(away * time.Duration(step+1) / 5)))
		now := r.flow.Read(attempt)
		if now <= last {
			t.Errorf("without Temporal for %v: %d records are read, %d were before", time.Since(begin).Round(time.Second), now, last)
		}
		last = now
	}
	if err := r.Temporal.Start(r.Ctx); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	t.Logf("Temporal is back after %.1fs; %d records were read", back.Sub(begin).Seconds(), last)
	r.Await("a checkpoint is committed", time.Minute, func() bool { _, ok := r.flow.Shown(back); return ok })
	at, _ := r.flow.Shown(back)
	t.Logf("new output %.1fs after Temporal's return", at.Sub(back).Seconds())
	if limit := 20 * time.Second; at.Sub(back) > limit {
		t.Errorf("the next checkpoint was committed %v after Temporal's return, want at most %v", at.Sub(back), limit)
	}
	r.wait(10 * time.Second) // a RunTasks that timed out and does not attach again would end the attempt by then
	if now := r.flow.Attempt(); now != attempt {
		t.Errorf("the job is at attempt %d, want %d: an outage of Temporal is no reason to restart", now, attempt)
	}

	r.forget()
	lost := time.Now()
	r.RestartJob(name, r.spec, "latest")
	r.flows(attempt)
	at, _ = r.flow.Resumed(attempt, lost)
	t.Logf("without a database: attempt %d reads %.1fs after the start", r.flow.Attempt(), at.Sub(lost).Seconds())
	close(r.enough)
	r.finish(3 * time.Minute)
}

// forget makes Temporal lose its database.
func (r *rig) forget() {
	r.Helper()
	r.Temporal.Kill()
	files, err := filepath.Glob(filepath.Join(r.Dir, "temporal.db*"))
	if err != nil || len(files) == 0 {
		r.Fatalf("no database of Temporal in %s: %v", r.Dir, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			r.Fatal(err)
		}
	}
	if err := r.Temporal.Start(r.Ctx); err != nil {
		r.Fatal(err)
	}
	r.Logf("Temporal has lost its database in attempt %d", r.flow.Attempt())
}
