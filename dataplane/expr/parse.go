package expr

import (
	"strings"
)

// Limits of an expression: longer or deeper ones are refused instead of exhausting the stack.
const (
	maxSource = 64 << 10
	maxDepth  = 1000
)

// reserved words are no column names unless quoted.
var reserved = map[string]bool{
	"and": true, "or": true, "not": true, "is": true, "null": true, "true": true, "false": true, "case": true,
	"when": true, "then": true, "else": true, "end": true, "in": true, "between": true, "like": true,
	"cast": true, "try_cast": true, "as": true, "from": true, "where": true, "distinct": true, "escape": true,
	"select": true,
}

// Parse reads one expression. Its errors are *Error.
func Parse(src string) (Node, error) {
	if len(src) > maxSource {
		return nil, errAt(0, "the expression has %d bytes, %d are allowed", len(src), maxSource)
	}
	tokens, err := scan(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	if p.peek().kind == tokenEnd {
		return nil, errAt(0, "the expression is empty")
	}
	n, err := p.expr()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, p.unexpected(t, "an operator")
	}
	return n, nil
}

type parser struct {
	tokens []token
	i      int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.i] }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != tokenEnd {
		p.i++
	}
	return t
}

// accept consumes the symbol or keyword s if it is next.
func (p *parser) accept(s string) bool {
	if p.peek().is(s) {
		p.i++
		return true
	}
	return false
}

func (p *parser) expect(s string) error {
	if p.accept(s) {
		return nil
	}
	return p.unexpected(p.peek(), s)
}

// peekAfter is the token n behind the next.
func (p *parser) peekAfter(n int) token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

func (p *parser) unexpected(t token, want string) error {
	e := errAt(t.at, "%s where %s should be", t.show(), want)
	if t.kind == tokenSymbol && t.text == "[" {
		return errAt(t.at, "arrays are not available yet")
	}
	if t.kind == tokenEnd && want != ")" {
		e.Msg = want + " is missing at the end"
	}
	if t.kind == tokenEnd && want == ")" {
		e.Msg = "a ) is missing"
	}
	return e
}

func (p *parser) enter(t token) error {
	if p.depth++; p.depth > maxDepth {
		return errAt(t.at, "nested more than %d deep", maxDepth)
	}
	return nil
}

// expr parses with the precedence, from loose to tight:
// OR · AND · NOT · comparison, IS, IN, BETWEEN, LIKE · || · + - · * / % · unary -.
func (p *parser) expr() (Node, error) {
	if err := p.enter(p.peek()); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.binary(p.and, "or")
}

func (p *parser) and() (Node, error) { return p.binary(p.not, "and") }

func (p *parser) concat() (Node, error) { return p.binary(p.sum, "||") }

func (p *parser) sum() (Node, error) { return p.binary(p.product, "+", "-") }

func (p *parser) product() (Node, error) { return p.binary(p.unary, "*", "/", "%") }

// binary parses a left-associative chain of ops over operands of operand. A long chain is a deep tree, so
// its links count against the depth.
func (p *parser) binary(operand func() (Node, error), ops ...string) (Node, error) {
	x, err := operand()
	if err != nil {
		return nil, err
	}
	links := 0
	defer func() { p.depth -= links }()
	for {
		op, t := "", p.peek()
		for _, o := range ops {
			if t.is(o) {
				op = o
			}
		}
		if op == "" {
			return x, nil
		}
		if err := p.enter(t); err != nil {
			return nil, err
		}
		links++
		p.i++
		y, err := operand()
		if err != nil {
			return nil, err
		}
		x = &Binary{at: at(t.at), Op: op, X: x, Y: y}
	}
}

func (p *parser) not() (Node, error) {
	t := p.peek()
	if !p.accept("not") {
		return p.comparison()
	}
	if err := p.enter(t); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.not()
	if err != nil {
		return nil, err
	}
	return &Unary{at: at(t.at), Op: "not", X: x}, nil
}

var comparisons = map[string]string{"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

func (p *parser) comparison() (Node, error) {
	x, err := p.concat()
	if err != nil {
		return nil, err
	}
	compared := false
	for {
		t := p.peek()
		op := comparisons[t.text]
		switch {
		case t.kind == tokenSymbol && op != "":
			if compared {
				return nil, errAt(t.at, "comparisons do not chain").hint("join two of them with and")
			}
			compared = true
			p.i++
			y, err := p.concat()
			if err != nil {
				return nil, err
			}
			x = &Binary{at: at(t.at), Op: op, X: x, Y: y}
		case t.is("is"), t.is("in"), t.is("between"), t.is("like"), t.is("not"):
			if x, err = p.test(x); err != nil {
				return nil, err
			}
			compared = true
			if p.peek().is("not") {
				return nil, p.unexpected(p.peek(), "an operator")
			}
		default:
			return x, nil
		}
	}
}

// test parses what follows x in x IS …, x [NOT] IN, BETWEEN, LIKE ….
func (p *parser) test(x Node) (Node, error) {
	t := p.next()
	if t.is("is") {
		n := &Is{at: at(t.at), X: x, Not: p.accept("not")}
		for _, w := range []string{"null", "true", "false"} {
			if p.accept(w) {
				n.What = w
				return n, nil
			}
		}
		return nil, p.unexpected(p.peek(), "null, true or false")
	}
	negated := t.is("not")
	if negated {
		t = p.next()
	}
	switch {
	case t.is("in"):
		return p.in(x, at(t.at), negated)
	case t.is("between"):
		low, err := p.concat()
		if err == nil {
			err = p.expect("and")
		}
		if err != nil {
			return nil, err
		}
		high, err := p.concat()
		if err != nil {
			return nil, err
		}
		return &Between{at: at(t.at), X: x, Low: low, High: high, Not: negated}, nil
	case t.is("like"):
		pattern, err := p.concat()
		if err != nil {
			return nil, err
		}
		n := &Like{at: at(t.at), X: x, Pattern: pattern, Not: negated}
		if p.accept("escape") {
			if n.Escape, err = p.concat(); err != nil {
				return nil, err
			}
		}
		return n, nil
	}
	return nil, p.unexpected(t, "in, between or like")
}

func (p *parser) in(x Node, pos at, negated bool) (Node, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if t := p.peek(); t.is("select") {
		return nil, errAt(t.at, "there are no subqueries").hint("join with the other input")
	}
	items, err := p.list()
	if err != nil {
		return nil, err
	}
	return &In{at: pos, X: x, List: items, Not: negated}, nil
}

// list parses expressions up to the closing parenthesis.
func (p *parser) list() ([]Node, error) {
	var items []Node
	for {
		n, err := p.expr()
		if err != nil {
			return nil, err
		}
		items = append(items, n)
		if p.accept(",") {
			continue
		}
		return items, p.expect(")")
	}
}

func (p *parser) unary() (Node, error) {
	t := p.peek()
	switch {
	case p.accept("+"):
		return p.nested(t, p.unary)
	case p.accept("-"):
		// "-9223372036854775808" is one literal: its positive part alone would not fit.
		if n := p.peek(); n.kind == tokenNumber {
			p.i++
			return number(n, t.at, "-"+n.text)
		}
		x, err := p.nested(t, p.unary)
		if err != nil {
			return nil, err
		}
		return &Unary{at: at(t.at), Op: "-", X: x}, nil
	}
	return p.primary()
}

func (p *parser) nested(t token, f func() (Node, error)) (Node, error) {
	if err := p.enter(t); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return f()
}

// name is a token that can begin a column or a call.
func isName(t token) bool {
	return t.kind == tokenQuoted || t.kind == tokenName && !reserved[strings.ToLower(t.text)]
}
