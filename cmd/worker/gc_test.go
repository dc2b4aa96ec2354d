package worker

import (
	"testing"

	"github.com/weirstream/weir/dataplane/node"
	"github.com/weirstream/weir/dataplane/task"
)

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		busy bool
		want int
	}{
		{0, true, 400}, {20 << 20, true, 400}, {64 << 20, true, 400}, {128 << 20, true, 200}, {256 << 20, true, 100},
		{4 << 30, true, 100}, {20 << 20, false, 100},
	} {
		if got := gcPercent(c.live, c.busy); got != c.want {
			t.Errorf("%d MiB live, busy %v: got %d %%, want %d %%", c.live>>20, c.busy, got, c.want)
		}
	}
}

// A worker whose tasks read little is not busy, nor is one right after a restart of its job.
func TestBusy(t *testing.T) {
	var read int64
	is := busy(func() []node.Figures {
		half := node.SubtaskFigures{Figures: task.Figures{Records: read / 2}}
		return []node.Figures{{Subtasks: []node.SubtaskFigures{half, half}}}
	})
	for _, c := range []struct {
		read int64
		want bool
	}{{0, false}, {1000, true}, {1998, false}, {50_000, true}, {50_000, false}, {10, false}, {2000, true}} {
		if read = c.read; is() != c.want {
			t.Errorf("%d records read in all: got %v, want %v", c.read, !c.want, c.want)
		}
	}
}
