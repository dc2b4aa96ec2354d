package expr

// Rename returns n with the columns to(path) in place of those at path. Whatever to returns nil for stays.
func Rename(n Node, to func(path []string) *Column) Node {
	if n == nil {
		return nil
	}
	r := func(n Node) Node { return Rename(n, to) }
	all := func(nodes []Node) []Node {
		out := make([]Node, len(nodes))
		for i, n := range nodes {
			out[i] = r(n)
		}
		return out
	}
	switch n := n.(type) {
	case *Column:
		if c := to(n.Path); c != nil {
			return &Column{at: n.at, Path: c.Path, Quoted: c.Quoted}
		}
	case *Unary:
		return &Unary{at: n.at, Op: n.Op, X: r(n.X)}
	case *Binary:
		return &Binary{at: n.at, Op: n.Op, X: r(n.X), Y: r(n.Y)}
	case *Is:
		return &Is{at: n.at, X: r(n.X), Not: n.Not, What: n.What}
	case *Case:
		c := &Case{at: n.at, Of: r(n.Of), Else: r(n.Else)}
		for _, w := range n.Whens {
			c.Whens = append(c.Whens, When{r(w.Cond), r(w.Then)})
		}
		return c
	case *Cast:
		c := *n
		c.X = r(n.X)
		return &c
	case *In:
		return &In{at: n.at, X: r(n.X), List: all(n.List), Not: n.Not}
	case *Between:
		return &Between{at: n.at, X: r(n.X), Low: r(n.Low), High: r(n.High), Not: n.Not}
	case *Like:
		return &Like{at: n.at, X: r(n.X), Pattern: r(n.Pattern), Escape: r(n.Escape), Not: n.Not}
	case *Call:
		c := *n
		c.Args, c.Filter = all(n.Args), r(n.Filter)
		return &c
	}
	return n
}
