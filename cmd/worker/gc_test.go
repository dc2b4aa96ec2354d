package worker

import "testing"

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
