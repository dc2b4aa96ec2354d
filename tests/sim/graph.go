package sim

import (
	"encoding/json"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// The job: a source of two partitions, a counter by key that fires once at the end, a transactional sink.
const (
	sourceVertex = "in"
	countVertex  = "count"
	sinkOperator = "out"
)

func graphOf(parallelism int) job.Graph {
	return job.Graph{
		MaxParallelism: numKeys,
		Vertices: []job.Vertex{
			{UID: sourceVertex, Parallelism: min(parallelism, partitions), Operators: []job.Operator{{UID: sourceVertex, Kind: "source"}}},
			{UID: countVertex, Parallelism: parallelism, Operators: []job.Operator{{UID: countVertex, Kind: "count"}, {UID: sinkOperator, Kind: "sink"}}},
		},
		Edges: []job.Edge{{From: 0, To: 1, Exchange: job.Hash, Keys: []string{"key"}}},
	}
}

// maxParallelism of the job; it is scaled between 2 and that.
const maxParallelism = 3

func (w *world) graphBy(digest string) job.Graph {
	for p := 1; p <= maxParallelism; p++ {
		if g := graphOf(p); w.digest(p) == digest {
			return g
		}
	}
	panic("sim: a deployment of an unknown graph")
}

func (w *world) digest(parallelism int) string {
	if w.audit.digests[parallelism] == "" {
		g := graphOf(parallelism)
		w.audit.digests[parallelism] = g.Digest()
	}
	return w.audit.digests[parallelism]
}

// positionsOf reads the source positions out of a manifest.
func positionsOf(m checkpoint.Manifest) (at [partitions]int) {
	for _, s := range m.States {
		if s.Operator != sourceVertex {
			continue
		}
		var splits map[int]int
		if err := json.Unmarshal(s.Inline, &splits); err != nil {
			panic(err) // written by sourceState
		}
		for q, o := range splits {
			at[q] = o
		}
	}
	return at
}

// sourceStates is the state of the sources at the given positions.
func sourceStates(at [partitions]int, parallelism int) []checkpoint.OperatorState {
	var out []checkpoint.OperatorState
	for i := range parallelism {
		splits := map[int]int{}
		for q := i; q < partitions; q += parallelism {
			splits[q] = at[q]
		}
		out = append(out, sourceState(i, splits))
	}
	return out
}

func sourceState(subtask int, splits map[int]int) checkpoint.OperatorState {
	b, err := json.Marshal(splits)
	if err != nil {
		panic(err) // numbers always marshal
	}
	return checkpoint.OperatorState{Operator: sourceVertex, Subtask: subtask, Inline: b}
}
