package proof

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// seen is everything that a read-committed reader has been shown.
type seen struct {
	passed  map[int]passedRow
	doubled int            // ids that came more than once
	last    map[string]int // newest id by topic of origin and account
	totals  map[string]total
	windows map[windowKey]window
	twice   int // windows that came more than once
	// disorder counts violations of the order by key; first describes the first one.
	disorder int
	first    string
	err      error // the first row that cannot be read
}

// passedRow is what came for one id.
type passedRow struct {
	times   int
	account string
	login   bool
	cents   int64
	mixed   bool // another time it came with other contents
}

type total struct {
	Transfers, Logins, Cents int64
}

type windowKey struct {
	account string
	start   int64 // unix ms
}

type window struct{ Cents, N int64 }

func newSeen() seen {
	return seen{passed: map[int]passedRow{}, last: map[string]int{}, totals: map[string]total{}, windows: map[windowKey]window{}}
}

// outRow has the columns of all three topics.
type outRow struct {
	ID          int         `json:"id"`
	Account     string      `json:"account"`
	Kind        string      `json:"kind"`
	Amount      json.Number `json:"amount"`
	Transfers   int64       `json:"transfers"`
	Logins      int64       `json:"logins"`
	Total       json.Number `json:"total"`
	N           int64       `json:"n"`
	WindowStart string      `json:"window_start"`
}

// add takes one record; one that cannot be read is remembered and makes the verdict fail.
func (s *seen) add(rec *kgo.Record) {
	if err := s.take(rec.Topic, rec.Value); err != nil && s.err == nil {
		s.err = fmt.Errorf("topic %s partition %d offset %d: %w: %s", rec.Topic, rec.Partition, rec.Offset, err, rec.Value)
	}
}

func (s *seen) take(topic string, value []byte) error {
	var row outRow
	if err := json.Unmarshal(value, &row); err != nil {
		return err
	}
	if row.Account == flushAccount {
		return nil
	}
	switch topic {
	case Passed:
		return s.pass(row)
	case Totals:
		return s.total(row)
	case Alerts:
		return s.window(row)
	}
	return fmt.Errorf("unexpected topic")
}

func (s *seen) pass(row outRow) error {
	c, err := cents(row.Amount)
	if err != nil {
		return err
	}
	now := passedRow{times: 1, account: row.Account, login: row.Kind == "login", cents: c}
	if before, again := s.passed[row.ID]; again {
		if before.times == 1 {
			s.doubled++
		}
		now.times, now.mixed = before.times+1, before.mixed || now.account != before.account || now.login != before.login || now.cents != before.cents
		s.passed[row.ID] = now
		return nil
	}
	s.passed[row.ID] = now
	key := row.Kind + " " + row.Account
	if last, ok := s.last[key]; ok && row.ID < last {
		s.disordered("%s: id %d after %d", key, row.ID, last)
	}
	s.last[key] = max(s.last[key], row.ID)
	return nil
}

// total takes a row of the running totals, which only ever grow.
func (s *seen) total(row outRow) error {
	c, err := cents(row.Total)
	if err != nil {
		return err
	}
	now := total{row.Transfers, row.Logins, c}
	if before, ok := s.totals[row.Account]; ok && now.Transfers+now.Logins <= before.Transfers+before.Logins {
		s.disordered("total of %s: %d records after %d", row.Account, now.Transfers+now.Logins, before.Transfers+before.Logins)
	}
	s.totals[row.Account] = now
	return nil
}

func (s *seen) window(row outRow) error {
	at, err := time.Parse(time.RFC3339, row.WindowStart)
	if err != nil {
		return err
	}
	c, err := cents(row.Total)
	if err != nil {
		return err
	}
	k := windowKey{row.Account, at.UnixMilli()}
	if _, ok := s.windows[k]; ok {
		s.twice++
	}
	s.windows[k] = window{c, row.N}
	return nil
}

func (s *seen) disordered(format string, args ...any) {
	if s.disorder++; s.first == "" {
		s.first = fmt.Sprintf(format, args...)
	}
}

// cents reads a decimal with at most two digits after the point exactly; none at all is nothing.
func cents(n json.Number) (int64, error) {
	if n == "" {
		return 0, nil
	}
	whole, frac, _ := strings.Cut(string(n), ".")
	if len(frac) > 2 {
		return 0, fmt.Errorf("amount %q has more than two digits after the point", n)
	}
	v, err := strconv.ParseInt(whole+(frac + "00")[:2], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("amount %q: %w", n, err)
	}
	return v, nil
}

// arrived reports whether every id and every window came, right or wrong.
func (s *seen) arrived(want *Expected) bool {
	return len(s.passed) >= want.workload.Records && len(s.windows) >= len(want.windows) && len(s.totals) >= len(want.totals)
}

// complete reports whether the last totals are right too.
func (s *seen) complete(want *Expected) bool {
	if !s.arrived(want) {
		return false
	}
	for a, t := range want.totals {
		if s.totals[a] != t {
			return false
		}
	}
	return true
}
