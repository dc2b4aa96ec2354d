package json

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/weirstream/weir/dataplane/batch"
)

// appendString appends s in quotes. It returns false if s is not valid UTF-8.
func appendString(dst, s []byte) (_ []byte, valid bool) {
	dst = append(dst, '"')
	i := 0
	for i+8 <= len(s) && special(binary.LittleEndian.Uint64(s[i:])) == 0 {
		i += 8
	}
	for i < len(s) && s[i] >= 0x20 && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	dst = append(dst, s[:i]...)
	if i < len(s) {
		if dst, valid = appendEscaped(dst, s[i:]); !valid {
			return dst, false
		}
	}
	return append(dst, '"'), true
}

// appendEscaped appends s byte by byte where that is needed.
func appendEscaped(dst, s []byte) (_ []byte, valid bool) {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				return dst, false
			}
			dst = append(dst, s[i:i+n]...)
			i += n - 1
		}
	}
	return dst, true
}

// appendFloat appends the shortest number that reads back as x, in the notation of ECMAScript.
func appendFloat(dst []byte, x float64) ([]byte, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return dst, errNotFinite
	}
	if abs := math.Abs(x); abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, x, 'f', -1, 64), nil
	}
	dst = strconv.AppendFloat(dst, x, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' { // e-07 becomes e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst, nil
}

// appendDecimal appends d with scale digits after the point.
func appendDecimal(dst []byte, d batch.Dec128, scale int) []byte {
	hi, lo := uint64(d.Hi), d.Lo
	if d.Hi < 0 {
		dst = append(dst, '-')
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	var text [40]byte // 2^127 has 39 digits
	first := len(text)
	for hi != 0 || lo != 0 || len(text)-first <= scale {
		var digit uint64
		hi, digit = hi/10, hi%10
		lo, digit = bits.Div64(digit, lo, 10)
		first--
		text[first] = '0' + byte(digit)
		if hi == 0 && lo < 1<<32 {
			first = smallDigits(&text, first, uint32(lo), scale)
			break
		}
	}
	point := len(text) - scale
	dst = append(dst, text[first:point]...)
	if scale > 0 {
		dst = append(append(dst, '.'), text[point:]...)
	}
	return dst
}

// smallDigits goes on with the last digits, and at least one more than scale in all.
func smallDigits(text *[40]byte, first int, n uint32, scale int) int {
	for n != 0 || len(text)-first <= scale {
		first--
		text[first] = '0' + byte(n%10)
		n /= 10
	}
	return first
}

// The days of 0000-01-01 and 9999-12-31.
const (
	firstDay = -719_528
	lastDay  = 2_932_896
)

func appendDate(dst []byte, days int64) []byte {
	y, m, d := dateOf(days)
	dst = append(dst, '0'+byte(y/1000), '0'+byte(y/100%10), '0'+byte(y/10%10), '0'+byte(y%10), '-')
	dst = append(appendTwo(dst, m), '-')
	return appendTwo(dst, d)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10), '0'+byte(n%10)) }

// minuteText remembers the text of the last minute that was written: consecutive rows are near in time.
type minuteText struct {
	minute int64 // since 1970
	text   []byte
}

const microsPerMinute = 60 * microsPerSecond

// append appends an instant with the given number of fraction digits (at most 6).
func (c *minuteText) append(dst []byte, micros int64, precision int, mode Timestamps) (_ []byte, valid bool) {
	rest := mod(micros, microsPerMinute)
	if minute := (micros - rest) / microsPerMinute; minute != c.minute || c.text == nil {
		inDay := mod(minute, 24*60)
		days := (minute - inDay) / (24 * 60)
		if days < firstDay || days > lastDay {
			return dst, false
		}
		sep := byte('T')
		if mode == SQL {
			sep = ' '
		}
		c.minute = minute
		c.text = append(appendDate(c.text[:0], days), sep)
		c.text = append(appendTwo(c.text, int(inDay/60)), ':')
		c.text = append(appendTwo(c.text, int(inDay%60)), ':')
	}
	dst = appendTwo(append(dst, c.text...), int(rest/microsPerSecond))
	if precision > 0 {
		dst = append(dst, '.')
		fraction, unit := rest%microsPerSecond, int64(microsPerSecond)
		for range min(precision, 6) {
			unit /= 10
			dst = append(dst, '0'+byte(fraction/unit%10))
		}
	}
	if mode == ISO {
		dst = append(dst, 'Z')
	}
	return dst, true
}
