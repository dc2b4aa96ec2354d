package json

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/format"
)

// leaf is one asked-for value. Branches that ask for the same value in the same way share it.
type leaf struct {
	id         int // index of its column in the decoder
	path       []string
	typ        batch.Type
	optional   bool
	optionalAt int
}

func (l *leaf) same(c *format.Column) bool {
	return l.typ == c.Type && l.optional == c.Optional && l.optionalAt == c.OptionalAt && slices.Equal(l.path, c.Path)
}

// absent reports whether the value may be missing because its path breaks off at element depth.
func (l *leaf) absent(depth int) bool {
	return depth < l.optionalAt || l.optional && depth == len(l.path)-1
}

// node is a member on the path to asked-for values: either a struct with children or a value with leaves.
type node struct {
	name     string
	path     []string
	children []*node
	leaves   []*leaf
	// next is the child after the one that was found last: members tend to come in the order in which they
	// are declared.
	next int
	// seen is the number of the record in which the member was met last.
	seen uint64
}

// child finds a child by name.
func (n *node) child(name []byte) *node {
	if n.next < len(n.children) && n.children[n.next].name == string(name) {
		n.next++
		return n.children[n.next-1]
	}
	for i, c := range n.children {
		if c.name == string(name) {
			n.next = i + 1
			return c
		}
	}
	return nil
}

// buildTree returns the root of the paths of leaves and the number of nodes that are values.
func buildTree(leaves []*leaf) (root *node, values int) {
	root = &node{}
	for _, l := range leaves {
		n := root
		for i, name := range l.path {
			k := slices.IndexFunc(n.children, func(c *node) bool { return c.name == name })
			if k < 0 {
				k = len(n.children)
				n.children = append(n.children, &node{name: name, path: l.path[:i+1]})
			}
			n = n.children[k]
		}
		if len(n.leaves) == 0 {
			values++
		}
		n.leaves = append(n.leaves, l)
	}
	return root, values
}

// checkPath refuses a path that is empty, or asked for both as a value and as a struct.
func checkPath(leaves []*leaf, c *format.Column) error {
	if len(c.Path) == 0 {
		return fmt.Errorf("json: column %q has no path", c.Name)
	}
	for _, l := range leaves {
		n := min(len(l.path), len(c.Path))
		if len(l.path) != len(c.Path) && slices.Equal(l.path[:n], c.Path[:n]) {
			return fmt.Errorf("json: column %q: %q is asked for both as a value and as a struct", c.Name, strings.Join(c.Path[:n], "."))
		}
	}
	return nil
}
