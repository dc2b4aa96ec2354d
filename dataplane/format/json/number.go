package json

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/weirstream/weir/dataplane/batch"
)

// number is the decomposition of a number by the grammar of RFC 8259.
type number struct {
	neg        bool
	start, end int // of the whole number
	digits     int // position of the first digit
	point      int // position of the point, or where it would be
	mantissa   int // position behind the last digit of the mantissa
	exp        int // the exponent, at most ±maxExp
}

// maxExp bounds exponents: far beyond any type's range, far below an overflow of int.
const maxExp = 1 << 20

// scanNumber reads a number and requires a delimiter behind it.
func scanNumber(v []byte, i int) (n number, f fault) {
	n.start = i
	if at(v, i) == '-' {
		n.neg = true
		i++
	}
	n.digits = i
	i = skipDigits(v, i)
	n.point, n.mantissa = i, i
	if i == n.digits || v[n.digits] == '0' && i > n.digits+1 {
		return n, faultNumber
	}
	if at(v, i) == '.' {
		n.mantissa = skipDigits(v, i+1)
		if n.mantissa == i+1 {
			return n, faultNumber
		}
		i = n.mantissa
	}
	if c := at(v, i); c == 'e' || c == 'E' {
		if i, n.exp = scanExponent(v, i+1); i < 0 {
			return n, faultNumber
		}
	}
	if !delimits(at(v, i)) {
		return n, faultNumber
	}
	n.end = i
	return n, ok
}

// scanExponent reads what follows the letter of an exponent; the position is -1 if it is malformed.
func scanExponent(v []byte, i int) (end, exp int) {
	neg := at(v, i) == '-'
	if neg || at(v, i) == '+' {
		i++
	}
	end = skipDigits(v, i)
	if end == i {
		return -1, 0
	}
	for _, c := range v[i:end] {
		exp = min(exp*10+int(c-'0'), maxExp)
	}
	if neg {
		exp = -exp
	}
	return end, exp
}

func skipDigits(v []byte, i int) int {
	for i < len(v) && v[i]-'0' <= 9 {
		i++
	}
	return i
}

// leadingDigits returns how many of the eight bytes of x (lowest first) are digits before the first that is
// none, and the number that they stand for.
func leadingDigits(x uint64) (n int, value uint64) {
	x ^= '0' * each01
	// A byte above 9 sets its top bit; a carry can only spoil the bytes above the lowest such byte.
	if m := ((x + 0x76*each01) | x) & each80; m != 0 {
		n = bits.TrailingZeros64(m) >> 3
		if n == 0 {
			return 0, 0
		}
		x <<= uint(8-n) * 8 & 63
	} else {
		n = 8
	}
	x = x*10 + x>>8 // pairs
	const mask, mul1, mul2 = 0x000000ff000000ff, 100 + 1000000<<32, 1 + 10000<<32
	return n, ((x&mask)*mul1 + (x>>16&mask)*mul2) >> 32
}

// shortInt reads an integer of at most seven digits without a sign, the frequent case. end is -1 if v[i] is
// something else.
func shortInt(v []byte, i int) (n int64, end int) {
	if i+8 > len(v) {
		return 0, -1
	}
	k, u := leadingDigits(binary.LittleEndian.Uint64(v[i:]))
	if k == 0 || k == 8 || v[i] == '0' && k > 1 || !delimits(v[i+k]) {
		return 0, -1
	}
	return int64(u), i + k
}

// readInt reads a 64-bit integer, which must be followed by a delimiter.
func readInt(v []byte, i int) (n int64, end int, f fault) {
	if n, end = shortInt(v, i); end >= 0 {
		return n, end, ok
	}
	return readIntSlow(v, i)
}

func readIntSlow(v []byte, i int) (int64, int, fault) {
	n, f := scanNumber(v, i)
	if f != ok {
		return 0, i, f
	}
	if n.end != n.point {
		return 0, i, faultFraction
	}
	var u uint64
	for _, c := range v[n.digits:n.end] {
		hi, lo := bits.Mul64(u, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi|carry != 0 {
			return 0, i, faultRange
		}
		u = sum
	}
	switch {
	case !n.neg && u <= math.MaxInt64:
		return int64(u), n.end, ok
	case n.neg && u <= 1<<63:
		return -int64(u), n.end, ok
	}
	return 0, i, faultRange
}

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// readFloat reads a 64-bit float. Numbers beyond its range are refused, numbers too small become zero.
func readFloat(v []byte, i int) (x float64, end int, f fault) {
	n, f := scanNumber(v, i)
	if f != ok {
		return 0, i, f
	}
	// Up to 15 digits and a power of ten up to 22 are exact, so that one operation rounds correctly
	// (Clinger, "How to read floating point numbers accurately").
	if exp := n.exp - max(n.mantissa-n.point-1, 0); n.mantissa-n.digits <= 16 && exp >= -22 && exp <= 22 {
		var u uint64
		count := 0
		for _, c := range v[n.digits:n.mantissa] {
			if c != '.' {
				u = u*10 + uint64(c-'0')
				count++
			}
		}
		if count <= 15 {
			x = float64(u)
			if exp < 0 {
				x /= pow10[-exp]
			} else {
				x *= pow10[exp]
			}
			if n.neg {
				x = -x
			}
			return x, n.end, ok
		}
	}
	text := v[i:n.end]
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	if err != nil {
		return 0, i, faultRange
	}
	return x, n.end, ok
}

// readDecimal reads a number exactly at the scale of t.
func readDecimal(v []byte, i int, t batch.Type) (d batch.Dec128, end int, f fault) {
	n, f := scanNumber(v, i)
	if f != ok {
		return d, i, f
	}
	first, last := n.digits, n.mantissa // half-open range of significant characters
	for first < last && (v[first] == '0' || v[first] == '.') {
		first++
	}
	if first == last {
		return d, n.end, ok
	}
	for v[last-1] == '0' || v[last-1] == '.' {
		last--
	}
	// shift is the power of ten between the last significant digit and the unscaled value's unit.
	shift := n.exp + int(t.Scale)
	if last > n.point {
		shift -= last - n.point - 1
	} else {
		shift += n.point - last
	}
	if shift < 0 {
		return d, i, faultDigits
	}
	digits := last - first
	if first < n.point && last > n.point {
		digits--
	}
	if digits+shift > int(t.Precision) {
		return d, i, faultRange
	}
	// At most 38 digits: no overflow of 127 bits.
	for _, c := range v[first:last] {
		if c != '.' {
			d = mulAdd(d, uint64(c-'0'))
		}
	}
	for range shift {
		d = mulAdd(d, 0)
	}
	if n.neg {
		lo, borrow := bits.Sub64(0, d.Lo, 0)
		d = batch.Dec128{Lo: lo, Hi: -d.Hi - int64(borrow)}
	}
	return d, n.end, ok
}

// mulAdd returns 10·d + digit for a non-negative d.
func mulAdd(d batch.Dec128, digit uint64) batch.Dec128 {
	hi, lo := bits.Mul64(d.Lo, 10)
	lo, carry := bits.Add64(lo, digit, 0)
	return batch.Dec128{Lo: lo, Hi: d.Hi*10 + int64(hi+carry)}
}
