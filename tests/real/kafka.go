package real

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// OpenTransactions lists the ids of ongoing transactions in the broker.
func (c *Cluster) OpenTransactions() (ids []string) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	listed, err := kadm.NewClient(cl).ListTransactions(c.Ctx, nil, []string{"Ongoing"})
	if err != nil {
		c.t.Fatal(err)
	}
	for id := range listed {
		ids = append(ids, id)
	}
	return ids
}

// AwaitClosed waits for the end of a workflow, whatever it is, and returns its error.
func (c *Cluster) AwaitClosed(name string, within time.Duration) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.Ctx, within)
	defer cancel()
	err := c.Client.GetWorkflow(ctx, name, "").Get(ctx, nil)
	if ctx.Err() != nil {
		c.t.Fatalf("job %s has not ended within %s", name, within)
	}
	return err
}
