package batch

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

var (
	errDecimalSyntax = errors.New("no decimal number")
	errDecimalRange  = errors.New("too many digits")
)

// ParseDecimal reads [+-]digits[.digits][e[+-]digits] as a decimal of the given precision and scale.
// Digits beyond the scale are rounded half away from zero; a value with more digits before the point than
// precision−scale is an error.
func ParseDecimal(s string, precision, scale uint8) (Dec128, error) {
	mant, exp, err := scanDecimal(s)
	if err != nil {
		return Dec128{}, fmt.Errorf("%q: %w", clip(s), err)
	}
	// The value is mant·10^exp, wanted is value·10^scale.
	shift := exp + int(scale)
	d, ok := mant, true
	switch {
	case mant == Dec128{}:
	case shift > MaxPrecision:
		ok = false
	case shift >= 0:
		d, ok = mant.Rescale(0, uint8(shift))
	case shift < -MaxPrecision:
		d = Dec128{}
	default:
		d, _ = mant.Rescale(uint8(-shift), 0)
	}
	if !ok || !d.Fits(precision) {
		return Dec128{}, fmt.Errorf("%q as decimal(%d,%d): %w", clip(s), precision, scale, errDecimalRange)
	}
	return d, nil
}

// scanDecimal splits s into up to 38 significant digits and a power of ten. Later digits only matter for
// the rounding of a value that has too many digits anyway, so they are dropped after a sticky one.
func scanDecimal(s string) (mant Dec128, exp int, err error) {
	i, negative := 0, false
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		negative = s[i] == '-'
		i++
	}
	digits, point, seen := 0, false, false
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		seen = true
		if digits == MaxPrecision {
			if !point {
				exp++
			}
			continue
		}
		mant, _ = mulAbs(mant, Dec128{Lo: 10})
		mant, _ = mant.Add(Dec128{Lo: uint64(c - '0')})
		if mant != (Dec128{}) {
			digits++
		}
		if point {
			exp--
		}
	}
	if !seen {
		return mant, 0, errDecimalSyntax
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > 1<<20 || e < -1<<20 {
			return mant, 0, errDecimalSyntax
		}
		exp += e
		i = len(s)
	}
	if i < len(s) {
		return mant, 0, errDecimalSyntax
	}
	return mant.withSign(negative), exp, nil
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// AppendText appends d at scale as text: "-12.50".
func (d Dec128) AppendText(dst []byte, scale uint8) []byte {
	a, negative := d.abs()
	if negative {
		dst = append(dst, '-')
	}
	var buf [40]byte
	i := len(buf)
	for n := 0; a != (Dec128{}) || n <= int(scale); n++ {
		if n == int(scale) && scale > 0 {
			i--
			buf[i] = '.'
		}
		var digit Dec128
		a, digit = divMod(a, Dec128{Lo: 10})
		i--
		buf[i] = byte('0' + digit.Lo)
	}
	return append(dst, buf[i:]...)
}

// Text is d at scale as text.
func (d Dec128) Text(scale uint8) string { return string(d.AppendText(nil, scale)) }

// Float64 is the double nearest to d at scale.
func (d Dec128) Float64(scale uint8) float64 {
	// Both operands exact: one correctly rounded division.
	if i, ok := d.Int64(); ok && -1<<53 <= i && i <= 1<<53 && scale <= 22 {
		return float64(i) / math.Pow10(int(scale))
	}
	f, _ := strconv.ParseFloat(d.Text(scale), 64)
	return f
}

// DecFromFloat64 converts f, rounding half away from zero at scale. ok is false if f is not finite or has
// too many digits.
func DecFromFloat64(f float64, precision, scale uint8) (d Dec128, ok bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) || math.Abs(f) >= 1e38 {
		return Dec128{}, false
	}
	r := new(big.Rat).SetFloat64(f)
	n := new(big.Int).Mul(r.Num(), bigPow10(int(scale)))
	d, ok = divBig(n, r.Denom())
	return d, ok && d.Fits(precision)
}
