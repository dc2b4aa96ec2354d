package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fake starts a kfake cluster of one broker (unless opts say otherwise) and ends it with the test.
func Fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Client opens a client of the cluster at brokers and closes it with the test.
func Client(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// CreateTopic makes a topic with one replica. configs are key, value, key, value, ….
func CreateTopic(t testing.TB, brokers []string, topic string, partitions int32, configs ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	set := make(map[string]*string)
	for i := 0; i < len(configs); i += 2 {
		set[configs[i]] = kadm.StringPtr(configs[i+1])
	}
	resp, err := kadm.NewClient(Client(t, brokers)).CreateTopic(ctx, partitions, 1, set, topic)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		t.Fatalf("create topic %q: %v", topic, err)
	}
}
