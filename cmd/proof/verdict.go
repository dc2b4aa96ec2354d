package proof

import (
	"fmt"
	"strings"
)

// Expected is what the output must be.
type Expected struct {
	workload Workload
	totals   map[string]total
	windows  map[windowKey]window
}

// Expect computes the output from the input.
func (w Workload) Expect() *Expected {
	x := &Expected{workload: w, totals: map[string]total{}, windows: map[windowKey]window{}}
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
	Altered int // ids that came with other contents than they were sent with
	Foreign int // ids that were never sent
	// Accounts and Windows are how many there must be. WrongTotals are accounts whose last total is wrong or
	// missing, or that do not exist; WrongWindows windows with a wrong sum, missing or extra; WindowsTwice those
	// that came more than once.
	Accounts, WrongTotals               int
	Windows, WrongWindows, WindowsTwice int
	// Disorder counts violations of the order by key: an id after a later one, a total that does not grow.
	Disorder      int
	FirstDisorder string
	Err           error // the first output that cannot be read
}

// Verdict judges what the reader has seen so far.
func (r *Reader) Verdict(want *Expected) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.judge(want)
}

func (s *seen) judge(want *Expected) Verdict {
	v := Verdict{
		Records: want.workload.Records, Doubled: s.doubled, WindowsTwice: s.twice, Disorder: s.disorder, FirstDisorder: s.first,
		Windows: len(want.windows), Accounts: len(want.totals), Err: s.err,
	}
	for i := range want.workload.Records {
		row, ok := s.passed[i]
		switch e := want.workload.Event(i); {
		case !ok:
			v.Lost++
		case row.mixed || row.account != e.Account || row.login != (e.Topic == Logins) || row.cents != e.Cents:
			v.Altered++
		}
	}
	for id := range s.passed {
		if id < 0 || id >= want.workload.Records {
			v.Foreign++
		}
	}
	v.WrongTotals = differences(want.totals, s.totals)
	v.WrongWindows = differences(want.windows, s.windows)
	return v
}

// differences counts the keys that are in one map only or have another value in the other.
func differences[K, V comparable](want, got map[K]V) (n int) {
	for k, w := range want {
		if g, ok := got[k]; !ok || g != w {
			n++
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			n++
		}
	}
	return n
}

// ExactlyOnce reports whether nothing was lost, doubled, wrong or out of order.
func (v Verdict) ExactlyOnce() bool {
	return v.Err == nil && v.Lost == 0 && v.Doubled == 0 && v.Altered == 0 && v.Foreign == 0 && v.WrongTotals == 0 &&
		v.WrongWindows == 0 && v.WindowsTwice == 0 && v.Disorder == 0
}

// AtLeastOnce reports whether nothing was lost or altered; it may have come more than once.
func (v Verdict) AtLeastOnce() bool {
	return v.Err == nil && v.Lost == 0 && v.Altered == 0 && v.Foreign == 0
}

// String is the verdict in a few lines.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "records  %d in, %d lost, %d doubled", v.Records, v.Lost, v.Doubled)
	if v.Altered+v.Foreign > 0 {
		fmt.Fprintf(&b, ", %d altered, %d never sent", v.Altered, v.Foreign)
	}
	fmt.Fprintf(&b, "\ntotals   %d accounts, %d wrong\n", v.Accounts, v.WrongTotals)
	fmt.Fprintf(&b, "windows  %d, %d wrong, %d came twice\n", v.Windows, v.WrongWindows, v.WindowsTwice)
	fmt.Fprintf(&b, "order    %d violations by key", v.Disorder)
	if v.Disorder > 0 {
		fmt.Fprintf(&b, ", first: %s", v.FirstDisorder)
	}
	if v.Err != nil {
		fmt.Fprintf(&b, "\nunreadable output: %v", v.Err)
	}
	return b.String()
}
