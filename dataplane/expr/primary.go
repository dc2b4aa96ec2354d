package expr

import (
	"strconv"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

func (p *parser) primary() (Node, error) {
	t := p.next()
	switch {
	case t.kind == tokenNumber:
		return number(t, t.at, t.text)
	case t.kind == tokenText:
		return &Literal{at(t.at), textConst(t.text)}, nil
	case t.is("("):
		n, err := p.expr()
		if err != nil {
			return nil, err
		}
		return n, p.expect(")")
	case t.is("null"):
		return &Literal{at(t.at), Const{Null: true}}, nil
	case t.is("true"), t.is("false"):
		return &Literal{at(t.at), boolConst(t.is("true"))}, nil
	case t.is("case"):
		return p.caseOf(t)
	case t.is("cast"), t.is("try_cast"):
		return p.cast(t)
	case t.kind == tokenName && p.peek().kind == tokenText:
		return p.temporal(t)
	case isName(t):
		if p.peek().is("(") && t.kind == tokenName {
			return p.call(t)
		}
		return p.column(t)
	}
	return nil, p.unexpected(t, "a value")
}

// number is an integer, an exact decimal or, with an exponent, a double.
func number(t token, pos int, text string) (Node, error) {
	if strings.ContainsAny(text, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, errAt(pos, "%s is no double", text)
		}
		return &Literal{at(pos), floatConst(f)}, nil
	}
	if !strings.Contains(text, ".") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return &Literal{at(pos), intConst(i)}, nil
		}
	}
	c, ok := decimalLiteral(text)
	if !ok {
		return nil, errAt(pos, "%s has more than %d digits", t.text, batch.MaxPrecision)
	}
	return &Literal{at(pos), c}, nil
}

// temporal parses INTERVAL, TIMESTAMP and DATE literals.
func (p *parser) temporal(t token) (Node, error) {
	lit := p.next()
	switch {
	case t.is("interval"):
		us, err := parseInterval(lit.text)
		if err != nil {
			return nil, errAt(lit.at, "'%s' is no interval: %v", lit.text, err).hint("write it as '30m' or '1h30m'")
		}
		return &Literal{at(t.at), Const{Type: intervalType, Int: us}}, nil
	case t.is("timestamp"):
		us, err := parseTimestamp(lit.text)
		if err != nil {
			return nil, errAt(lit.at, "'%s' is no timestamp: %v", lit.text, err).hint("write it as '2026-01-31 23:59:59'")
		}
		return &Literal{at(t.at), Const{Type: timestampType, Int: us}}, nil
	case t.is("date"):
		days, err := parseDate(lit.text)
		if err != nil {
			return nil, errAt(lit.at, "'%s' is no date: %v", lit.text, err).hint("write it as '2026-01-31'")
		}
		return &Literal{at(t.at), Const{Type: batch.Type{Kind: batch.Date}, Int: days}}, nil
	}
	return nil, p.unexpected(lit, "an operator")
}

func (p *parser) column(t token) (Node, error) {
	c := &Column{at: at(t.at), Path: []string{t.text}, Quoted: t.kind == tokenQuoted}
	for p.accept(".") {
		part := p.next()
		if part.kind != tokenName && part.kind != tokenQuoted {
			return nil, p.unexpected(part, "a field's name")
		}
		c.Path = append(c.Path, part.text)
	}
	if b := p.peek(); b.is("[") {
		return nil, p.unexpected(b, "")
	}
	return c, nil
}

func (p *parser) caseOf(t token) (Node, error) {
	n := &Case{at: at(t.at)}
	var err error
	if !p.peek().is("when") {
		if n.Of, err = p.expr(); err != nil {
			return nil, err
		}
	}
	for p.accept("when") {
		var w When
		if w.Cond, err = p.expr(); err != nil {
			return nil, err
		}
		if err = p.expect("then"); err != nil {
			return nil, err
		}
		if w.Then, err = p.expr(); err != nil {
			return nil, err
		}
		n.Whens = append(n.Whens, w)
	}
	if len(n.Whens) == 0 {
		return nil, p.unexpected(p.peek(), "when")
	}
	if p.accept("else") {
		if n.Else, err = p.expr(); err != nil {
			return nil, err
		}
	}
	return n, p.expect("end")
}

func (p *parser) cast(t token) (Node, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	n := &Cast{at: at(t.at), Try: t.is("try_cast")}
	var err error
	if n.X, err = p.expr(); err != nil {
		return nil, err
	}
	if err = p.expect("as"); err != nil {
		return nil, err
	}
	if n.Type, n.Narrow, err = p.typ(); err != nil {
		return nil, err
	}
	return n, p.expect(")")
}

var typeNames = map[string]batch.Type{
	"boolean": {Kind: batch.Bool}, "bigint": {Kind: batch.Int64}, "int": {Kind: batch.Int64},
	"integer": {Kind: batch.Int64}, "double": {Kind: batch.Float64}, "string": {Kind: batch.String},
	"varchar": {Kind: batch.String}, "bytes": {Kind: batch.Bytes}, "date": {Kind: batch.Date},
	"decimal": {Kind: batch.Decimal, Precision: 10}, "timestamp": timestampType,
}

func (p *parser) typ() (batch.Type, int, error) {
	t := p.next()
	name := strings.ToLower(t.text)
	typ, ok := typeNames[name]
	if t.kind != tokenName || !ok {
		e := errAt(t.at, "%s is no type", t.show())
		if s := suggest(name, sortedKeys(typeNames)); s != "" {
			return typ, 0, e.hint("did you mean %s?", s)
		}
		return typ, 0, e.hint("types are boolean, int, bigint, double, string, bytes, date, decimal(p,s), timestamp(p)")
	}
	narrow := 0
	if name == "int" || name == "integer" {
		narrow = 32
	}
	if !p.accept("(") {
		return typ, narrow, nil
	}
	var args []int
	for {
		n := p.next()
		v, err := strconv.Atoi(n.text)
		if n.kind != tokenNumber || err != nil {
			return typ, 0, p.unexpected(n, "a number of digits")
		}
		args = append(args, v)
		if !p.accept(",") {
			break
		}
	}
	typ, err := withDigits(t, typ, args)
	if err != nil {
		return typ, 0, err
	}
	return typ, narrow, p.expect(")")
}

func withDigits(t token, typ batch.Type, args []int) (batch.Type, error) {
	switch {
	case typ.Kind == batch.Decimal && len(args) <= 2:
		if len(args) == 1 {
			args = append(args, 0)
		}
		if args[0] < 1 || args[0] > batch.MaxPrecision || args[1] > args[0] {
			return typ, errAt(t.at, "decimal(%d,%d) does not exist", args[0], args[1]).
				hint("precision is 1 to %d, scale at most the precision", batch.MaxPrecision)
		}
		return batch.Type{Kind: batch.Decimal, Precision: uint8(args[0]), Scale: uint8(args[1])}, nil
	case typ.Kind == batch.Timestamp && len(args) == 1:
		if args[0] > 6 {
			return typ, errAt(t.at, "timestamp(%d) does not exist", args[0]).hint("timestamps have up to 6 digits")
		}
		return batch.Type{Kind: batch.Timestamp, Precision: uint8(args[0])}, nil
	}
	return typ, errAt(t.at, "type %s takes no such digits", t.text)
}

// call parses a function call; the name has been read, the parenthesis is next.
func (p *parser) call(t token) (Node, error) {
	p.i++
	n := &Call{at: at(t.at), Name: strings.ToLower(t.text)}
	var err error
	switch {
	case p.accept(")"):
	case p.peek().is("*") && p.peekAfter(1).is(")"):
		p.i += 2
		n.Star = true
	case n.Name == "extract":
		n.Args, err = p.extract()
	case n.Name == "position":
		n.Args, err = p.position()
	default:
		n.Distinct = p.accept("distinct")
		n.Args, err = p.arguments(n)
	}
	if err != nil {
		return nil, err
	}
	if p.peek().is("filter") && p.peekAfter(1).is("(") {
		p.i += 2
		if err := p.expect("where"); err != nil {
			return nil, err
		}
		if n.Filter, err = p.expr(); err != nil {
			return nil, err
		}
		return n, p.expect(")")
	}
	return n, nil
}

// arguments parses a list up to ")", and the keyword forms substring(x from a for b) and floor(ts to unit).
func (p *parser) arguments(n *Call) ([]Node, error) {
	first, err := p.expr()
	if err != nil {
		return nil, err
	}
	args := []Node{first}
	switch {
	case n.Name == "substring" && p.accept("from"):
		for {
			a, err := p.expr()
			if err != nil {
				return nil, err
			}
			args = append(args, a)
			if len(args) == 3 || !p.accept("for") {
				return args, p.expect(")")
			}
		}
	case (n.Name == "floor" || n.Name == "ceil") && p.accept("to"):
		u := p.next()
		if u.kind != tokenName {
			return nil, p.unexpected(u, "a unit of time")
		}
		return append(args, &Literal{at(u.at), textConst(strings.ToLower(u.text))}), p.expect(")")
	case p.accept(","):
		rest, err := p.list()
		return append(args, rest...), err
	}
	return args, p.expect(")")
}

// extract parses extract(unit from x).
func (p *parser) extract() ([]Node, error) {
	u := p.next()
	if u.kind != tokenName {
		return nil, p.unexpected(u, "a unit of time")
	}
	if err := p.expect("from"); err != nil {
		return nil, err
	}
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	return []Node{&Literal{at(u.at), textConst(strings.ToLower(u.text))}, x}, p.expect(")")
}

// position parses position(part in text), and position(part, text).
func (p *parser) position() ([]Node, error) {
	part, err := p.concat()
	if err != nil {
		return nil, err
	}
	if !p.accept("in") {
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
	text, err := p.expr()
	if err != nil {
		return nil, err
	}
	return []Node{part, text}, p.expect(")")
}
