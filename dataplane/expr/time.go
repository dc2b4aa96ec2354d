package expr

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Microseconds in the units of time.
const (
	usMilli  = int64(1000)
	usSecond = 1000 * usMilli
	usMinute = 60 * usSecond
	usHour   = 60 * usMinute
	usDay    = 24 * usHour
)

var (
	errFormat = errors.New("wrong format")
	errRange  = errors.New("out of range")
)

// floorDiv is a/b rounded down; b is positive. Times before 1970 are negative.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// civil converts days since 1970-01-01 to a date of the proleptic Gregorian calendar. Source: Howard
// Hinnant, "chrono-compatible low-level date algorithms".
func civil(days int64) (year int64, month, day int) {
	days += 719468
	era := floorDiv(days, 146097)
	doe := days - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy - (153*mp+2)/5 + 1)
	month = int(mp) + 3
	if month > 12 {
		month -= 12
	}
	year = yoe + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

// daysOf is the inverse of civil.
func daysOf(year int64, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := int64(153*(month-3)+2)/5 + int64(day) - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

func daysIn(year int64, month int) int {
	if month == 2 {
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month>>3)&1
}

// fields reads fixed-width numbers out of text.
type fields struct {
	s  string
	ok bool
}

// digits reads exactly n digits.
func (f *fields) digits(n int) int {
	v := 0
	if len(f.s) < n {
		f.ok = false
		return 0
	}
	for i := range n {
		if !digit(f.s[i]) {
			f.ok = false
			return 0
		}
		v = v*10 + int(f.s[i]-'0')
	}
	f.s = f.s[n:]
	return v
}

// skip consumes one of the bytes in set, reporting whether it was there.
func (f *fields) skip(set string) bool {
	if f.s != "" && strings.IndexByte(set, f.s[0]) >= 0 {
		f.s = f.s[1:]
		return true
	}
	return false
}

func (f *fields) must(set string) { f.ok = f.skip(set) && f.ok }

func (f *fields) date() (int64, error) {
	negative := f.skip("-")
	year := int64(f.digits(4))
	f.must("-")
	month := f.digits(2)
	f.must("-")
	day := f.digits(2)
	if !f.ok {
		return 0, errFormat
	}
	if negative {
		year = -year
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, errRange
	}
	return daysOf(year, month, day), nil
}

// parseDate reads YYYY-MM-DD as days since 1970.
func parseDate(s string) (int64, error) {
	f := fields{strings.TrimSpace(s), true}
	d, err := f.date()
	if err == nil && f.s != "" {
		err = errFormat
	}
	return d, err
}

// parseTimestamp reads YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]]][Z|±HH:MM] as µs since 1970, UTC without a
// zone. Digits beyond microseconds are cut.
func parseTimestamp(s string) (int64, error) {
	f := fields{strings.TrimSpace(s), true}
	days, err := f.date()
	if err != nil {
		return 0, err
	}
	us := days * usDay
	if f.s == "" {
		return us, nil
	}
	f.must("T ")
	hour := f.digits(2)
	f.must(":")
	minute, second := f.digits(2), 0
	if f.skip(":") {
		second = f.digits(2)
		us += f.fraction()
	}
	offset := f.zone()
	if !f.ok || f.s != "" {
		return 0, errFormat
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, errRange
	}
	return us + int64(hour)*usHour + int64(minute)*usMinute + int64(second)*usSecond - offset, nil
}

func (f *fields) fraction() int64 {
	if !f.skip(".") {
		return 0
	}
	if f.s == "" || !digit(f.s[0]) {
		f.ok = false
	}
	us, unit := int64(0), usSecond/10
	for f.s != "" && digit(f.s[0]) {
		us += int64(f.s[0]-'0') * unit
		unit /= 10
		f.s = f.s[1:]
	}
	return us
}

func (f *fields) zone() int64 {
	if f.s == "" || f.skip("Zz") {
		return 0
	}
	negative := f.s[0] == '-'
	f.must("+-")
	hour := f.digits(2)
	f.skip(":")
	minute := f.digits(2)
	if hour > 18 || minute > 59 {
		f.ok = false
	}
	offset := int64(hour)*usHour + int64(minute)*usMinute
	if negative {
		return -offset
	}
	return offset
}

func appendPadded(dst []byte, v int64, width int) []byte {
	if v < 0 {
		dst, v = append(dst, '-'), -v
	}
	for p := int64(math.Pow10(width - 1)); p > 1 && v < p; p /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, v, 10)
}

func appendDate(dst []byte, days int64) []byte {
	y, m, d := civil(days)
	dst = append(appendPadded(dst, y, 4), '-')
	dst = append(appendPadded(dst, int64(m), 2), '-')
	return appendPadded(dst, int64(d), 2)
}

// appendTimestamp writes "2026-01-31 23:59:59.123" with precision digits of the second's fraction.
func appendTimestamp(dst []byte, us int64, precision uint8) []byte {
	days := floorDiv(us, usDay)
	rest := us - days*usDay
	dst = append(appendDate(dst, days), ' ')
	dst = append(appendPadded(dst, rest/usHour, 2), ':')
	dst = append(appendPadded(dst, rest/usMinute%60, 2), ':')
	dst = appendPadded(dst, rest/usSecond%60, 2)
	if precision == 0 {
		return dst
	}
	frac := rest % usSecond / int64(math.Pow10(6-int(precision)))
	return appendPadded(append(dst, '.'), frac, int(precision))
}

// intervalUnits are the units of intervals, longer names first where one begins with another.
var intervalUnits = []struct {
	name string
	us   int64
}{{"us", 1}, {"ms", usMilli}, {"s", usSecond}, {"m", usMinute}, {"h", usHour}, {"d", usDay}, {"w", 7 * usDay}}

// parseInterval reads [-]1h30m… as µs.
func parseInterval(s string) (int64, error) {
	rest, negative := strings.CutPrefix(strings.TrimSpace(s), "-")
	total := int64(0)
	for first := true; first || rest != ""; first = false {
		i := 0
		for i < len(rest) && digit(rest[i]) {
			i++
		}
		n, err := strconv.ParseInt(rest[:i], 10, 64)
		if err != nil {
			return 0, errFormat
		}
		j := i
		for j < len(rest) && !digit(rest[j]) {
			j++
		}
		us := intervalUnit(rest[i:j])
		if us == 0 {
			return 0, errors.New("its unit is missing or unknown")
		}
		v, ok := mulInt(n, us)
		if total, err = addChecked(total, v); !ok || err != nil {
			return 0, errRange
		}
		rest = rest[j:]
	}
	if negative {
		total = -total
	}
	return total, nil
}

func intervalUnit(name string) int64 {
	for _, u := range intervalUnits {
		if u.name == name {
			return u.us
		}
	}
	return 0
}
