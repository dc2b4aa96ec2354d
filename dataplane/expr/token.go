package expr

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenName             // foo; text as written
	tokenQuoted           // "foo"; text unescaped
	tokenText             // 'foo'; text unescaped
	tokenNumber           // 1, 1.5, 1e3
	tokenSymbol           // operators and punctuation
)

type token struct {
	kind tokenKind
	text string
	at   int // byte offset of the first byte
	end  int // byte offset behind the last
}

// is reports whether t is the symbol or the keyword s (lower case).
func (t token) is(s string) bool {
	switch t.kind {
	case tokenSymbol:
		return t.text == s
	case tokenName:
		return strings.EqualFold(t.text, s)
	}
	return false
}

// show is the token for messages.
func (t token) show() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenText:
		return "'" + t.text + "'"
	case tokenQuoted:
		return `"` + t.text + `"`
	}
	return t.text
}

// symbols, longest first.
var symbols = []string{"<>", "!=", "<=", ">=", "||", "+", "-", "*", "/", "%", "=", "<", ">", "(", ")", ",", ".", "[", "]"}

// foreign are operators of other languages, with what SQL writes.
var foreign = []struct{ op, hint string }{
	{"==", "write ="}, {"&&", "write and"}, {"--", "there are no comments here; write a - -b"},
	{"!", "write not"}, {"`", `quote names as "name"`}, {"?", "a parameter is ${param:name}"},
}

// scan splits src into tokens, ending with a tokenEnd.
func scan(src string) ([]token, error) {
	var tokens []token
	for i := 0; ; {
		for i < len(src) && strings.IndexByte(" \t\r\n", src[i]) >= 0 {
			i++
		}
		if i == len(src) {
			return append(tokens, token{kind: tokenEnd, at: i, end: i}), nil
		}
		t, err := scanOne(src, i)
		if err != nil {
			return nil, err
		}
		tokens, i = append(tokens, t), t.end
	}
}

func scanOne(src string, i int) (token, error) {
	c := src[i]
	switch {
	case nameStart(c):
		j := i + 1
		for j < len(src) && (nameStart(src[j]) || digit(src[j])) {
			j++
		}
		return token{tokenName, src[i:j], i, j}, nil
	case digit(c), c == '.' && i+1 < len(src) && digit(src[i+1]):
		return scanNumber(src, i)
	case c == '\'':
		return scanQuoted(src, i, tokenText, "text has no closing '")
	case c == '"':
		return scanQuoted(src, i, tokenQuoted, `name has no closing "`)
	}
	for _, s := range symbols {
		if strings.HasPrefix(src[i:], s) && !strings.HasPrefix(src[i:], "--") && !strings.HasPrefix(src[i:], "==") {
			return token{tokenSymbol, s, i, i + len(s)}, nil
		}
	}
	for _, f := range foreign {
		if strings.HasPrefix(src[i:], f.op) {
			return token{}, errAt(i, "%q is no operator", f.op).hint("%s", f.hint)
		}
	}
	r, _ := utf8.DecodeRuneInString(src[i:])
	return token{}, errAt(i, "unexpected %q", r)
}

func scanNumber(src string, i int) (token, error) {
	j := i
	digits := func() {
		for j < len(src) && digit(src[j]) {
			j++
		}
	}
	digits()
	if j < len(src) && src[j] == '.' {
		j++
		digits()
	}
	if j < len(src) && src[j]|0x20 == 'e' {
		j++
		if j < len(src) && (src[j] == '+' || src[j] == '-') {
			j++
		}
		from := j
		digits()
		if j == from {
			return token{}, errAt(i, "number %q has no exponent", src[i:j])
		}
	}
	if j < len(src) && nameStart(src[j]) {
		for j < len(src) && (nameStart(src[j]) || digit(src[j])) {
			j++
		}
		return token{}, errAt(i, "%q is no number", src[i:j]).hint("a duration is written interval '%s'", src[i:j])
	}
	return token{tokenNumber, src[i:j], i, j}, nil
}

// scanQuoted reads text between quotes; a doubled quote stands for one.
func scanQuoted(src string, i int, kind tokenKind, unclosed string) (token, error) {
	q := src[i]
	var b strings.Builder
	for j := i + 1; j < len(src); j++ {
		if src[j] != q {
			b.WriteByte(src[j])
			continue
		}
		if j+1 < len(src) && src[j+1] == q {
			b.WriteByte(q)
			j++
			continue
		}
		if kind == tokenQuoted && b.Len() == 0 {
			return token{}, errAt(i, "a name is empty")
		}
		return token{kind, b.String(), i, j + 1}, nil
	}
	return token{}, errAt(i, "%s", unclosed)
}

func nameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
