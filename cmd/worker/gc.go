package worker

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/weirstream/weir/dataplane/node"
)

// Tasks allocate a fetch buffer and columns for everything that they read, nearly all of it without pointers and soon
// dead, while the heap that lives is small. Go's default of collecting at twice the live heap then spends a fifth of
// the CPU on marking the same few structures again and again. So while tasks work the heap may grow by gcRoom before it
// is collected, but not to more than gcMost % above what lives; and never by less than Go's default. Tasks that read
// fewer than gcRecords between two looks, a second apart, allocate too little for that to be worth the memory.
const (
	gcRoom    = 256 << 20
	gcMost    = 400
	gcRecords = 1000
)

// busy returns a function that reports whether the tasks of figures have read gcRecords since it was called last.
func busy(figures func() []node.Figures) func() bool {
	before := int64(0)
	return func() bool {
		now := int64(0)
		for _, a := range figures() {
			for _, s := range a.Subtasks {
				now += s.Records
			}
		}
		read := now - before
		before = now
		return read >= gcRecords
	}
}

// gcPercent is the growth in % that a live heap of the given size is allowed.
func gcPercent(live uint64, busy bool) int {
	if !busy {
		return 100
	}
	return int(max(100, min(gcMost, gcRoom*100/max(live, 1))))
}

// tuneGC sets the garbage collector's pace for a worker until ctx ends. Whoever sets GOGC has decided already.
func tuneGC(ctx context.Context, busy func() bool) {
	if os.Getenv("GOGC") != "" {
		return
	}
	const liveHeap = "/gc/heap/live:bytes"
	sample := []metrics.Sample{{Name: liveHeap}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for now := 100; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		// Setting it stops the world for a moment: not for a trifle.
		if want := gcPercent(sample[0].Value.Uint64(), busy()); want < now*9/10 || want > now*11/10 {
			debug.SetGCPercent(want)
			now = want
		}
	}
}
