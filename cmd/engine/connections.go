package engine

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/connector/kafka"
)

// SinkClusters are the connections of the Kafka clusters that a job's sinks write to, each once, with its secrets
// resolved in this process.
func SinkClusters(j *config.Job) ([]kafka.ConnConfig, error) {
	var out []kafka.ConnConfig
	for i := range j.Sinks {
		s := &j.Sinks[i]
		if s.Kafka == nil {
			continue
		}
		conn, err := kafkaConn(j, s.Kafka.KafkaEndpoint)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", s.Name, err)
		}
		if !slices.ContainsFunc(out, func(c kafka.ConnConfig) bool { return slices.Equal(c.Brokers, conn.Brokers) }) {
			out = append(out, conn)
		}
	}
	return out, nil
}
