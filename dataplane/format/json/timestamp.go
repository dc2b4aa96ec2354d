package json

import (
	"encoding/binary"
	"math/bits"
)

// Timestamps is how timestamps are written.
type Timestamps uint8

// The notations. ISO is "2006-01-02T15:04:05.000Z" ('T' or a space, any fraction or none, a zone as Z or offset
// or none for UTC); SQL is "2006-01-02 15:04:05.000" in UTC; the rest are integers since 1970-01-01 UTC.
// Digits beyond microseconds are cut off when reading.
const (
	ISO Timestamps = iota
	SQL
	EpochSeconds
	EpochMillis
	EpochMicros
)

// micros returns the number of microseconds in the unit of an epoch notation; 0 for the others.
func (t Timestamps) micros() int64 {
	switch t {
	case EpochSeconds:
		return 1_000_000
	case EpochMillis:
		return 1_000
	case EpochMicros:
		return 1
	}
	return 0
}

const (
	microsPerSecond = 1_000_000
	secondsPerDay   = 86_400
)

// minuteCache remembers the last minute that was read: records come nearly in the order of their time, so that
// mostly only seconds and milliseconds are new.
type minuteCache struct {
	a, b   uint64 // the 16 bytes of "2006-01-02 15:04"
	micros int64
}

// readMillis reads the body of the common fixed layouts "2006-01-02 15:04:05.000" and, for ISO, with 'T' and 'Z',
// if their minute is the cached one. v[i] is the first byte behind the opening quote. end is the position
// behind the closing quote, or -1 for "use the general routine".
func (c *minuteCache) readMillis(v []byte, i int, mode Timestamps) (micros int64, end int) {
	if i+25 > len(v) {
		return 0, -1
	}
	if binary.LittleEndian.Uint64(v[i:]) != c.a || binary.LittleEndian.Uint64(v[i+8:]) != c.b {
		return 0, -1
	}
	// x is ":05.000" and the quote or zone behind it, the colon lowest.
	x := binary.LittleEndian.Uint64(v[i+16:])
	const marks, digits = 0x00000000ff0000ff, 0x00ffffff00ffff00
	if x&marks != '.'<<24|':' {
		return 0, -1
	}
	d := x&digits ^ '0'*each01&digits
	if ((d+0x76*each01&digits)|d)&each80 != 0 {
		return 0, -1
	}
	sec := int64(d>>8&0xff)*10 + int64(d>>16&0xff)
	ms := int64(d>>32&0xff)*100 + int64(d>>40&0xff)*10 + int64(d>>48&0xff)
	if sec > 59 {
		return 0, -1
	}
	switch {
	case byte(x>>56) == '"':
		end = i + 24
	case byte(x>>56) == 'Z' && mode == ISO && v[i+24] == '"':
		end = i + 25
	default:
		return 0, -1
	}
	return c.micros + sec*microsPerSecond + ms*1000, end
}

// remember caches the minute of the text s, which has been read as micros at UTC without an offset.
func (c *minuteCache) remember(s []byte, micros int64) {
	if len(s) < 16 {
		return
	}
	minute := micros - mod(micros, 60*microsPerSecond)
	c.a, c.b, c.micros = binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:]), minute
}

func mod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
}

// parseTimestamp reads the whole of s in the notation mode (ISO or SQL). utc says that s has no zone or Z.
func parseTimestamp(s []byte, mode Timestamps) (micros int64, utc, valid bool) {
	if len(s) < 19 || s[10] != ' ' && (mode == SQL || s[10] != 'T') || s[13] != ':' || s[16] != ':' {
		return 0, false, false
	}
	days, valid := parseDate(s[:10])
	h, m, sec := twoDigits(s[11:]), twoDigits(s[14:]), twoDigits(s[17:])
	if !valid || h < 0 || h > 23 || m < 0 || m > 59 || sec < 0 || sec > 59 {
		return 0, false, false
	}
	frac, s, valid := parseFraction(s[19:])
	if !valid {
		return 0, false, false
	}
	offset, utc, valid := parseZone(s, mode)
	if !valid {
		return 0, false, false
	}
	seconds := days*secondsPerDay + int64(h*3600+m*60+sec) - offset
	return seconds*microsPerSecond + frac, utc, true
}

// parseFraction reads ".123…" at the start of s, if there is one, as microseconds.
func parseFraction(s []byte) (micros int64, rest []byte, valid bool) {
	if len(s) == 0 || s[0] != '.' {
		return 0, s, true
	}
	n := skipDigits(s, 1)
	if n == 1 {
		return 0, s, false
	}
	for i := 1; i <= 6; i++ {
		micros *= 10
		if i < n {
			micros += int64(s[i] - '0')
		}
	}
	return micros, s[n:], true
}

// parseZone reads what follows the fraction: nothing or Z for UTC, else ±hh:mm, ±hhmm or ±hh.
func parseZone(s []byte, mode Timestamps) (seconds int64, utc, valid bool) {
	if len(s) == 0 {
		return 0, true, true
	}
	if mode != ISO {
		return 0, false, false
	}
	if string(s) == "Z" || string(s) == "z" {
		return 0, true, true
	}
	sign := int64(1)
	switch s[0] {
	case '+':
	case '-':
		sign = -1
	default:
		return 0, false, false
	}
	h, m := twoDigits(s[1:]), 0
	switch {
	case len(s) == 6 && s[3] == ':':
		m = twoDigits(s[4:])
	case len(s) == 5:
		m = twoDigits(s[3:])
	case len(s) != 3:
		return 0, false, false
	}
	if h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, false, false
	}
	return sign * int64(h*3600+m*60), false, true
}

// twoDigits reads two digits at the start of s; −1 if there are none.
func twoDigits(s []byte) int {
	if len(s) < 2 || s[0]-'0' > 9 || s[1]-'0' > 9 {
		return -1
	}
	return int(s[0]-'0')*10 + int(s[1]-'0')
}

// parseDate reads "2006-01-02" as days since 1970-01-01.
func parseDate(s []byte) (days int64, valid bool) {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return 0, false
	}
	century, year, month, day := twoDigits(s), twoDigits(s[2:]), twoDigits(s[5:]), twoDigits(s[8:])
	if century < 0 || year < 0 || month < 1 || month > 12 || day < 1 {
		return 0, false
	}
	y := century*100 + year
	if day > daysIn(y, month) {
		return 0, false
	}
	return daysOf(y, month, day), true
}

func daysIn(y, month int) int {
	if month == 2 {
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month>>3)&1
}

// daysOf is the number of days from 1970-01-01 to a date of the proleptic Gregorian calendar. Years begin in
// March so that the leap day is the last (Hinnant, "chrono-compatible low-level date algorithms").
func daysOf(y, month, day int) int64 {
	if month <= 2 {
		y--
		month += 12
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yearOfEra := y - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	dayOfEra := yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return int64(era)*146097 + int64(dayOfEra) - 719468
}

// dateOf reverses daysOf.
func dateOf(days int64) (y, month, day int) {
	days += 719468
	era := (days - mod(days, 146097)) / 146097
	dayOfEra := int(mod(days, 146097))
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	y, month, day = yearOfEra+int(era)*400, m+3, dayOfYear-(153*m+2)/5+1
	if month > 12 {
		month -= 12
		y++
	}
	return y, month, day
}

// scaleEpoch turns an integer of an epoch notation into microseconds.
func scaleEpoch(n, unit int64) (micros int64, f fault) {
	abs := uint64(n)
	if n < 0 {
		abs = -abs
	}
	if hi, lo := bits.Mul64(abs, uint64(unit)); hi != 0 || lo > 1<<63-1 {
		return 0, faultRange
	}
	return n * unit, ok
}
