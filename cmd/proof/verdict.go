package proof

import (
	"fmt"
	"strings"
)

// Expected is what the output must be.
type Expected struct {
	records int
	totals  map[string]total
	windows map[windowKey]window
}

// Expect computes the output from the input.
func (w Workload) Expect() *Expected {
	x := &Expected{records: w.Records, totals: map[string]total{}, windows: map[windowKey]window{}}
	for i := range w.Records {
		e := w.Event(i)
		t := x.totals[e.Account]
		if e.Topic == Logins {
			t.Logins++
		} else {
			t.Transfers++
			t.Cents += e.Cents
			k := windowKey{e.Account, e.At.Truncate(Window).UnixMilli()}
			v := x.windows[k]
			x.windows[k] = window{v.Cents + e.Cents, v.N + 1}
		}
		x.totals[e.Account] = t
	}
	return x
}

// Verdict compares what a read-committed reader was shown with what it must have been shown.
type Verdict struct {
	Records int // in the input
	Lost    int // ids that never came
	Doubled int // ids that came more than once
	// WrongTotals are accounts whose last total is wrong; WrongWindows windows with a wrong sum, missing or
	// extra; WindowsTwice windows that came more than once.
	WrongTotals, WrongWindows, WindowsTwice int
	Windows, Accounts                       int
	// Order are violations of the order by key.
	Order []string
	Err   error // unreadable output
}

// Verdict judges what the reader has seen so far.
func (r *Reader) Verdict(want *Expected) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.seen
	v := Verdict{
		Records: want.records, WindowsTwice: s.twice, Order: s.order, Err: s.err,
		Windows: len(want.windows), Accounts: len(want.totals),
	}
	for i := range want.records {
		switch n := s.passed[i]; {
		case n == 0:
			v.Lost++
		case n > 1:
			v.Doubled++
		}
	}
	for a, t := range want.totals {
		if s.totals[a] != t {
			v.WrongTotals++
		}
	}
	for k, x := range want.windows {
		if s.windows[k] != x {
			v.WrongWindows++
		}
	}
	for k := range s.windows {
		if _, ok := want.windows[k]; !ok {
			v.WrongWindows++
		}
	}
	return v
}

// ExactlyOnce reports whether nothing was lost, doubled, wrong or out of order.
func (v Verdict) ExactlyOnce() bool {
	return v.Err == nil && v.Lost+v.Doubled+v.WrongTotals+v.WrongWindows+v.WindowsTwice+len(v.Order) == 0
}

// String is the verdict in a few lines.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "records  %d in, %d lost, %d doubled\n", v.Records, v.Lost, v.Doubled)
	fmt.Fprintf(&b, "totals   %d accounts, %d wrong\n", v.Accounts, v.WrongTotals)
	fmt.Fprintf(&b, "windows  %d, %d wrong, %d came twice\n", v.Windows, v.WrongWindows, v.WindowsTwice)
	fmt.Fprintf(&b, "order    %d violations by key", len(v.Order))
	if len(v.Order) > 0 {
		fmt.Fprintf(&b, ", first: %s", v.Order[0])
	}
	if v.Err != nil {
		fmt.Fprintf(&b, "\nunreadable output: %v", v.Err)
	}
	return b.String()
}
