package workflows

import (
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// A table of failures in a row per strategy: whether each restarts and after how long at least.
func TestRestartStrategies(t *testing.T) {
	backoff := activities.Restart{Kind: "backoff", Initial: time.Second, Max: 8 * time.Second, ResetAfter: time.Minute}
	subtask := activities.Ending{Kind: activities.TypeSubtask, Node: "n1", Cause: "overflow"}
	lost := activities.Ending{Kind: activities.TypePeerLost, Node: "n1"}
	leaving := activities.Ending{Kind: activities.TypeNodeLeaving, Node: "n1"}
	const no = -1
	type failure struct {
		end   activities.Ending
		after time.Duration // since the one before
		ran   time.Duration
		want  time.Duration // delay without jitter; no: no restart
	}
	for _, tc := range []struct {
		name     string
		strategy activities.Restart
		failures []failure
	}{
		{"back-off doubles up to its maximum", backoff, []failure{
			{subtask, 0, 0, time.Second}, {subtask, 0, 0, 2 * time.Second}, {subtask, 0, 0, 4 * time.Second},
			{subtask, 0, 0, 8 * time.Second}, {subtask, 0, 0, 8 * time.Second}}},
		{"a long run forgets", backoff, []failure{{subtask, 0, 0, time.Second}, {subtask, 0, 0, 2 * time.Second}, {subtask, 0, time.Minute, time.Second}}},
		{"the first loss of a node is answered at once, a second is not", backoff, []failure{{lost, 0, 0, 0}, {lost, 0, 0, 2 * time.Second}}},
		{"a node that leaves costs nothing", backoff, []failure{{leaving, 0, 0, 0}, {leaving, 0, 0, 0}, {subtask, 0, 0, time.Second}}},
		{"no settings are the defaults", activities.Restart{}, []failure{{subtask, 0, 0, time.Second}}},
		{"fixed allows so many", activities.Restart{Kind: "fixed", Delay: 3 * time.Second, Attempts: 2},
			[]failure{{subtask, 0, 0, 3 * time.Second}, {leaving, 0, 0, 0}, {lost, 0, 0, 3 * time.Second}, {subtask, 0, 0, no}}},
		{"rate allows so many in a time", activities.Restart{Kind: "rate", Failures: 2, Per: time.Minute, Delay: time.Second},
			[]failure{{subtask, 0, 0, time.Second}, {subtask, 0, 0, time.Second}, {subtask, 2 * time.Minute, 0, time.Second},
				{subtask, 0, 0, time.Second}, {subtask, 0, 0, no}}},
		{"none", activities.Restart{Kind: "none"}, []failure{{leaving, 0, 0, 0}, {subtask, 0, 0, no}}},
		{"a damaged checkpoint never restarts", backoff, []failure{{activities.Ending{Kind: activities.TypeDamaged}, 0, 0, no}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r Restarts
			now := epoch
			for i, f := range tc.failures {
				now = now.Add(f.after)
				var v Verdict
				r, v = r.next(tc.strategy, Failure{Attempt: job.Attempt(i + 1), End: f.end, At: now, Ran: f.ran}, "seed")
				if want := f.want != no; v.Restart != want {
					t.Fatalf("failure %d: restart %v (%s), want %v", i, v.Restart, v.Why, want)
				}
				if !v.Restart && v.Why == "" {
					t.Errorf("failure %d: gives up without saying why", i)
				}
				if v.Restart && (v.Delay < f.want || v.Delay > f.want+f.want/10) {
					t.Errorf("failure %d: delay %v, want %v and at most a tenth more", i, v.Delay, f.want)
				}
			}
		})
	}
}

func TestJitterIsSpreadAndStable(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, seed := range []string{"a", "b", "c", "d"} {
		d := jitter(time.Minute, seed, 1)
		if d < 0 || d >= time.Minute || d != jitter(time.Minute, seed, 1) {
			t.Errorf("jitter of %q is %v", seed, d)
		}
		seen[d] = true
	}
	if len(seen) < 3 {
		t.Errorf("%d different jitters of four jobs", len(seen))
	}
}

func TestPause(t *testing.T) {
	for _, tc := range []struct {
		name               string
		sinceBegun         time.Duration
		sinceEnded         time.Duration
		interval, minPause time.Duration
		want               Pause
	}{
		{"barrier to barrier", 3 * time.Second, 2 * time.Second, 10 * time.Second, 0, Pause{Timer: 7 * time.Second}},
		{"overdue", 12 * time.Second, 0, 10 * time.Second, 0, Pause{}},
		{"the minimum pause after a long one", 12 * time.Second, time.Second, 10 * time.Second, 5 * time.Second, Pause{Timer: 4 * time.Second}},
		{"nearer than a timer", 9500 * time.Millisecond, 0, 10 * time.Second, 0, Pause{Hold: 500 * time.Millisecond}},
		{"an interval that timers cannot pace", 100 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 0, Pause{Hold: 200 * time.Millisecond}},
		{"a second is held on the nodes", 0, 0, time.Second, 0, Pause{Hold: time.Second}},
		{"two seconds are a timer", 0, 0, 2 * time.Second, 0, Pause{Timer: 2 * time.Second}},
		{"a short interval with a long pause is a timer", 0, 0, time.Second, time.Minute, Pause{Timer: time.Minute}},
	} {
		got := pause(epoch, epoch.Add(-tc.sinceBegun), epoch.Add(-tc.sinceEnded), tc.interval, tc.minPause)
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestWaitingGrowsToAMinute checks that a job never waits long for what was away shortly, and
// does not fill its history when that is long.
func TestWaitingGrowsToAMinute(t *testing.T) {
	if got := waiting(0); got != time.Second {
		t.Errorf("the first wait is %v, want 1s", got)
	}
	away := time.Duration(0)
	for try := range 40 {
		d := waiting(try)
		if before := waiting(max(try-1, 0)); d < before || d > time.Minute {
			t.Errorf("try %d waits %v after %v", try, d, before)
		}
		if away > 5*time.Second && d > away/2 {
			t.Errorf("try %d waits %v after an outage of %v", try, d, away)
		}
		away += d
	}
	if got := waiting(1000); got != time.Minute {
		t.Errorf("waits %v at last, want a minute", got)
	}
	if away < 15*time.Minute {
		t.Errorf("40 tries take %v, want at least a quarter of an hour", away)
	}
}

// What a checkpoint's result does to the numbers that the next barrier carries, and to the attempt.
func TestAfterCheckpoint(t *testing.T) {
	for _, tc := range []struct {
		result                      string
		final                       bool
		want                        Action
		decided, durable, committed job.CheckpointID
	}{
		{Committed, false, Action{}, 7, 7, 7},
		{Committed, true, Action{Final: true}, 7, 7, 7},
		{Durable, false, Action{}, 7, 7, 5},
		{Durable, true, Action{EndAttempt: true}, 7, 7, 5},
		{Aborted, false, Action{}, 7, 6, 5},
		{Lost, false, Action{EndAttempt: true}, 7, 7, 5},
		{Refused, false, Action{EndAttempt: true}, 7, 6, 5},
		{Undecided, false, Action{EndAttempt: true}, 6, 6, 5},
		{Superseded, false, Action{Superseded: true}, 7, 6, 5},
	} {
		s := State{Decided: 6, Durable: 6, Committed: 5}
		got := s.after(CheckpointRecord{ID: 7, Result: tc.result, Final: tc.final, At: epoch})
		if got != tc.want {
			t.Errorf("%s, final %v: %+v, want %+v", tc.result, tc.final, got, tc.want)
		}
		if s.Decided != tc.decided || s.Durable != tc.durable || s.Committed != tc.committed {
			t.Errorf("%s: decided, durable, committed = %d, %d, %d; want %d, %d, %d",
				tc.result, s.Decided, s.Durable, s.Committed, tc.decided, tc.durable, tc.committed)
		}
		if s.Succeeded+s.Failed != 1 || len(s.Checkpoints) != 1 || s.Ended != epoch {
			t.Errorf("%s: not recorded: %+v", tc.result, s)
		}
	}
}

func TestRetentionDue(t *testing.T) {
	for _, tc := range []struct {
		unretired, keep int
		want            bool
	}{{0, 1, false}, {1, 1, true}, {1, 3, false}, {2, 3, true}, {4, 10, false}, {5, 10, true}} {
		if got := retentionDue(tc.unretired, tc.keep); got != tc.want {
			t.Errorf("retentionDue(%d, %d) = %v", tc.unretired, tc.keep, got)
		}
	}
}

func TestHistoriesAreBounded(t *testing.T) {
	var s State
	for i := range 100 {
		s.after(CheckpointRecord{ID: job.CheckpointID(i), Result: Committed})
		s.deployed(Running{Attempt: job.Attempt(i), Nodes: []job.NodeSlot{{Node: "n"}}})
		s.stopped(activities.Ending{Kind: activities.TypePeerLost, Node: job.NodeID(rune('a' + i%26)), Cause: "x"}, epoch)
	}
	if len(s.Checkpoints) != keepCheckpoints || len(s.Attempts) != keepAttempts || len(s.Avoid) != keepAvoid {
		t.Errorf("%d checkpoints, %d attempts, %d nodes to avoid are kept", len(s.Checkpoints), len(s.Attempts), len(s.Avoid))
	}
	if s.Checkpoints[0].ID != 99 || s.Attempts[0].Attempt != 99 || s.Attempts[0].Until == nil {
		t.Errorf("newest are checkpoint %d and attempt %+v", s.Checkpoints[0].ID, s.Attempts[0])
	}
}

func TestRender(t *testing.T) {
	s := State{Durable: 42, Restarts: Restarts{Total: 1, Last: "attempt 2: node n1: subtask totals[1]: overflow"}}
	s.Planned.Summary = "kafka transfers → kafka alerts, parallelism 4"
	s.deployed(Running{Attempt: 3, Nodes: []job.NodeSlot{{Node: "n1"}, {Node: "n2"}}, Since: epoch})
	s.addCheckpoint(CheckpointRecord{ID: 41, Result: Aborted, Reason: "node n2: disk | full\nsecond line", At: epoch, Stats: checkpoint.Stats{LagRecords: -1}})
	s.addCheckpoint(CheckpointRecord{ID: 42, Result: Committed, At: epoch, TookMs: 812, Stats: checkpoint.Stats{Bytes: 1363149, Uploaded: 512, Records: 1000, LagRecords: 3}})
	got := render(s.status("payments", "running", "", 0), s.Checkpoints)
	want := `**running** · attempt 3 on 2 nodes · 1 restart

kafka transfers → kafka alerts, parallelism 4

Last failure: attempt 2: node n1: subtask totals[1]: overflow

| checkpoint | result | at (UTC) | took | state | uploaded | records | lag |
|--:|---|---|--:|--:|--:|--:|--:|
| 42 | committed | 12:00:00 | 812 ms | 1.3 MiB | 512 B | 1,000 | 3 |
| 41 | aborted: node n2: disk \| full second line | 12:00:00 | 0 ms | 0 B | 0 B | 0 | ? |
`
	if got != want {
		t.Errorf("details:\n%s\nwant:\n%s", got, want)
	}
	if got, want := brief(s.Checkpoints[0]), "after checkpoint 42 · 1.3 MiB · 812 ms"; got != want {
		t.Errorf("brief %q, want %q", got, want)
	}
	s.Restarts.Last = strings.Repeat("x", 100_000)
	for range 100 {
		s.addCheckpoint(CheckpointRecord{Result: Refused, Reason: strings.Repeat("y", 10_000)})
	}
	if n := len(render(s.status("payments", "running", strings.Repeat("z", 100_000), 0), s.Checkpoints)); n > 20_000 {
		t.Errorf("details of %d bytes; the server takes 20,000", n)
	}
}

func TestFormatting(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 ms", 9999: "9999 ms", 12_340: "12.3s", 61_000: "1m1s"} {
		if got := millis(n); got != want {
			t.Errorf("millis(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestCountsAreGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 24273392: "24,273,392"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) is %s, want %s", n, got, want)
		}
	}
}
