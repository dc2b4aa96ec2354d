package expr

import (
	"bytes"
	"unicode/utf8"

	"github.com/weirstream/weir/dataplane/batch"
)

// like binds [NOT] LIKE. The pattern is usually a literal and then read once.
func (b *binder) like(n *Like) (*Typed, error) {
	args, err := b.bindAll([]Node{n.X, n.Pattern})
	if err != nil {
		return nil, err
	}
	c := &Call{at: at(n.Offset()), Name: "like", Args: []Node{n.X, n.Pattern}}
	for i := range args {
		if args[i], err = argument(c, args, i, textType); err != nil {
			return nil, err
		}
	}
	escape := rune(-1)
	if n.Escape != nil {
		e, ok := n.Escape.(*Literal)
		if !ok || e.Value.Type.Kind != batch.String || utf8.RuneCountInString(e.Value.Text) != 1 {
			return nil, errAt(n.Escape.Offset(), "the escape must be one character")
		}
		escape, _ = utf8.DecodeRuneInString(e.Value.Text)
	}
	k := &kernel{run: each(func(f *frame, r int32) error {
		p, err := parseLike(f.in[1].Bytes(int(r)), escape)
		if err == nil && p.match(f.in[0].Bytes(int(r))) {
			f.out.Bools.Set(int(r))
		}
		return err
	})}
	if v, ok := args[1].Const(); ok && !v.Null {
		p, err := parseLike([]byte(v.Text), escape)
		if err != nil {
			return nil, errAt(n.Pattern.Offset(), "%v", err)
		}
		k = boolOfText(func(s, _ []byte) bool { return p.match(s) })
	}
	t := fold(apply(c, boolType, k, args))
	if n.Not {
		t = fold(negate(t, n.Offset()))
	}
	return t, nil
}

// likePattern is a pattern split at its % signs: s matches if it begins with the first piece, ends with the
// last, and the others follow in between in order, each at its first chance.
type likePattern struct {
	pieces []likePiece
}

// likePiece is text without %; single says that a character is a "_".
type likePiece struct {
	text   []byte // with a zero byte at each "_"
	single []bool // by byte of text; nil if there is no "_"
}

func parseLike(pattern []byte, escape rune) (*likePattern, error) {
	p := &likePattern{pieces: make([]likePiece, 1)}
	add := func(single bool, text ...byte) {
		last := &p.pieces[len(p.pieces)-1]
		if single && last.single == nil {
			last.single = make([]bool, len(last.text))
		}
		last.text = append(last.text, text...)
		if last.single != nil {
			for range text {
				last.single = append(last.single, single)
			}
		}
	}
	for len(pattern) > 0 {
		r, n := utf8.DecodeRune(pattern)
		switch r {
		case escape:
			pattern = pattern[n:]
			if r, n = utf8.DecodeRune(pattern); n == 0 || r != '%' && r != '_' && r != escape {
				return nil, errLikeEscape
			}
			add(false, pattern[:n]...)
		case '%':
			p.pieces = append(p.pieces, likePiece{})
		case '_':
			add(true, 0)
		default:
			add(false, pattern[:n]...)
		}
		pattern = pattern[n:]
	}
	return p, nil
}

// prefix returns the length of the beginning of s that fits the piece, or −1.
func (q *likePiece) prefix(s []byte) int {
	if q.single == nil {
		if bytes.HasPrefix(s, q.text) {
			return len(q.text)
		}
		return -1
	}
	i := 0
	for k, c := range q.text {
		switch {
		case i >= len(s):
			return -1
		case q.single[k]:
			_, n := utf8.DecodeRune(s[i:])
			i += n
		case s[i] != c:
			return -1
		default:
			i++
		}
	}
	return i
}

// find returns the first place in s where the piece fits, and where it ends; −1 if there is none.
func (q *likePiece) find(s []byte) (begin, end int) {
	if q.single == nil {
		begin = bytes.Index(s, q.text)
		return begin, begin + len(q.text)
	}
	for begin <= len(s) {
		if n := q.prefix(s[begin:]); n >= 0 {
			return begin, begin + n
		}
		_, n := utf8.DecodeRune(s[begin:])
		begin += max(n, 1)
	}
	return -1, -1
}

// suffix reports whether s ends with the piece.
func (q *likePiece) suffix(s []byte) bool {
	if q.single == nil {
		return bytes.HasSuffix(s, q.text)
	}
	// The piece has a fixed number of characters: step back over as many.
	runes, i := 0, len(s)
	for k, c := range q.text {
		if q.single[k] || utf8.RuneStart(c) {
			runes++
		}
	}
	for ; runes > 0; runes-- {
		if i == 0 {
			return false
		}
		_, n := utf8.DecodeLastRune(s[:i])
		i -= n
	}
	return q.prefix(s[i:]) == len(s)-i
}

func (p *likePattern) match(s []byte) bool {
	first, last := &p.pieces[0], len(p.pieces)-1
	n := first.prefix(s)
	if n < 0 {
		return false
	}
	if last == 0 {
		return n == len(s)
	}
	s = s[n:]
	for i := 1; i < last; i++ {
		begin, end := p.pieces[i].find(s)
		if begin < 0 {
			return false
		}
		s = s[end:]
	}
	return p.pieces[last].suffix(s)
}
