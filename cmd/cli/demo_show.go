package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/cmd/local"
	"github.com/weirstream/weir/cmd/proof"
)

// introduce says what runs and where to look at it.
func (d *demo) introduce() {
	mode := "exactly once"
	if d.opts.atLeastOnce {
		mode = "at least once"
	}
	d.term.printf(`
  job       %s, %s: transfers and logins → totals per account, sums per minute
            a checkpoint every %s; the Temporal UI shows them: %s
  workload  %s records at %s a second, %d single kills, then all workers at once (--seed %d)
`, demoJob, mode, d.opts.interval, jobURL(d.stack.Temporal), grouped(d.opts.records), grouped(d.opts.rate), d.opts.kills, d.opts.seed)
}

func jobURL(t *local.Temporal) string {
	return t.UI() + "/namespaces/default/workflows/" + demoJob
}

// show prints how it goes, once a second, until ctx ends.
func (d *demo) show(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begin, last := time.Now(), time.Now()
	var sent, passed int
	for {
		select {
		case now := <-tick.C:
			p, s := d.reader.Progress(), int(d.sent.Load())
			over := now.Sub(last).Seconds()
			d.term.progress(d.line(now.Sub(begin), s, perSecond(s-sent, over), p, perSecond(p.Passed-passed, over)))
			last, sent, passed = now, s, p.Passed
		case <-ctx.Done():
			return
		}
	}
}

func perSecond(n int, seconds float64) int { return int(float64(n) / max(seconds, 0.001)) }

// line is the progress in less than eighty characters.
func (d *demo) line(at time.Duration, sent, inRate int, p proof.Progress, outRate int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%4.0fs  in %s %s/s  out %s %s/s", at.Seconds(), grouped(sent), grouped(inRate), grouped(p.Passed), grouped(outRate))
	if p.Doubled > 0 {
		fmt.Fprintf(&b, "  doubled %s", grouped(p.Doubled))
	}
	h := d.watch.now()
	if h.last.ID > 0 {
		fmt.Fprintf(&b, "  chk %d %s", h.last.ID, strings.ReplaceAll(h.last.Took, " ", ""))
	}
	up := 0
	for _, w := range d.stack.Workers {
		if w.Alive() {
			up++
		}
	}
	fmt.Fprintf(&b, "  restarts %d  up %d/%d", h.status.Restarts, up, len(d.stack.Workers))
	return b.String()
}

// report prints the verdict and where to look further. It returns errVerdict if the promise was broken.
func (d *demo) report(v proof.Verdict) (bad error) {
	word := "EXACTLY ONCE"
	switch {
	case v.ExactlyOnce() && d.opts.atLeastOnce:
		word = "AT LEAST ONCE, and by luck nothing came twice"
	case v.ExactlyOnce():
	case d.opts.atLeastOnce && v.AtLeastOnce():
		word = "AT LEAST ONCE: nothing was lost; without --at-least-once nothing is doubled either"
	default:
		word, bad = "BROKEN", errVerdict
	}
	h := d.watch.now()
	d.term.printf("\n%s\n  %s", word, strings.ReplaceAll(v.String(), "\n", "\n  "))
	d.term.printf("  job      %d restarts, %d checkpoints, %d failed", h.status.Restarts, h.status.Succeeded, h.status.Failed)
	addr := d.stack.Temporal.Addr()
	d.term.printf(`
look further
  %[1]s
  temporal workflow query --address %[2]s --workflow-id %[3]s --type checkpoints
  temporal workflow query --address %[2]s --workflow-id %[3]s --type status
  temporal workflow list  --address %[2]s
  logs: %[4]s`, jobURL(d.stack.Temporal), addr, demoJob, d.dir)
	return bad
}
