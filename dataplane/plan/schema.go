package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/task"
)

// leaf is one column of a source: a value in the records, or metadata.
type leaf struct {
	format.Column
	meta *task.MetadataKind
}

// sourceLeaves flattens the schema of a source into leaf columns named by their path.
func sourceLeaves(s *config.Source) []leaf {
	if s.Nexmark != nil {
		return nexmarkLeaves()
	}
	out := flatten(nil, nil, s.Schema, 0)
	for _, m := range s.Metadata {
		l := leaf{Column: format.Column{Name: m.Column}}
		var kind task.MetadataKind
		switch m.Kind {
		case config.MetadataKey:
			kind, l.Type, l.Optional = task.MetaKey, batch.Type{Kind: batch.Bytes}, true
		case config.MetadataTimestamp:
			kind, l.Type, l.Optional = task.MetaTimestamp, batch.Type{Kind: batch.Timestamp, Precision: 3}, true
		case config.MetadataPartition:
			kind, l.Type = task.MetaPartition, batch.Type{Kind: batch.Int64}
		case config.MetadataOffset:
			kind, l.Type = task.MetaOffset, batch.Type{Kind: batch.Int64}
		}
		l.meta = &kind
		out = append(out, l)
	}
	return out
}

// flatten appends the leaves below path. optionalAt is the length of the longest prefix of path that may be
// missing as a whole.
func flatten(out []leaf, path []string, fields []config.Field, optionalAt int) []leaf {
	for _, f := range fields {
		p := append(path[:len(path):len(path)], f.Name)
		if f.Type.Name == config.TypeStruct {
			at := optionalAt
			if f.Type.Optional {
				at = len(p)
			}
			out = flatten(out, p, f.Type.Fields, at)
			continue
		}
		out = append(out, leaf{Column: format.Column{
			Name: strings.Join(p, "."), Path: p, Type: batchType(f.Type), Optional: f.Type.Optional, OptionalAt: optionalAt,
		}})
	}
	return out
}

func batchType(t config.Type) batch.Type {
	switch t.Name {
	case config.TypeBoolean:
		return batch.Type{Kind: batch.Bool}
	case config.TypeInt, config.TypeBigint:
		return batch.Type{Kind: batch.Int64}
	case config.TypeDouble:
		return batch.Type{Kind: batch.Float64}
	case config.TypeString:
		return batch.Type{Kind: batch.String}
	case config.TypeBytes:
		return batch.Type{Kind: batch.Bytes}
	case config.TypeDate:
		return batch.Type{Kind: batch.Date}
	case config.TypeDecimal:
		return batch.Type{Kind: batch.Decimal, Precision: uint8(t.Precision), Scale: uint8(t.Scale)}
	case config.TypeTimestamp:
		return batch.Type{Kind: batch.Timestamp, Precision: uint8(t.Precision)}
	}
	panic(fmt.Sprintf("plan: type %s has no column kind", t)) // the parser refuses what is not built
}

// nexmarkLeaves is the schema of the Nexmark generator: event_type and three optional structs.
func nexmarkLeaves() []leaf {
	num, text, ts := batch.Type{Kind: batch.Int64}, batch.Type{Kind: batch.String}, batch.Type{Kind: batch.Timestamp, Precision: 3}
	out := []leaf{{Column: format.Column{Name: "event_type", Path: []string{"event_type"}, Type: num}}}
	add := func(group string, names []string, types ...batch.Type) {
		for i, n := range names {
			out = append(out, leaf{Column: format.Column{Name: group + "." + n, Path: []string{group, n}, Type: types[i], OptionalAt: 1}})
		}
	}
	add("person", []string{"id", "name", "emailAddress", "creditCard", "city", "state", "dateTime", "extra"}, num, text, text, text, text, text, ts, text)
	add("auction", []string{"id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category", "extra"},
		num, text, text, num, num, ts, ts, num, num, text)
	add("bid", []string{"auction", "bidder", "price", "channel", "url", "dateTime", "extra"}, num, num, num, text, text, ts, text)
	return out
}

// nullable says whether a leaf's value can be null.
func (l *leaf) nullable() bool { return l.Optional || l.OptionalAt > 0 }

func leavesSchema(leaves []leaf, hasTime bool) *batch.Schema {
	s := &batch.Schema{HasTime: hasTime}
	for i := range leaves {
		s.Fields = append(s.Fields, batch.Field{Name: leaves[i].Name, Type: leaves[i].Type, Nullable: leaves[i].nullable()})
	}
	return s
}

// column is the expression of a plain column.
func column(name string) expr.Node { return &expr.Column{Path: strings.Split(name, ".")} }

// PlainColumn is the index of the column that n is, or −1 if n is more than a column.
func PlainColumn(n expr.Node, s *batch.Schema) int {
	c, ok := n.(*expr.Column)
	if !ok {
		return -1
	}
	return s.Index(strings.Join(c.Path, "."))
}

// refs marks the columns of s that n reads.
func refs(n expr.Node, s *batch.Schema, used []bool) {
	if n == nil {
		return
	}
	for _, p := range expr.Columns(n) {
		if i := s.Index(strings.Join(p, ".")); i >= 0 {
			used[i] = true
		}
	}
}

// prune returns the schema of the used columns.
func prune(s *batch.Schema, used []bool, hasTime bool) *batch.Schema {
	out := &batch.Schema{HasTime: hasTime}
	for i, f := range s.Fields {
		if used[i] {
			out.Fields = append(out.Fields, f)
		}
	}
	return out
}
