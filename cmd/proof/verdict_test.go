package proof

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// row is one record of the output.
type row struct{ topic, value string }

// perfect is what a correct job writes for w, in an order that a reader may see.
func perfect(w Workload) (rows []row) {
	totals := map[string]total{}
	windows := map[windowKey]window{}
	for i := range w.Records {
		e := w.Event(i)
		kind := "transfer"
		t := totals[e.Account]
		if e.Topic == Logins {
			kind = "login"
			t.Logins++
		} else {
			t.Transfers++
			t.Cents += e.Cents
			k := windowKey{e.Account, e.At.Truncate(Window).UnixMilli()}
			windows[k] = window{windows[k].Cents + e.Cents, windows[k].N + 1}
		}
		totals[e.Account] = t
		rows = append(rows, row{Passed, passedJSON(e, kind)}, row{Totals, totalJSON(e.Account, t)})
	}
	for k, v := range windows {
		rows = append(rows, row{Alerts, fmt.Sprintf(`{"account":%q,"window_start":%q,"total":%s,"n":%d}`,
			k.account, time.UnixMilli(k.start).UTC().Format(time.RFC3339), decimal(v.Cents), v.N)})
	}
	return append(rows, row{Passed, `{"id":-1,"account":"flush","kind":"transfer","amount":0.00,"at":"2026-01-01T01:10:00Z"}`})
}

func decimal(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

func passedJSON(e Event, kind string) string {
	return fmt.Sprintf(`{"id":%d,"account":%q,"kind":%q,"amount":%s,"at":%q}`, e.ID, e.Account, kind, decimal(e.Cents), e.At.Format(time.RFC3339Nano))
}

func totalJSON(account string, t total) string {
	return fmt.Sprintf(`{"account":%q,"transfers":%d,"logins":%d,"total":%s}`, account, t.Transfers, t.Logins, decimal(t.Cents))
}

func judge(t *testing.T, w Workload, rows []row) (Verdict, bool) {
	t.Helper()
	s := newSeen()
	for _, r := range rows {
		if err := s.take(r.topic, []byte(r.value)); err != nil && s.err == nil {
			s.err = err
		}
	}
	want := w.Expect()
	return s.judge(want), s.complete(want)
}

// indexes of the rows of a topic.
func of(rows []row, topic string) (at []int) {
	for i, r := range rows {
		if r.topic == topic && !strings.Contains(r.value, flushAccount) {
			at = append(at, i)
		}
	}
	return at
}

// TestVerdict breaks a perfect output in one way each, and looks for exactly that accusation.
func TestVerdict(t *testing.T) {
	w := NewWorkload(7, 2000)
	base := perfect(w)
	drop := func(rows []row, i int) []row { return slices.Delete(rows, i, i+1) }
	tests := []struct {
		name     string
		spoil    func([]row) []row
		want     func(*Verdict)
		complete bool
	}{
		{"nothing", func(r []row) []row { return r }, func(*Verdict) {}, true},
		{"a record is lost", func(r []row) []row { return drop(r, of(r, Passed)[500]) }, func(v *Verdict) { v.Lost = 1 }, false},
		{"a record is doubled", func(r []row) []row { return append(r, r[of(r, Passed)[3]]) }, func(v *Verdict) { v.Doubled = 1 }, true},
		{"a record comes three times", func(r []row) []row { i := of(r, Passed)[3]; return append(r, r[i], r[i]) }, func(v *Verdict) { v.Doubled = 1 }, true},
		{"one is lost and another doubled", func(r []row) []row {
			at := of(r, Passed)
			return append(drop(r, at[9]), r[at[3]])
		}, func(v *Verdict) { v.Lost, v.Doubled = 1, 1 }, false},
		{"an amount is altered", func(r []row) []row {
			i := of(r, Passed)[slices.IndexFunc(of(r, Passed), func(i int) bool { return strings.Contains(r[i].value, `"transfer"`) })]
			r[i].value = strings.Replace(r[i].value, `"amount":`, `"amount":9`, 1)
			return r
		}, func(v *Verdict) { v.Altered = 1 }, true},
		{"a record was never sent", func(r []row) []row {
			return append(r, row{Passed, `{"id":2000,"account":"acct-1","kind":"login","amount":0.00}`})
		}, func(v *Verdict) { v.Foreign = 1 }, true},
		{"the last total is missing", func(r []row) []row { return drop(r, last(r, Totals)) }, func(v *Verdict) { v.WrongTotals = 1 }, false},
		{"a total is one too high", func(r []row) []row {
			i := last(r, Totals)
			r[i].value = strings.Replace(r[i].value, `"logins":`, `"logins":1`, 1)
			return r
		}, func(v *Verdict) { v.WrongTotals = 1 }, false},
		{"a total comes twice", func(r []row) []row { return append(r, r[last(r, Totals)]) }, func(v *Verdict) { v.Disorder = 1 }, true},
		{"an unknown account has a total", func(r []row) []row {
			return append(r, row{Totals, totalJSON("nobody", total{1, 1, 1})})
		}, func(v *Verdict) { v.WrongTotals = 1 }, true},
		{"a window is missing", func(r []row) []row { return drop(r, last(r, Alerts)) }, func(v *Verdict) { v.WrongWindows = 1 }, false},
		{"a window comes twice", func(r []row) []row { return append(r, r[last(r, Alerts)]) }, func(v *Verdict) { v.WindowsTwice = 1 }, true},
		{"a window lacks a record", func(r []row) []row {
			i := last(r, Alerts)
			r[i].value = strings.Replace(r[i].value, `"n":`, `"n":7`, 1)
			return r
		}, func(v *Verdict) { v.WrongWindows = 1 }, true},
		{"two records of an account change places", swapTwo, func(v *Verdict) { v.Disorder = 1 }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, complete := judge(t, w, tt.spoil(slices.Clone(base)))
			want := Verdict{Records: 2000, Accounts: got.Accounts, Windows: got.Windows}
			tt.want(&want)
			clean := want == Verdict{Records: 2000, Accounts: got.Accounts, Windows: got.Windows}
			if got.ExactlyOnce() != clean {
				t.Errorf("got exactly once %v, want %v", got.ExactlyOnce(), clean)
			}
			if got.Disorder > 0 && got.FirstDisorder == "" {
				t.Error("got no description of the first disorder")
			}
			if got.FirstDisorder = ""; got != want {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
			if complete != tt.complete {
				t.Errorf("got complete %v, want %v", complete, tt.complete)
			}
		})
	}
}

func last(r []row, topic string) int { at := of(r, topic); return at[len(at)-1] }

// swapTwo exchanges two logins of one account that follow one another.
func swapTwo(r []row) []row {
	first := map[string]int{}
	for _, i := range of(r, Passed) {
		if !strings.Contains(r[i].value, `"login"`) {
			continue
		}
		_, account, _ := strings.Cut(r[i].value, `"account":"`)
		account, _, _ = strings.Cut(account, `"`)
		if k, ok := first[account]; ok {
			r[k], r[i] = r[i], r[k]
			return r
		}
		first[account] = i
	}
	return nil
}

func TestUnreadableOutputIsNoSuccess(t *testing.T) {
	w := NewWorkload(7, 100)
	for _, value := range []string{`{`, `{"id":1,"account":"acct-1","kind":"login","amount":1.234}`, `{"id":"x"}`} {
		v, _ := judge(t, w, append(perfect(w), row{Passed, value}))
		if v.Err == nil || v.ExactlyOnce() {
			t.Errorf("output %s: got %v, want an error", value, v)
		}
	}
}

func TestAtLeastOnceForgivesDoublesOnly(t *testing.T) {
	w := NewWorkload(7, 1000)
	rows := perfect(w)
	doubled, _ := judge(t, w, append(slices.Clone(rows), rows[:500]...))
	if !doubled.AtLeastOnce() || doubled.ExactlyOnce() || doubled.Doubled == 0 {
		t.Errorf("replayed rows: got %+v, want at least once and not exactly once", doubled)
	}
	lost, _ := judge(t, w, slices.Delete(slices.Clone(rows), 0, 1))
	if lost.AtLeastOnce() {
		t.Errorf("a lost row: got %+v, want not even at least once", lost)
	}
}

func TestWorkloadIsReproducible(t *testing.T) {
	a, b := NewWorkload(3, 1000), NewWorkload(3, 1000)
	order := rand.New(rand.NewPCG(1, 2)).Perm(1000)
	for _, i := range order {
		if x, y := a.Event(i), b.Event(i); x != y {
			t.Fatalf("record %d: got %v and %v", i, x, y)
		}
	}
	if other := NewWorkload(4, 1000); maps.Equal(a.Expect().totals, other.Expect().totals) {
		t.Error("seeds 3 and 4 make the same totals")
	}
}
