package expr

import (
	"bytes"
	"cmp"

	"github.com/weirstream/weir/dataplane/batch"
)

// inlineLen is the length up to which a view holds its value itself.
const inlineLen = 12

// comparison is one of two relations, on swapped operands or negated: >, >= and <> are <, <= and = seen from
// the other side.
type comparison struct {
	equal, swap, negate bool
}

func comparisonOf(op string) comparison {
	switch op {
	case "=":
		return comparison{equal: true}
	case "<>":
		return comparison{equal: true, negate: true}
	case "<":
		return comparison{}
	case ">=":
		return comparison{negate: true}
	case ">":
		return comparison{swap: true}
	}
	return comparison{swap: true, negate: true} // <=
}

// compareExec compares two columns of one kind.
type compareExec struct {
	truth
	x, y     exec
	cmp      comparison
	nullable bool
	live     []int32
}

func (e *compareExec) eval(m *machine, rows []int32) (*batch.Column, error) {
	return e.column(m, e, e.nullable, rows)
}

func (e *compareExec) pick(m *machine, rows []int32, want bool, dst []int32) ([]int32, error) {
	x, err := e.x.eval(m, rows)
	if err != nil {
		return dst, err
	}
	y, err := e.y.eval(m, rows)
	if err != nil {
		return dst, err
	}
	rows, e.live = nonNull(rows, e.live, x, y)
	if e.cmp.swap {
		x, y = y, x
	}
	want = want != e.cmp.negate
	switch {
	case x.Type.IsInt64():
		return pickOrdered(x.Ints, y.Ints, e.cmp.equal, rows, want, dst), nil
	case x.Type.Kind == batch.Float64:
		return e.pickFloats(x.Floats, y.Floats, rows, want, dst), nil
	}
	order := orderOf(x, y)
	for _, r := range rows {
		c := order(int(r))
		if (e.cmp.equal && c == 0 || !e.cmp.equal && c < 0) == want {
			dst = append(dst, r)
		}
	}
	return dst, nil
}

// nonNull returns the rows that are null in neither column, written to scratch if there is a null.
func nonNull(rows, scratch []int32, x, y *batch.Column) (_, _ []int32) {
	if x.Valid == nil && y.Valid == nil {
		return rows, scratch
	}
	scratch = scratch[:0]
	for _, r := range rows {
		if !x.Null(int(r)) && !y.Null(int(r)) {
			scratch = append(scratch, r)
		}
	}
	return scratch, scratch
}

// room extends dst so that up to n rows can be written behind it without a check a row.
func room(dst []int32, n int) []int32 {
	if need := len(dst) + n; cap(dst) < need {
		grown := make([]int32, len(dst), max(need, 2*cap(dst)))
		copy(grown, dst)
		dst = grown
	}
	return dst[:cap(dst)]
}

// pickOrdered writes every row and moves on only behind those that are picked, so that an unpredictable
// outcome costs no mispredicted branch.
func pickOrdered[T int64 | float64](x, y []T, equal bool, rows []int32, want bool, dst []int32) []int32 {
	k := len(dst)
	dst = room(dst, len(rows))
	switch {
	case equal && want:
		for _, r := range rows {
			dst[k] = r
			if x[r] == y[r] {
				k++
			}
		}
	case equal:
		for _, r := range rows {
			dst[k] = r
			if x[r] != y[r] {
				k++
			}
		}
	case want:
		for _, r := range rows {
			dst[k] = r
			if x[r] < y[r] {
				k++
			}
		}
	default:
		for _, r := range rows {
			dst[k] = r
			if x[r] >= y[r] {
				k++
			}
		}
	}
	return dst[:k]
}

// pickFloats compares in the total order in which NaN equals NaN and is greatest.
func (e *compareExec) pickFloats(x, y []float64, rows []int32, want bool, dst []int32) []int32 {
	for _, r := range rows {
		if x[r] != x[r] || y[r] != y[r] {
			return e.pickFloatsNaN(x, y, rows, want, dst)
		}
	}
	return pickOrdered(x, y, e.cmp.equal, rows, want, dst)
}

func (e *compareExec) pickFloatsNaN(x, y []float64, rows []int32, want bool, dst []int32) []int32 {
	for _, r := range rows {
		c := CompareFloats(x[r], y[r])
		if (e.cmp.equal && c == 0 || !e.cmp.equal && c < 0) == want {
			dst = append(dst, r)
		}
	}
	return dst
}

// CompareFloats orders doubles as keys are: −0 = 0, NaN = NaN, NaN above everything.
func CompareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return -cmp.Compare(boolInt(b != b), boolInt(a != a)) // a NaN is on one side at least
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// orderOf returns a three-way comparison of the rows of two columns.
func orderOf(x, y *batch.Column) func(i int) int {
	switch x.Type.Kind {
	case batch.Decimal:
		xs, ys := x.Type.Scale, y.Type.Scale
		if xs == ys {
			return func(i int) int { return x.Decs[i].Cmp(y.Decs[i]) }
		}
		return func(i int) int { return compareDecimals(x.Decs[i], xs, y.Decs[i], ys) }
	case batch.Bool:
		return func(i int) int { return cmp.Compare(boolInt(x.Bools.Get(i)), boolInt(y.Bools.Get(i))) }
	}
	return func(i int) int { return bytes.Compare(x.Bytes(i), y.Bytes(i)) }
}

// compareDecimals compares exactly at different scales. A value that overflows at the other's scale is
// greater in size than any decimal there.
func compareDecimals(a batch.Dec128, as uint8, b batch.Dec128, bs uint8) int {
	if as > bs {
		return -compareDecimals(b, bs, a, as)
	}
	r, ok := a.Rescale(as, bs)
	if !ok {
		return a.Sign()
	}
	return r.Cmp(b)
}
