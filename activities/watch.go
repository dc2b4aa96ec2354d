package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/dataplane/job"
)

// WatchAttempt is WatchNodes from whatever process is alive: when all nodes of an attempt die at once, those
// that watched it included, the next process that starts takes the watch over and tells.
func (c *Control) WatchAttempt(ctx context.Context, in WatchInput) (Watched, error) {
	return watchAttempt(ctx, c.Members, c.Executions, in)
}

func watchAttempt(ctx context.Context, members Members, x Executions, in WatchInput) (Watched, error) {
	stop := beat(ctx, nil)
	defer stop()
	watch, cancel := context.WithCancel(ctx)
	closed := make(chan bool, 1)
	go func() {
		defer cancel()
		closed <- awaitClosed(watch, x, in.Job)
	}()
	lost, err := members.Watch(watch, in.Nodes)
	cancel()
	switch isClosed := <-closed; {
	case isClosed:
		return Watched{Closed: true}, nil
	case ctx.Err() != nil:
		return Watched{}, context.Cause(ctx)
	case err != nil:
		return Watched{}, classified(fmt.Errorf("watch nodes: %w", err))
	}
	return Watched{Lost: lost, Gone: gone(members, in.Nodes)}, nil
}

// gone are those of nodes that are not alive, as far as this process knows.
func gone(members Members, nodes []job.NodeID) (out []job.NodeID) {
	alive := members.Nodes()
	for _, n := range nodes {
		if !slices.ContainsFunc(alive, func(a job.NodeSlots) bool { return a.ID == n }) {
			out = append(out, n)
		}
	}
	return out
}

// awaitClosed returns true once the StreamJob is closed, false when ctx ends. While Temporal cannot be
// reached it goes on asking: an outage is no reason to stop.
func awaitClosed(ctx context.Context, x Executions, j Job) bool {
	tick := time.NewTicker(openEvery)
	defer tick.Stop()
	for {
		open, err := x.Open(ctx, j.Name, j.Run)
		if err == nil && !open {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
