package e2e

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// openTransactions lists the ids of ongoing transactions in the broker.
func (c *cluster) openTransactions() (ids []string) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	listed, err := kadm.NewClient(cl).ListTransactions(c.ctx, nil, []string{"Ongoing"})
	if err != nil {
		c.t.Fatal(err)
	}
	for id := range listed {
		ids = append(ids, id)
	}
	return ids
}

// awaitClosed waits for the end of a workflow, whatever it is, and returns its error.
func (c *cluster) awaitClosed(name string, within time.Duration) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	err := c.temporal.GetWorkflow(ctx, name, "").Get(ctx, nil)
	if ctx.Err() != nil {
		c.t.Fatalf("job %s has not ended within %s", name, within)
	}
	return err
}
