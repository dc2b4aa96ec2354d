package bench

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Write prints the result for people, and as its last line for scripts: weir, the job, and name=value pairs.
func (r *Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(k, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
	row("records", "%s in %.2f s: %s a second", grouped(r.Records), r.Wall.Seconds(), grouped(int64(float64(r.Records)/r.Wall.Seconds())))
	row("CPU of Weir", "%.2f s, %.0f ns a record", r.Weir.Seconds(), r.perRecord(float64(r.Weir)))
	for _, p := range r.Beside {
		row("  beside: "+p.Name, "%.2f s, %.0f ns a record", p.CPU.Seconds(), r.perRecord(float64(p.CPU)))
	}
	row("allocated", "%.0f bytes in %.4f allocations a record; %d collections", r.perRecord(float64(r.AllocatedBytes)),
		r.perRecord(float64(r.Allocations)), r.Collections)
	row("memory", "%d MiB at most", r.PeakBytes>>20)
	row("checkpoints", "%d", len(r.Checkpoints))
	for _, c := range r.Checkpoints {
		row("  "+c.ID.String(), "%s, took %s (aligned in %s, stopped for %s), state %s, uploaded %s", c.Result, c.Took, c.Align, c.Sync, c.State, c.Uploaded)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "weir %s records=%d wall=%.2f cpu=%.2f\n", r.Job, r.Records, r.Wall.Seconds(), r.Weir.Seconds())
	return err
}

// perRecord divides by the number of records.
func (r *Result) perRecord(v float64) float64 { return v / float64(max(r.Records, 1)) }

// grouped writes n with commas between the thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
