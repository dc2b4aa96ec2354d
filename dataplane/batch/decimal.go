package batch

import (
	"math"
	"math/big"
	"math/bits"
)

// MaxPrecision is the number of digits of the widest decimal. 10^38 fits in 127 bits.
const MaxPrecision = 38

// pow10 are the powers of ten that fit in a Dec128.
var pow10 = func() (p [MaxPrecision + 1]Dec128) {
	p[0] = Dec128{Lo: 1}
	for i := 1; i < len(p); i++ {
		p[i], _ = mulAbs(p[i-1], Dec128{Lo: 10})
	}
	return p
}()

// DecFromInt64 is i as an unscaled decimal.
func DecFromInt64(i int64) Dec128 { return Dec128{Lo: uint64(i), Hi: i >> 63} }

// Int64 returns d as an int64 and whether it fits.
func (d Dec128) Int64() (int64, bool) { return int64(d.Lo), d.Hi == int64(d.Lo)>>63 }

// Sign is −1, 0 or +1.
func (d Dec128) Sign() int {
	switch {
	case d.Hi < 0:
		return -1
	case d.Hi == 0 && d.Lo == 0:
		return 0
	}
	return 1
}

// Cmp compares two decimals of one scale: −1, 0 or +1.
func (d Dec128) Cmp(o Dec128) int {
	switch {
	case d == o:
		return 0
	case d.Hi < o.Hi || d.Hi == o.Hi && d.Lo < o.Lo:
		return -1
	}
	return 1
}

// Neg returns −d. The most negative 128-bit integer, which is no decimal, stays itself.
func (d Dec128) Neg() Dec128 {
	lo, borrow := bits.Sub64(0, d.Lo, 0)
	hi, _ := bits.Sub64(0, uint64(d.Hi), borrow)
	return Dec128{Lo: lo, Hi: int64(hi)}
}

// abs returns |d| and whether d is negative.
func (d Dec128) abs() (Dec128, bool) {
	if d.Hi < 0 {
		return d.Neg(), true
	}
	return d, false
}

func (d Dec128) withSign(negative bool) Dec128 {
	if negative {
		return d.Neg()
	}
	return d
}

// Fits reports whether d has at most precision digits.
func (d Dec128) Fits(precision uint8) bool {
	a, _ := d.abs()
	return a.Hi >= 0 && a.Cmp(pow10[precision]) < 0
}

// Add returns d+o of one scale; ok is false on overflow of 128 bits.
func (d Dec128) Add(o Dec128) (sum Dec128, ok bool) {
	lo, carry := bits.Add64(d.Lo, o.Lo, 0)
	hi := d.Hi + o.Hi + int64(carry)
	// Overflow: the operands have one sign and the sum the other.
	return Dec128{Lo: lo, Hi: hi}, (d.Hi^hi)&(o.Hi^hi) >= 0
}

// Sub returns d−o of one scale; ok is false on overflow of 128 bits.
func (d Dec128) Sub(o Dec128) (diff Dec128, ok bool) {
	lo, borrow := bits.Sub64(d.Lo, o.Lo, 0)
	hi := d.Hi - o.Hi - int64(borrow)
	return Dec128{Lo: lo, Hi: hi}, (d.Hi^o.Hi)&(d.Hi^hi) >= 0
}

// mulAbs multiplies non-negative decimals; ok is false beyond 127 bits.
func mulAbs(a, b Dec128) (Dec128, bool) {
	if a.Hi != 0 && b.Hi != 0 {
		return Dec128{}, false
	}
	if a.Hi != 0 {
		a, b = b, a
	}
	hi, lo := bits.Mul64(a.Lo, b.Lo)
	over, mid := bits.Mul64(a.Lo, uint64(b.Hi))
	hi, carry := bits.Add64(hi, mid, 0)
	return Dec128{Lo: lo, Hi: int64(hi)}, over == 0 && carry == 0 && int64(hi) >= 0
}

// MulDrop returns d·o/10^drop, rounded half away from zero; drop is at most 76. ok is false on overflow.
func (d Dec128) MulDrop(o Dec128, drop int) (Dec128, bool) {
	a, an := d.abs()
	b, bn := o.abs()
	if p, ok := mulAbs(a, b); ok && drop <= MaxPrecision {
		return divRound(p, pow10[drop]).withSign(an != bn), true
	}
	p := new(big.Int).Mul(d.Big(), o.Big())
	return divBig(p, bigPow10(drop))
}

// DivShift returns d·10^shift/o, rounded half away from zero. o must not be zero; shift is at most 114. ok
// is false on overflow.
func (d Dec128) DivShift(o Dec128, shift int) (Dec128, bool) {
	a, an := d.abs()
	b, bn := o.abs()
	if shift <= MaxPrecision {
		if p, ok := mulAbs(a, pow10[shift]); ok {
			return divRound(p, b).withSign(an != bn), true
		}
	}
	p := new(big.Int).Mul(d.Big(), bigPow10(shift))
	return divBig(p, o.Big())
}

// Rem returns the remainder of d/o of one scale, with the sign of d. o must not be zero.
func (d Dec128) Rem(o Dec128) Dec128 {
	a, an := d.abs()
	b, _ := o.abs()
	_, r := divMod(a, b)
	return r.withSign(an)
}

// Rescale converts d from one scale to another, rounding half away from zero. ok is false on overflow.
func (d Dec128) Rescale(from, to uint8) (Dec128, bool) {
	if from == to {
		return d, true
	}
	a, negative := d.abs()
	if to < from {
		return divRound(a, pow10[from-to]).withSign(negative), true
	}
	r, ok := mulAbs(a, pow10[to-from])
	return r.withSign(negative), ok
}

// Truncate returns the whole part of d at scale, cut towards zero, at scale 0.
func (d Dec128) Truncate(scale uint8) Dec128 {
	a, negative := d.abs()
	q, _ := divMod(a, pow10[scale])
	return q.withSign(negative)
}

// Floor returns the greatest whole number that is at most d at scale, at scale 0.
func (d Dec128) Floor(scale uint8) Dec128 {
	a, negative := d.abs()
	q, r := divMod(a, pow10[scale])
	if negative && r != (Dec128{}) {
		q, _ = q.Add(Dec128{Lo: 1})
	}
	return q.withSign(negative)
}

// divRound divides non-negative a by positive b, rounding half up.
func divRound(a, b Dec128) Dec128 {
	q, r := divMod(a, b)
	// r ≥ b−r, written so that nothing overflows.
	if rest, _ := b.Sub(r); r.Cmp(rest) >= 0 {
		q, _ = q.Add(Dec128{Lo: 1})
	}
	return q
}

// divMod divides non-negative a by positive b.
func divMod(a, b Dec128) (q, r Dec128) {
	if b.Hi == 0 {
		hi, rem := uint64(a.Hi)/b.Lo, uint64(a.Hi)%b.Lo
		lo, rem := bits.Div64(rem, a.Lo, b.Lo)
		return Dec128{Lo: lo, Hi: int64(hi)}, Dec128{Lo: rem}
	}
	// The quotient has fewer than 64 bits. Divide the leading bits (Hacker's Delight, udivmodti4): the
	// estimate is at most one too large.
	s := uint(bits.LeadingZeros64(uint64(b.Hi)))
	bn := uint64(b.Hi)<<s | b.Lo>>1>>(63-s)
	est, _ := bits.Div64(uint64(a.Hi)>>1, uint64(a.Hi)<<63|a.Lo>>1, bn)
	est = est >> (63 - s)
	if est > 0 {
		est--
	}
	p, _ := mulAbs(Dec128{Lo: est}, b)
	r, _ = a.Sub(p)
	if r.Cmp(b) >= 0 {
		est++
		r, _ = r.Sub(b)
	}
	return Dec128{Lo: est}, r
}

// Big returns d as a big integer.
func (d Dec128) Big() *big.Int {
	a, negative := d.abs()
	b := new(big.Int).SetUint64(uint64(a.Hi))
	b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(a.Lo))
	if negative {
		b.Neg(b)
	}
	return b
}

// DecFromBig converts an integer of up to 127 bits; ok is false for a larger one.
func DecFromBig(b *big.Int) (d Dec128, ok bool) {
	if b.BitLen() > 127 {
		return Dec128{}, false
	}
	a := new(big.Int).Abs(b)
	d.Lo = new(big.Int).And(a, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	d.Hi = int64(a.Rsh(a, 64).Uint64())
	return d.withSign(b.Sign() < 0), true
}

func bigPow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// divBig is a/b rounded half away from zero: the path of operands whose product exceeds 127 bits.
func divBig(a, b *big.Int) (Dec128, bool) {
	negative := a.Sign()*b.Sign() < 0
	n, m := new(big.Int).Abs(a), new(big.Int).Abs(b)
	n.Lsh(n, 1).Add(n, m)
	n.Quo(n, m.Lsh(m, 1))
	d, ok := DecFromBig(n)
	return d.withSign(negative), ok
}
