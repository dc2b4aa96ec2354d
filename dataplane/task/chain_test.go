package task

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/operator"
)

// pass is an operator that passes everything on, or fails.
type pass struct {
	fail error
	out  operator.Output
}

func (p *pass) Open(_ context.Context, _ *operator.Env, out operator.Output) error {
	p.out = out
	return nil
}

func (p *pass) Process(_ int, b *batch.Batch) error {
	if p.fail != nil {
		return p.fail
	}
	return p.out.Emit(b)
}
func (p *pass) End() error                               { return nil }
func (p *pass) Freeze() operator.Frozen                  { return nil }
func (p *pass) Restore([]checkpoint.OperatorState) error { return nil }
func (p *pass) Close() error                             { return nil }

func passStage(uid string, fail error, out ...Target) Stage {
	return Stage{UID: uid, New: func() (operator.Operator, error) { return &pass{fail: fail}, nil }, Out: out}
}

// An operator that two edges feed waits for neither once it has ended.
func TestEndedEdgeHoldsNoWatermarkBack(t *testing.T) {
	l, g := newLog(), newTestGate()
	run(t, Config{
		ID:     job.SubtaskID{Vertex: "v"},
		Vertex: &Vertex{Inputs: []Target{{Kind: ToStage}, {Kind: ToStage}}, Stages: []Stage{passStage("union", nil, Target{Kind: ToOutput})}, Outputs: 1},
		Gate:   g, ChannelInput: []int{0, 1}, Outputs: []Output{l}, Listener: l,
	})
	g.rows(0, numbers(5, 6))
	g.rows(1, numbers(100, 101))
	l.await(t, "rows [101] watermark 5 idle false")
	g.end(0)
	l.await(t, "rows [] watermark 100 idle false")
	g.end(1)
	l.await(t, "end")
}

// An error names the operator that it happened in, not those before it that call it.
func TestErrorsNameTheirOperatorOnly(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name   string
		stages []Stage
		want   string
	}{
		{"last", []Stage{passStage("a", nil, Target{Kind: ToStage, Index: 1}), passStage("b", boom)}, "b: boom"},
		{"first", []Stage{passStage("a", boom, Target{Kind: ToStage, Index: 1}), passStage("b", nil)}, "a: boom"},
	} {
		g, l := newTestGate(), newLog()
		s := New(Config{
			Ref: ref, ID: job.SubtaskID{Vertex: "v"}, Vertex: &Vertex{Inputs: []Target{{Kind: ToStage}}, Stages: tc.stages},
			Parallelism: 1, MaxParallelism: 128, Gate: g, ChannelInput: []int{0}, Listener: l,
		})
		g.rows(0, numbers(5, 6))
		start := make(chan struct{})
		close(start)
		err := s.Run(t.Context(), func() {}, start)
		s.Close(t.Context())
		if err == nil || err.Error() != tc.want || !errors.Is(err, boom) {
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
	}
}

// What the alignment took is gone from the time left of whoever gets the barrier next.
func TestBarrierCarriesWhatIsLeftOfItsTime(t *testing.T) {
	l, g, _ := twoInputs(t)
	g.barrier(0, barrierOf(1, time.Minute))
	l.await(t, "heard 1")
	g.barrier(1, barrierOf(1, time.Minute))
	l.await(t, "barrier 1")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left <= 0 || l.left >= time.Minute {
		t.Errorf("forwarded with %s left, want less than what came", l.left)
	}
}

// A split falls idle also while another keeps the subtask busy.
func TestBusySourceNoticesIdleSplits(t *testing.T) {
	l, src := newLog(), &testSource{fetches: make(chan connector.Fetch, 100), told: make(chan []connector.Split, 10)}
	v := sourceVertex(src, operator.Fail)
	v.Source.IdleAfter = time.Microsecond
	for i := range int64(50) {
		if i < 2 { // nothing is left in the other, and again
			src.fetches <- connector.Fetch{Split: connector.Split{ID: "1", End: connector.NoEnd}}
		}
		src.send(i, connector.NoEnd, 100+i)
	}
	run(t, Config{
		ID: job.SubtaskID{Vertex: "s"}, Vertex: v, Outputs: []Output{l}, Listener: l,
		States: startedAt(t, connector.Split{ID: "0", End: connector.NoEnd}, connector.Split{ID: "1", End: connector.NoEnd}),
	})
	l.await(t, "rows [149] watermark 146 idle false")
}
