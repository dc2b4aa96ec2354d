package checkpoint

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirstream/weir/dataplane/job"
)

// The fixture: source "in" (parallelism 2) → keyed "sum" with sink "out" chained to it (parallelism 3), on
// nodes a (slots 0, 2) and b (slot 1).

var testRef = job.Ref{UID: "0a1b", Attempt: 3}

func testGraph() job.Graph {
	return job.Graph{
		MaxParallelism: 128,
		Vertices: []job.Vertex{
			{UID: "in", Parallelism: 2, Operators: []job.Operator{{UID: "in", Kind: "kafka source"}}},
			{UID: "sum", Parallelism: 3, Operators: []job.Operator{{UID: "sum", Kind: "aggregate"}, {UID: "out", Kind: "kafka sink"}}},
		},
		Edges: []job.Edge{{From: 0, To: 1, Exchange: job.Hash, Keys: []string{"id"}}},
	}
}

func testDeployment() job.Deployment {
	g := testGraph()
	return job.Deployment{
		Ref: testRef, JobName: "test", GraphDigest: g.Digest(), Restore: 4, FirstCheckpoint: 6,
		Placement: job.Placement{Slots: []job.NodeSlot{{Node: "a", Addr: "a:1"}, {Node: "b", Addr: "b:1"}, {Node: "a", Addr: "a:1"}}},
	}
}

func testFile(a job.Attempt, n job.CheckpointID, fill string) File {
	d := strings.Repeat(fill, 64)
	return File{Name: SharedName(a, n, d), Local: "00000" + fill + ".sst", Size: 10, SHA256: d}
}

func testPart(node job.NodeID, n job.CheckpointID, slots ...int) Part {
	g := testGraph()
	p := Part{
		Version: FormatVersion, UID: testRef.UID, Attempt: testRef.Attempt, ID: n, Node: node,
		Subtasks: SubtasksOf(g, testDeployment().Placement, node), Ended: true,
	}
	for _, s := range slots {
		if s < 2 {
			p.States = append(p.States, OperatorState{Operator: "in", Subtask: s, Inline: json.RawMessage(`{"offsets":[1]}`)})
		}
		p.States = append(p.States, OperatorState{
			Operator: "sum", Subtask: s, KeyRange: job.RangeOf(s, 3, 128), Backend: "pebble", Files: []File{testFile(3, n, string(rune('a'+s)))},
		})
		p.Transactions = append(p.Transactions, Transaction{Sink: "out", Connector: "kafka", Subtask: s, ID: "t" + string(rune('0'+s)), Checkpoint: n, Records: 5})
		p.Stats = p.Stats.Add(Stats{Bytes: 10, Files: 1, Records: 100})
	}
	sortShare(p.States, p.Transactions)
	return p
}

func testCommit(n job.CheckpointID) Commit {
	return Commit{
		Deployment: testDeployment(), Graph: testGraph(), ID: n, Floor: 2,
		Parts: []Part{testPart("a", n, 0, 2), testPart("b", n, 1)},
	}
}

func testManifest(t testing.TB, n job.CheckpointID) Manifest {
	t.Helper()
	m, err := BuildManifest(testCommit(n))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
