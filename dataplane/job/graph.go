package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Graph is the physical plan of a job: chains of operators (vertices) and the channels between them
// (edges). Vertices are in topological order: an edge goes from a lower to a higher index.
type Graph struct {
	MaxParallelism int      `json:"max_parallelism"`
	Vertices       []Vertex `json:"vertices"`
	Edges          []Edge   `json:"edges"`
}

// Vertex is a chain of operators that run in one goroutine per subtask.
type Vertex struct {
	// UID is that of the chain's first operator; unique in the graph.
	UID         string     `json:"uid"`
	Parallelism int        `json:"parallelism"`
	Operators   []Operator `json:"operators"`
}

// Operator is one step of a chain, as shown to people and matched at restore.
type Operator struct {
	UID string `json:"uid"`
	// Kind is "kafka source", "where", "aggregate", "kafka sink", ….
	Kind string `json:"kind"`
	// State says in words what the operator keeps and why it is finite; empty when it keeps nothing.
	State string `json:"state,omitempty"`
	// Detail is a short human-readable summary such as a predicate or key columns.
	Detail string `json:"detail,omitempty"`
}

// Exchange says how an edge distributes batches over the subtasks of its target.
type Exchange string

// The kinds of exchange. Forward needs equal parallelism and stays on one slot. Hash sends each row to the
// owner of its key group. Rebalance sends whole batches round robin (only where no order by key is owed).
const (
	Forward   Exchange = "forward"
	Hash      Exchange = "hash"
	Rebalance Exchange = "rebalance"
)

// Edge connects the output of vertex From to input Input of vertex To (indices into Graph.Vertices).
type Edge struct {
	From     int      `json:"from"`
	To       int      `json:"to"`
	Input    int      `json:"input"`
	Exchange Exchange `json:"exchange"`
	// Keys are the names of the key columns of a Hash edge.
	Keys []string `json:"keys,omitempty"`
}

// MaxVertexParallelism is the number of slots that the graph needs.
func (g *Graph) MaxVertexParallelism() int {
	m := 0
	for i := range g.Vertices {
		m = max(m, g.Vertices[i].Parallelism)
	}
	return m
}

// Inputs returns the edges into vertex v, ordered as in g.Edges.
func (g *Graph) Inputs(v int) []int { return g.edges(func(e *Edge) bool { return e.To == v }) }

// Outputs returns the edges out of vertex v, ordered as in g.Edges.
func (g *Graph) Outputs(v int) []int { return g.edges(func(e *Edge) bool { return e.From == v }) }

func (g *Graph) edges(keep func(*Edge) bool) []int {
	var out []int
	for i := range g.Edges {
		if keep(&g.Edges[i]) {
			out = append(out, i)
		}
	}
	return out
}

// Digest is the SHA-256 (hexadecimal) of the graph's JSON. Nodes that compile another graph from the same
// spec (another version of the program) are refused by it.
func (g *Graph) Digest() string {
	b, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("graph digest: %v", err)) // plain strings and numbers always marshal
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Channel is one directed connection of an edge between two subtasks.
type Channel struct {
	Edge int `json:"edge"`
	From int `json:"from"` // subtask index of the sender
	To   int `json:"to"`   // subtask index of the receiver
}

// String returns "edge:from→to".
func (c Channel) String() string { return fmt.Sprintf("%d:%d→%d", c.Edge, c.From, c.To) }
