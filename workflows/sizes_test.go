package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// What passes through Temporal for a job on hundreds of nodes, with the longest reasons for everything, is far below
// the half megabyte at which a server begins to complain.
func TestPayloadsStaySmall(t *testing.T) {
	const nodes, most = 200, 384 << 10
	long := activities.Cut(strings.Repeat("because ", 1000))
	var slots []job.NodeSlot
	var acks []checkpoint.Ack
	for i := range nodes {
		id := job.NodeID(fmt.Sprintf("worker-%d.streaming.svc.cluster.local-1a2b3c4d", i))
		slots = append(slots, job.NodeSlot{Node: id, Addr: "fd00:1234:5678:9abc::1:7947"})
		acks = append(acks, checkpoint.Ack{
			Node: id, Part: "chk-123456789/part-" + string(id), SHA256: strings.Repeat("a", 64),
			Stats: checkpoint.Stats{Bytes: 1 << 50, Uploaded: 1 << 50, Files: 1 << 30, Records: 1 << 50, AlignMs: 1 << 30, SyncUs: 1 << 30, Transactions: 1 << 20, LagRecords: 1 << 50},
		})
	}
	s := State{Planned: activities.Planned{
		Job:   activities.Job{Name: strings.Repeat("n", 200), Run: strings.Repeat("r", 36), UID: "0123456789abcdef", Storage: strings.Repeat("s", 500), Spec: strings.Repeat("p", 100)},
		Graph: job.Graph{Vertices: []job.Vertex{{UID: strings.Repeat("g", 64<<10)}}}, // as large as a planned one may be
	}}
	for i := range 100 {
		s.after(CheckpointRecord{ID: job.CheckpointID(1<<40 + i), Attempt: 1 << 30, Result: Superseded, Reason: long, At: epoch, Stats: acks[0].Stats})
		s.deployed(Running{Attempt: job.Attempt(1<<30 + i), Nodes: slots, Since: epoch})
		if i < 99 {
			s.stopped(activities.Ending{Kind: activities.TypePeerLost, Node: slots[i].Node, Cause: long}, epoch)
		}
		s.Planned.Warnings = prepend(s.Planned.Warnings, long, 21)
	}
	s.Restarts = Restarts{Total: 1 << 30, Last: long, LastAt: epoch}
	in := AttemptInput{Job: s.Planned.Job, Attempt: 1 << 40, Watchers: s.Running.nodes()[:4], Nodes: s.Running.nodes()}
	for what, v := range map[string]any{
		"the state that a run hands on": s,
		"the status":                    s.status("x", "running", long, 1),
		"an attempt's input":            in,
		"a checkpoint's input":          CheckpointInput{Job: s.Planned.Job, Attempt: 1 << 40, ID: 1 << 40, Nodes: in.Nodes},
		"a commit's input":              activities.CommitInput{Job: s.Planned.Job, Attempt: 1 << 40, ID: 1 << 40, Acks: acks},
		"a checkpoint's record":         s.Checkpoints[0],
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", what, len(text))
		limit := most
		if what == "a checkpoint's record" {
			limit = 4 << 10
		}
		if len(text) > limit {
			t.Errorf("%s has %d bytes, want at most %d", what, len(text), limit)
		}
	}
}
