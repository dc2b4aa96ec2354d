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

// CreateTopic makes a topic with one replica and waits until the brokers show it with leaders, which they learn
// a moment after the answer. configs are key, value, key, value, ….
func CreateTopic(t testing.TB, brokers []string, topic string, partitions int32, configs ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	set := make(map[string]*string)
	for i := 0; i < len(configs); i += 2 {
		set[configs[i]] = kadm.StringPtr(configs[i+1])
	}
	adm := kadm.NewClient(Client(t, brokers))
	resp, err := adm.CreateTopic(ctx, partitions, 1, set, topic)
	if err == nil {
		err = resp.Err
	}
	for shown := false; err == nil && !shown; {
		shown, err = hasLeaders(ctx, adm, topic, partitions)
	}
	if err != nil {
		t.Fatalf("create topic %q: %v", topic, err)
	}
}

func hasLeaders(ctx context.Context, adm *kadm.Client, topic string, partitions int32) (bool, error) {
	meta, err := adm.Metadata(ctx, topic)
	if err != nil {
		return false, err
	}
	leaders := int32(0)
	for _, p := range meta.Topics[topic].Partitions {
		if p.Err == nil && p.Leader >= 0 {
			leaders++
		}
	}
	if leaders == partitions {
		return true, nil
	}
	select {
	case <-time.After(20 * time.Millisecond):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
