package expr

import (
	"bytes"
	"errors"
	"regexp"
	"unicode/utf8"

	"github.com/weirstream/weir/dataplane/batch"
)

// maxText bounds what lpad and rpad make, so that a bad length is an error of the row and not of the process.
const maxText = 16 << 20

var textFunctions = map[string]function{
	"upper":     simple(textType, 1, mapText(bytes.ToUpper, 'a', 'z'), textType),
	"lower":     simple(textType, 1, mapText(bytes.ToLower, 'A', 'Z'), textType),
	"length":    simple(intType, 1, intOfText(func(a, _ []byte) int { return utf8.RuneCount(a) }), textType),
	"substring": {2, 3, simple(textType, 2, &kernel{run: each(substring), views: true}, textType, intType, intType).bind},
	"trim":      simple(textType, 1, trimText(true, true), textType, textType),
	"ltrim":     simple(textType, 1, trimText(true, false), textType, textType),
	"rtrim":     simple(textType, 1, trimText(false, true), textType, textType),
	"replace": simple(textType, 3, &kernel{run: each(func(f *frame, r int32) error {
		s, from := f.in[0].Bytes(int(r)), f.in[1].Bytes(int(r))
		if len(from) == 0 || !bytes.Contains(s, from) {
			f.part(r, 0, 0, len(s))
			return nil
		}
		f.out.SetBytes(int(r), bytes.ReplaceAll(s, from, f.in[2].Bytes(int(r))))
		return nil
	}), views: true}, textType, textType, textType),
	"position":    simple(intType, 2, intOfText(func(part, s []byte) int { return position(s, part) }), textType, textType),
	"instr":       simple(intType, 2, intOfText(position), textType, textType),
	"starts_with": simple(boolType, 2, boolOfText(bytes.HasPrefix), textType, textType),
	"ends_with":   simple(boolType, 2, boolOfText(bytes.HasSuffix), textType, textType),
	"split_index": simple(textType, 3, &kernel{run: each(splitIndex), views: true, nulls: true}, textType, textType, intType),
	"lpad":        simple(textType, 3, &kernel{run: each(pad(true))}, textType, intType, textType),
	"rpad":        simple(textType, 3, &kernel{run: each(pad(false))}, textType, intType, textType),
	"reverse": simple(textType, 1, &kernel{run: each(func(f *frame, r int32) error {
		f.buf = f.buf[:0]
		for s := f.in[0].Bytes(int(r)); len(s) > 0; {
			_, n := utf8.DecodeLastRune(s)
			f.buf = append(f.buf, s[len(s)-n:]...)
			s = s[:len(s)-n]
		}
		f.out.SetBytes(int(r), f.buf)
		return nil
	})}, textType),
	"concat":         {1, -1, bindConcat},
	"concat_ws":      {1, -1, bindConcatWS},
	"regexp":         {2, 2, bindRegexp},
	"regexp_extract": {2, 3, bindRegexpExtract},
	"regexp_replace": {3, 3, bindRegexpReplace},
}

func validUTF8(b []byte) bool { return utf8.Valid(b) }

// mapText is upper or lower: a loop over ASCII, the general function for the rest.
func mapText(general func([]byte) []byte, from, to byte) *kernel {
	return &kernel{run: each(func(f *frame, r int32) error {
		s := f.in[0].Bytes(int(r))
		f.buf = append(f.buf[:0], s...)
		for i, c := range s {
			if c >= utf8.RuneSelf {
				f.out.SetBytes(int(r), general(s))
				return nil
			}
			if from <= c && c <= to {
				f.buf[i] = c ^ 0x20
			}
		}
		f.out.SetBytes(int(r), f.buf)
		return nil
	})}
}

// intOfText is a number of one text (fn's second argument nil) or two.
func intOfText(fn func(a, b []byte) int) *kernel {
	return &kernel{run: each(func(f *frame, r int32) error {
		var b []byte
		if len(f.in) > 1 {
			b = f.in[1].Bytes(int(r))
		}
		f.out.Ints[r] = int64(fn(f.in[0].Bytes(int(r)), b))
		return nil
	})}
}

func boolOfText(fn func(a, b []byte) bool) *kernel {
	return &kernel{run: each(func(f *frame, r int32) error {
		if fn(f.in[0].Bytes(int(r)), f.in[1].Bytes(int(r))) {
			f.out.Bools.Set(int(r))
		}
		return nil
	})}
}

// position is the character at which part begins in s, from 1; 0 if it does not occur.
func position(s, part []byte) int {
	i := bytes.Index(s, part)
	if i < 0 {
		return 0
	}
	return utf8.RuneCount(s[:i]) + 1
}

// skipRunes returns the length in bytes of the first n characters of s, or of all if there are fewer.
func skipRunes(s []byte, n int64) int {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, size := utf8.DecodeRune(s[i:])
		i += size
	}
	return i
}

// substring is SQL's: positions count from 1, what lies before 1 counts against the length; a negative
// position counts from the end, as in Flink.
func substring(f *frame, r int32) error {
	s, from := f.in[0].Bytes(int(r)), f.in[1].Ints[r]
	length := int64(len(s)) + 1
	if len(f.in) == 3 {
		if length = f.in[2].Ints[r]; length < 0 {
			return errors.New("substring of negative length")
		}
	}
	switch {
	case from < 0:
		if from += int64(utf8.RuneCount(s)); from < 0 {
			if len(f.in) == 3 {
				length = max(0, length+from)
			}
			from = 0
		}
	case from > 0:
		from--
	}
	begin := skipRunes(s, from)
	f.part(r, 0, begin, begin+skipRunes(s[begin:], length))
	return nil
}

// trimText cuts the characters of the second argument (blanks without one) off the ends.
func trimText(left, right bool) *kernel {
	return &kernel{views: true, run: each(func(f *frame, r int32) error {
		s, cut := f.in[0].Bytes(int(r)), " "
		if len(f.in) > 1 {
			cut = f.in[1].Text(int(r))
		}
		rest := s
		if left {
			rest = bytes.TrimLeft(rest, cut)
		}
		begin := len(s) - len(rest)
		if right {
			rest = bytes.TrimRight(rest, cut)
		}
		f.part(r, 0, begin, begin+len(rest))
		return nil
	})}
}

// splitIndex is the i-th piece, from 0, of text split by a separator; null if there are fewer.
func splitIndex(f *frame, r int32) error {
	s, sep, i := f.in[0].Bytes(int(r)), f.in[1].Bytes(int(r)), f.in[2].Ints[r]
	if i < 0 || len(sep) == 0 {
		f.null(r)
		return nil
	}
	begin := 0
	for ; i > 0; i-- {
		k := bytes.Index(s[begin:], sep)
		if k < 0 {
			f.null(r)
			return nil
		}
		begin += k + len(sep)
	}
	end := len(s)
	if k := bytes.Index(s[begin:], sep); k >= 0 {
		end = begin + k
	}
	f.part(r, 0, begin, end)
	return nil
}

// pad fills text with another up to a length in characters, or cuts it to that length.
func pad(left bool) rowFunc {
	return func(f *frame, r int32) error {
		s, n, fill := f.in[0].Bytes(int(r)), f.in[1].Ints[r], f.in[2].Bytes(int(r))
		if n < 0 || n > maxText {
			return errors.New("length of the padded text is out of range")
		}
		missing := n - int64(utf8.RuneCount(s))
		if missing <= 0 || len(fill) == 0 {
			f.out.SetBytes(int(r), s[:skipRunes(s, n)])
			return nil
		}
		f.buf = f.buf[:0]
		if !left {
			f.buf = append(f.buf, s...)
		}
		for per := int64(utf8.RuneCount(fill)); missing > 0; missing -= per {
			f.buf = append(f.buf, fill[:skipRunes(fill, missing)]...)
		}
		if left {
			f.buf = append(f.buf, s...)
		}
		f.out.SetBytes(int(r), f.buf)
		return nil
	}
}

// concat binds ||.
func (b *binder) concat(n Node, args []*Typed) (*Typed, error) {
	for _, a := range args {
		if !a.isNullLiteral() && a.typ.Kind != batch.String {
			return nil, errAt(n.Offset(), "|| joins text, not %s", typeName(a.typ)).hint("write cast(… as string)")
		}
	}
	c := &Call{at: at(n.Offset()), Name: "||"}
	return fold(join(c, args)), nil
}

func bindConcat(c *Call, args []*Typed) (*Typed, error) {
	for i := range args {
		if _, err := argument(c, args, i, textType); err != nil {
			return nil, err
		}
	}
	return join(c, args), nil
}

// join concatenates texts; a null makes the whole null. Nested joins become one.
func join(c *Call, args []*Typed) *Typed {
	var flat []*Typed
	for _, a := range args {
		if a.isNullLiteral() {
			a = constant(a.at, Const{Type: textType, Null: true})
		}
		if a.op == opCall && a.fn == joinKernel {
			flat = append(flat, a.args...)
			continue
		}
		flat = append(flat, a)
	}
	return apply(c, textType, joinKernel, flat)
}

var joinKernel = &kernel{run: each(func(f *frame, r int32) error {
	f.buf = f.buf[:0]
	for _, col := range f.in {
		f.buf = append(f.buf, col.Bytes(int(r))...)
	}
	f.out.SetBytes(int(r), f.buf)
	return nil
})}

// concat_ws skips nulls; only a null separator makes it null.
func bindConcatWS(c *Call, args []*Typed) (*Typed, error) {
	for i := range args {
		t, err := argument(c, args, i, textType)
		if err != nil {
			return nil, err
		}
		args[i] = t
	}
	k := &kernel{lenient: true, nulls: args[0].nullable, run: each(func(f *frame, r int32) error {
		if f.in[0].Null(int(r)) {
			f.null(r)
			return nil
		}
		f.buf = f.buf[:0]
		first := true
		for _, col := range f.in[1:] {
			if col.Null(int(r)) {
				continue
			}
			if !first {
				f.buf = append(f.buf, f.in[0].Bytes(int(r))...)
			}
			first = false
			f.buf = append(f.buf, col.Bytes(int(r))...)
		}
		f.out.SetBytes(int(r), f.buf)
		return nil
	})}
	return apply(c, textType, k, args), nil
}

// pattern compiles the literal pattern of a regexp function (RE2: linear time) and types its text arguments.
func pattern(c *Call, args []*Typed) (*regexp.Regexp, error) {
	text, err := literal(c, args, 1)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, errAt(c.Args[1].Offset(), "%v", err)
	}
	args[0], err = argument(c, args, 0, textType)
	return re, err
}

func bindRegexp(c *Call, args []*Typed) (*Typed, error) {
	re, err := pattern(c, args)
	if err != nil {
		return nil, err
	}
	k := boolOfText(func(a, _ []byte) bool { return re.Match(a) })
	return apply(c, boolType, k, args), nil
}

// bindRegexpExtract is regexp_extract(text, pattern [, group = 0]): null without a match.
func bindRegexpExtract(c *Call, args []*Typed) (*Typed, error) {
	re, err := pattern(c, args)
	if err != nil {
		return nil, err
	}
	group := 0
	if len(args) == 3 {
		v, ok := args[2].Const()
		if !ok || v.Type.Kind != batch.Int64 || v.Int < 0 || v.Int > int64(re.NumSubexp()) {
			return nil, errAt(c.Args[2].Offset(), "argument 3 of regexp_extract must be a group of the pattern, 0 to %d", re.NumSubexp())
		}
		group = int(v.Int)
	}
	k := &kernel{nulls: true, views: true, run: each(func(f *frame, r int32) error {
		m := re.FindSubmatchIndex(f.in[0].Bytes(int(r)))
		if m == nil || m[2*group] < 0 {
			f.null(r)
			return nil
		}
		f.part(r, 0, m[2*group], m[2*group+1])
		return nil
	})}
	return apply(c, textType, k, args[:1]), nil
}

func bindRegexpReplace(c *Call, args []*Typed) (*Typed, error) {
	re, err := pattern(c, args)
	if err != nil {
		return nil, err
	}
	if args[2], err = argument(c, args, 2, textType); err != nil {
		return nil, err
	}
	k := &kernel{run: each(func(f *frame, r int32) error {
		f.out.SetBytes(int(r), re.ReplaceAll(f.in[0].Bytes(int(r)), f.in[2].Bytes(int(r))))
		return nil
	})}
	return apply(c, textType, k, args), nil
}
