package expr

import (
	"errors"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

var errLikeEscape = errors.New("the escape must stand before %, _ or itself")

var timeFunctions = func() map[string]function {
	m := map[string]function{
		"extract": {2, 2, func(c *Call, args []*Typed) (*Typed, error) {
			unit, err := literal(c, args, 0)
			if err != nil {
				return nil, err
			}
			return bindPart(c, unit, c.Args[0].Offset(), args[1:], 1)
		}},
		"date_trunc":   {2, 2, func(c *Call, args []*Typed) (*Typed, error) { return bindTruncTime(c, args, 0, 1) }},
		"date_format":  {2, 2, bindDateFormat},
		"to_timestamp": {1, 1, bindToTimestamp},
		"to_timestamp_ms": simple(batch.Type{Kind: batch.Timestamp, Precision: 3}, 1, &kernel{run: each(func(f *frame, r int32) error {
			us, ok := mulInt(f.in[0].Ints[r], usMilli)
			f.out.Ints[r] = us
			return overflowUnless(ok)
		})}, intType),
		"unix_ms": simple(intType, 1, &kernel{run: each(func(f *frame, r int32) error {
			f.out.Ints[r] = floorDiv(f.in[0].Ints[r], usMilli)
			return nil
		})}, timestampType),
	}
	for unit := range timeParts {
		m[unit] = function{1, 1, func(c *Call, args []*Typed) (*Typed, error) {
			return bindPart(c, unit, c.Offset(), args, 0)
		}}
	}
	return m
}()

// timeParts are the fields of a time, computed of the days since 1970 and the µs of the day.
var timeParts = map[string]func(days, us int64) int64{
	"year":  func(days, _ int64) int64 { y, _, _ := civil(days); return y },
	"month": func(days, _ int64) int64 { _, m, _ := civil(days); return int64(m) },
	"quarter": func(days, _ int64) int64 {
		_, m, _ := civil(days)
		return int64(m+2) / 3
	},
	"day": func(days, _ int64) int64 { _, _, d := civil(days); return int64(d) },
	"doy": func(days, _ int64) int64 { y, _, _ := civil(days); return days - daysOf(y, 1, 1) + 1 },
	// Sunday is 1, as in Flink; 1970-01-01 was a Thursday.
	"dow":         func(days, _ int64) int64 { return (days + 4) - floorDiv(days+4, 7)*7 + 1 },
	"hour":        func(_, us int64) int64 { return us / usHour },
	"minute":      func(_, us int64) int64 { return us / usMinute % 60 },
	"second":      func(_, us int64) int64 { return us / usSecond % 60 },
	"millisecond": func(_, us int64) int64 { return us / usMilli % 1000 },
	"epoch":       func(days, us int64) int64 { return days*(usDay/usSecond) + us/usSecond },
}

// timeOf returns days since 1970 and µs of the day of a timestamp or date column's row.
func timeOf(f *frame, r int32) (days, us int64) {
	v := f.in[0].Ints[r]
	if f.in[0].Type.Kind == batch.Date {
		return v, 0
	}
	days = floorDiv(v, usDay)
	return days, v - days*usDay
}

// timeArgument checks that t is a timestamp or a date.
func timeArgument(c *Call, t *Typed, i int) (*Typed, error) {
	switch {
	case t.isNullLiteral():
		return constant(t.at, Const{Type: timestampType, Null: true}), nil
	case t.typ.Kind != batch.Timestamp && t.typ.Kind != batch.Date:
		return nil, argumentError(c, i, t, "a timestamp or date")
	}
	return t, nil
}

func bindPart(c *Call, unit string, unitAt int, args []*Typed, i int) (*Typed, error) {
	part, ok := timeParts[unit]
	if !ok {
		return nil, unknownUnit(unitAt, unit, sortedKeys(timeParts))
	}
	t, err := timeArgument(c, args[0], i)
	if err != nil {
		return nil, err
	}
	k := &kernel{run: each(func(f *frame, r int32) error {
		f.out.Ints[r] = part(timeOf(f, r))
		return nil
	})}
	return apply(c, intType, k, []*Typed{t}), nil
}

func unknownUnit(at int, unit string, known []string) error {
	e := errAt(at, "no unit of time %q", unit)
	if s := suggest(unit, known); s != "" {
		return e.hint("did you mean %s?", s)
	}
	return e.hint("units are %s", strings.Join(known, ", "))
}

// truncations are the beginnings of units: of a length in µs, or by the calendar.
var truncations = map[string]func(us int64) int64{
	"millisecond": truncateTo(usMilli), "second": truncateTo(usSecond), "minute": truncateTo(usMinute),
	"hour": truncateTo(usHour), "day": truncateTo(usDay),
	// Weeks begin on Mondays, as in ISO 8601.
	"week":  func(us int64) int64 { return floorDiv(us+3*usDay, 7*usDay)*7*usDay - 3*usDay },
	"month": func(us int64) int64 { y, m, _ := civil(floorDiv(us, usDay)); return daysOf(y, m, 1) * usDay },
	"quarter": func(us int64) int64 {
		y, m, _ := civil(floorDiv(us, usDay))
		return daysOf(y, (m-1)/3*3+1, 1) * usDay
	},
	"year": func(us int64) int64 { y, _, _ := civil(floorDiv(us, usDay)); return daysOf(y, 1, 1) * usDay },
}

func truncateTo(unit int64) func(int64) int64 {
	return func(us int64) int64 { return floorDiv(us, unit) * unit }
}

// bindTruncTime is date_trunc(unit, ts) and floor(ts to unit); unit and ts are the positions of the two.
func bindTruncTime(c *Call, args []*Typed, unit, ts int) (*Typed, error) {
	name, err := literal(c, args, unit)
	if err != nil {
		return nil, err
	}
	truncate, ok := truncations[strings.ToLower(name)]
	if !ok {
		return nil, unknownUnit(c.Args[unit].Offset(), name, sortedKeys(truncations))
	}
	t, err := argument(c, args, ts, timestampType)
	if err != nil {
		return nil, err
	}
	k := &kernel{run: each(func(f *frame, r int32) error {
		f.out.Ints[r] = truncate(f.in[0].Ints[r])
		return nil
	})}
	return apply(c, t.typ, k, []*Typed{t}), nil
}

// bindToTimestamp reads the formats of CAST; a text that is none is an error of the row.
func bindToTimestamp(c *Call, args []*Typed) (*Typed, error) {
	t, err := argument(c, args, 0, textType)
	if err != nil {
		return nil, err
	}
	return apply(c, timestampType, &kernel{run: each(fromText(timestampType, 0))}, []*Typed{t}), nil
}

// bindDateFormat is date_format(ts, pattern) with the letters of Java's DateTimeFormatter that have numbers.
func bindDateFormat(c *Call, args []*Typed) (*Typed, error) {
	t, err := timeArgument(c, args[0], 0)
	if err != nil {
		return nil, err
	}
	text, err := literal(c, args, 1)
	if err != nil {
		return nil, err
	}
	pieces, err := parseDatePattern(text)
	if err != nil {
		return nil, errAt(c.Args[1].Offset(), "%v", err)
	}
	return apply(c, textType, &kernel{run: dateFormat(pieces)}, []*Typed{t}), nil
}

// dateFormat writes times by a pattern. Neighbours mostly have the same text, since a stream's times are near each
// other: only the first row of a run is written, the others share its text.
func dateFormat(pieces []datePiece) func(*frame) error {
	unit := usDay
	for _, p := range pieces {
		unit = min(unit, p.unit)
	}
	return func(f *frame) error {
		var last int64
		var text batch.View
		for i, r := range f.rows {
			days, us := timeOf(f, r)
			now := days*(usDay/unit) + us/unit
			if i > 0 && now == last {
				f.out.Views[r] = text
				continue
			}
			f.buf = f.buf[:0]
			for k := range pieces {
				f.buf = pieces[k].append(f.buf, days, us)
			}
			f.out.SetBytes(int(r), f.buf)
			last, text = now, f.out.Views[r]
		}
		return nil
	}
}

// datePiece is literal text, or a field of some width.
type datePiece struct {
	text  string
	field func(days, us int64) int64
	width int
	unit  int64 // the text is the same for all times within a unit, in µs
}

func (p *datePiece) append(dst []byte, days, us int64) []byte {
	if p.field == nil {
		return append(dst, p.text...)
	}
	return appendPadded(dst, p.field(days, us), p.width)
}

// dateUnits are the units of the fields that change within a day.
var dateUnits = map[byte]int64{'H': usHour, 'h': usHour, 'm': usMinute, 's': usSecond}

var dateFields = map[byte]func(days, us int64) int64{
	'y': timeParts["year"], 'M': timeParts["month"], 'd': timeParts["day"], 'D': timeParts["doy"],
	'H': timeParts["hour"], 'm': timeParts["minute"], 's': timeParts["second"],
	'h': func(_, us int64) int64 { return (us/usHour+11)%12 + 1 },
}

func parseDatePattern(s string) ([]datePiece, error) {
	var pieces []datePiece
	for i := 0; i < len(s); {
		c := s[i]
		n := 1
		for i+n < len(s) && s[i+n] == c {
			n++
		}
		field, unit := dateFields[c], usDay
		if u, ok := dateUnits[c]; ok {
			unit = u
		}
		switch {
		case c == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("the pattern has an open quote")
			}
			text := s[i+1 : i+1+end]
			if text == "" {
				text = "'"
			}
			pieces = append(pieces, datePiece{text: text, unit: usDay})
			n = end + 2
		case c == 'S' && n <= 6:
			unit = usSecond
			for range n {
				unit /= 10
			}
			pieces = append(pieces, datePiece{field: func(_, us int64) int64 { return us % usSecond / unit }, width: n, unit: unit})
		case c == 'y' && n == 2:
			pieces = append(pieces, datePiece{field: func(d, us int64) int64 { return floorMod(field(d, us), 100) }, width: 2, unit: unit})
		case field != nil && n <= 4 && (n <= 2 || c == 'y' || c == 'D' && n == 3):
			pieces = append(pieces, datePiece{field: field, width: n, unit: unit})
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			return nil, errors.New("the pattern's " + strings.Repeat(string(c), n) + " is not available; there are yyyy, MM, dd, HH, hh, mm, ss, SSS, DDD")
		default:
			pieces = append(pieces, datePiece{text: s[i : i+n], unit: usDay})
		}
		i += n
	}
	return pieces, nil
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
