package json

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The scanning routines take the record's value and a position in it, and return the position behind what
// they read.

const (
	each01 = 0x0101010101010101
	each80 = 0x8080808080808080
)

// at returns v[i], or 0 (never legal between tokens) behind the end.
func at(v []byte, i int) byte {
	if i < len(v) {
		return v[i]
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func skipSpace(v []byte, i int) int {
	for i < len(v) && isSpace(v[i]) {
		i++
	}
	return i
}

// delimits reports whether c may follow a number inside an object.
func delimits(c byte) bool { return c == ',' || c == '}' || c == ']' || isSpace(c) }

// special marks (in the top bits) the bytes of x that are a quote, a backslash, a control character or not
// ASCII. Bytes above the lowest marked one may be marked wrongly. Flipping bit 1 puts the quote (0x22) next to
// the control characters and moves the space (0x20) and 0x21 out of their way.
func special(x uint64) uint64 {
	return (((x ^ 0x02*each01) - 0x21*each01) | ((x ^ '\\'*each01) - each01) | x) & each80
}

// scanString validates the string whose first byte behind the opening quote is v[i]. It returns the position
// of the closing quote and whether the string has escapes.
func scanString(v []byte, i int) (end int, escaped bool, f fault) {
	for i+16 <= len(v) {
		w := v[i : i+16 : i+16]
		m, n := special(binary.LittleEndian.Uint64(w)), special(binary.LittleEndian.Uint64(w[8:]))
		if m|n == 0 {
			i += 16
			continue
		}
		if m == 0 {
			m = n
			i += 8
		}
		i += bits.TrailingZeros64(m) >> 3
		if v[i] == '"' {
			return i, false, ok
		}
		return scanStringSlow(v, i)
	}
	if i+8 <= len(v) {
		m := special(binary.LittleEndian.Uint64(v[i:]))
		if m == 0 {
			return scanStringSlow(v, i+8)
		}
		i += bits.TrailingZeros64(m) >> 3
		if v[i] == '"' {
			return i, false, ok
		}
	}
	return scanStringSlow(v, i)
}

// scanStringSlow goes on behind the part of a string that is plain ASCII.
func scanStringSlow(v []byte, i int) (end int, escaped bool, f fault) {
	for i < len(v) {
		switch c := v[i]; {
		case c == '"':
			return i, escaped, ok
		case c == '\\':
			n := escapeLen(v[i:])
			if n == 0 {
				return i, escaped, faultEscape
			}
			escaped = true
			i += n
		case c < 0x20:
			return i, escaped, faultString
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(v[i:])
			if r == utf8.RuneError && n == 1 {
				return i, escaped, faultUTF8
			}
			i += n
		}
	}
	return i, escaped, faultString
}

// escapeLen is the length of the escape at the start of v, 0 if it is invalid. A UTF-16 surrogate is valid
// only as a pair, since a half has no UTF-8 form.
func escapeLen(v []byte) int {
	if len(v) < 2 {
		return 0
	}
	switch v[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		switch u := hex4(v[2:]); {
		case u < 0 || u >= 0xdc00 && u < 0xe000:
			return 0
		case u < 0xd800 || u >= 0xe000:
			return 6
		}
		if len(v) >= 12 && v[6] == '\\' && v[7] == 'u' {
			if lo := hex4(v[8:]); lo >= 0xdc00 && lo < 0xe000 {
				return 12
			}
		}
	}
	return 0
}

func hex4(v []byte) rune {
	if len(v) < 4 {
		return -1
	}
	var u rune
	for _, c := range v[:4] {
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return u
}

// appendUnescaped appends the value of the string body s, which scanString has validated.
func appendUnescaped(dst, s []byte) []byte {
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i:]
		switch c := s[1]; c {
		case 'u':
			u, n := hex4(s[2:]), 6
			if u >= 0xd800 && u < 0xe000 {
				u, n = 0x10000+(u-0xd800)<<10+hex4(s[8:])-0xdc00, 12
			}
			dst, s = utf8.AppendRune(dst, u), s[n:]
			continue
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		default:
			dst = append(dst, c)
		}
		s = s[2:]
	}
	return dst
}

// skipString returns the position behind the string whose first byte behind the opening quote is v[i], or -1.
// It looks at nothing but quotes and the backslashes before them.
func skipString(v []byte, i int) int {
	for start := i; ; {
		j := bytes.IndexByte(v[i:], '"')
		if j < 0 {
			return -1
		}
		i += j + 1
		k := i - 2
		for k >= start && v[k] == '\\' {
			k--
		}
		if (i-2-k)&1 == 0 {
			return i
		}
	}
}

// skipValue returns the position behind the value that starts at v[i], or -1 if it has no end. Only its
// structure is followed: strings, and the depth of brackets.
func skipValue(v []byte, i int) int {
	switch c := at(v, i); c {
	case '"':
		return skipString(v, i+1)
	case '{', '[':
		return skipNested(v, i+1)
	case 't', 'n':
		return skipWord(v, i, 4)
	case 'f':
		return skipWord(v, i, 5)
	default:
		if !isNumber(c) {
			return -1
		}
	}
	for i++; i < len(v) && isNumberByte(v[i]); i++ {
	}
	if !delimits(at(v, i)) {
		return -1
	}
	return i
}

// isNumberByte reports whether c can be in a number. Quotes and brackets must not be taken for a part of one.
func isNumberByte(c byte) bool {
	return c-'0' <= 9 || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

func skipWord(v []byte, i, n int) int {
	if w := v[i:min(i+n, len(v))]; string(w) == "true" || string(w) == "null" || string(w) == "false" {
		return i + n
	}
	return -1
}

// skipNested returns the position behind the object or array whose first byte behind the bracket is v[i].
func skipNested(v []byte, i int) int {
	for depth := 1; i < len(v); {
		switch v[i] {
		case '"':
			if i = skipString(v, i+1); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}
