package workflows_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/weirstream/weir/workflows"
)

const replayDir = "testdata/replay"

// Every recorded history replays on the code of today. A change of the order of commands that breaks one of
// them would strand the jobs that run: guard it with workflow.GetVersion, keep the old history, and record a
// new one with
//
//	WEIR_RECORD=<release> go test ./workflows
func TestReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(replayDir, "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories in %s: %v", replayDir, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			if err := replay(load(t, f)); err != nil {
				t.Errorf("replay: %v", err)
			}
		})
	}
}

// A history in which a decision differs is noticed: the replay test can fail.
func TestReplayNoticesChange(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(replayDir, "job-cancelled.*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no history of a cancelled job: %v", err)
	}
	h := load(t, files[0])
	changed := false
	for _, e := range h.Events {
		if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil && !changed {
			a.WorkflowId += "0"
			changed = true
		}
	}
	if err := replay(h); !changed || err == nil {
		t.Errorf("replay of a changed history: %v (changed: %v), want an error", err, changed)
	}
}

func replay(h *historypb.History) error {
	r := worker.NewWorkflowReplayer()
	workflows.Register(r)
	id := h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	return r.ReplayWorkflowHistoryWithOptions(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), h,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
}

func load(t *testing.T, file string) *historypb.History {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	h, err := client.HistoryFromJSON(z, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatalf("decode %s: %v", file, err)
	}
	return h
}

// record writes the history of a run into testdata/replay when WEIR_RECORD names a release.
func (w *world) record(name, id, run string) {
	w.Helper()
	release := os.Getenv("WEIR_RECORD")
	if release == "" {
		return
	}
	b, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(w.history(id, run))
	if err != nil {
		w.Fatalf("record %s: %v", name, err)
	}
	var z bytes.Buffer
	g, _ := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if _, err := io.Copy(g, bytes.NewReader(b)); err != nil {
		w.Fatal(err)
	}
	if err := g.Close(); err != nil {
		w.Fatal(err)
	}
	if err := os.MkdirAll(replayDir, 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(replayDir, name+"."+release+".json.gz"), z.Bytes(), 0o644); err != nil {
		w.Fatal(err)
	}
}
