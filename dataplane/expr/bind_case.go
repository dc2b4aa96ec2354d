package expr

import (
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
)

func (b *binder) caseOf(n *Case) (*Typed, error) {
	t := &Typed{at: n.Offset(), op: opCase}
	var of *Typed
	var err error
	if n.Of != nil {
		if of, err = b.bind(n.Of); err != nil {
			return nil, err
		}
	}
	var conds, values []*Typed
	for _, w := range n.Whens {
		cond, err := b.when(n, of, w)
		if err != nil {
			return nil, err
		}
		value, err := b.bind(w.Then)
		if err != nil {
			return nil, err
		}
		conds, values = append(conds, cond), append(values, value)
	}
	last := constant(n.Offset(), Const{Null: true})
	if n.Else != nil {
		if last, err = b.bind(n.Else); err != nil {
			return nil, err
		}
	}
	values = append(values, last)
	return b.choice(t, "the branches of case", conds, values)
}

func (b *binder) when(n *Case, of *Typed, w When) (*Typed, error) {
	if of == nil {
		return b.bindCondition(w.Cond)
	}
	v, err := b.bind(w.Cond)
	if err != nil {
		return nil, err
	}
	return b.compare(w.Cond, "=", of, v)
}

// choice completes t (opCase): conds and one value more, brought to their common type.
func (b *binder) choice(t *Typed, what string, conds, values []*Typed) (*Typed, error) {
	typ, ok := commonType(values)
	if !ok || typ.Kind == kindInterval {
		return nil, mixed(t.at, what, values)
	}
	if typ.Kind == batch.Invalid {
		return constant(t.at, Const{Null: true}), nil
	}
	t.typ, t.nullable = typ, anyNullable(values)
	for i, cond := range conds {
		t.args = append(t.args, cond, implicit(values[i], typ))
	}
	t.args = append(t.args, implicit(values[len(conds)], typ))
	return fold(t), nil
}

func mixed(at int, what string, values []*Typed) error {
	var names []string
	for _, v := range values {
		if name := typeName(v.typ); !v.isNullLiteral() && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	return errAt(at, "%s have no common type: %s", what, strings.Join(names, ", ")).hint("cast them")
}

// fold evaluates t once if all of its arguments are constants. An evaluation that fails stays as it is: it
// may stand in a branch that no row takes.
func fold(t *Typed) *Typed {
	if t.op == opColumn || t.op == opTime || t.op == opConst {
		return t
	}
	for _, a := range t.args {
		if a.op != opConst || a.isNullLiteral() && t.op != opIsNull {
			return t
		}
	}
	p, err := Compile(t, nil)
	if err != nil {
		return t
	}
	col, err := p.Eval(&batch.Batch{Rows: 1}, nil)
	if err != nil {
		return t
	}
	return constant(t.at, constAt(&col, 0))
}
