package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// StartKind says where a source begins when the job starts for the first time.
type StartKind string

// The start positions.
const (
	StartEarliest  StartKind = "earliest"
	StartLatest    StartKind = "latest"
	StartTimestamp StartKind = "timestamp"
	StartOffsets   StartKind = "offsets"
)

// Start is a start position: Timestamp belongs to StartTimestamp (the first record at or after it, else the
// end), Offsets to StartOffsets (partitions that it does not name start at their earliest record).
type Start struct {
	Kind      StartKind
	Timestamp time.Time
	Offsets   map[int32]int64
}

// SourceConfig are the settings of a source. Zero values mean the defaults.
type SourceConfig struct {
	Conn  ConnConfig
	Topic string
	Start Start
	// Bounded ends the source at the high watermarks that Resolve sees.
	Bounded bool
	// ResetLost goes to the earliest record when the next one no longer exists, and reports the gap;
	// otherwise that is a fatal error.
	ResetLost bool
	// Group, if set, is the consumer group whose offsets follow the durable checkpoints, for monitoring.
	Group string
	// Discover is how often new partitions are looked for: 30 s.
	Discover time.Duration
	// PartitionBytes bounds what one fetch takes of one partition (1 MiB), FetchBytes one fetch of one
	// broker (8 MiB). A single record larger than that is read nevertheless.
	PartitionBytes, FetchBytes int32
	// BatchBytes bounds what one compressed batch may decompress to: 256 MiB.
	BatchBytes int
	// Log is told of outages; nil: nobody.
	Log *slog.Logger
}

// Source is a connector.Source over one topic. Split ids are partition numbers.
type Source struct{ cfg SourceConfig }

var _ connector.Source = (*Source)(nil)

// NewSource returns a source; nothing is dialled.
func NewSource(cfg SourceConfig) *Source {
	cfg.Discover = orDefault(cfg.Discover, 30*time.Second)
	cfg.PartitionBytes = orDefault(cfg.PartitionBytes, 1<<20)
	cfg.FetchBytes = orDefault(cfg.FetchBytes, 8<<20)
	cfg.BatchBytes = orDefault(cfg.BatchBytes, 256<<20)
	if cfg.Start.Kind == "" {
		cfg.Start.Kind = StartEarliest
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg}
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// splitData is Split.Data: the topic's id, so that a topic that was deleted and made anew is not taken for
// the same one. Empty with brokers that have no topic ids (before Kafka 2.8).
type splitData struct {
	TopicID string `json:"topic_id,omitempty"`
}

// Owner spreads partitions round robin: p subtasks read partition mod p.
func (s *Source) Owner(id string, p int) int {
	n, err := strconv.Atoi(id)
	if err != nil || n < 0 {
		return 0
	}
	return n % p
}

// Resolve finds all partitions and turns the start (and, bounded, the end) into concrete offsets, for empty
// partitions too.
func (s *Source) Resolve(ctx context.Context) (splits []connector.Split, err error) {
	err = s.cfg.Conn.with(ctx, func(ctx context.Context, cl *kgo.Client) (err error) {
		splits, err = s.resolve(ctx, cl)
		return err
	})
	return splits, err
}

func (s *Source) resolve(ctx context.Context, cl *kgo.Client) ([]connector.Split, error) {
	meta, err := fetchMetadata(ctx, cl, s.cfg.Topic)
	if err != nil {
		return nil, err
	}
	adm := kadm.NewClient(cl)
	first, err := s.list(ctx, adm.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	end, err := s.list(ctx, adm.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	start, err := s.start(ctx, adm, first, end)
	if err != nil {
		return nil, err
	}
	var splits []connector.Split
	for _, p := range slices.Sorted(maps.Keys(meta.partitions)) {
		from, ok := start[p]
		to, ok2 := end[p]
		if !ok || !ok2 {
			return nil, fmt.Errorf("resolve topic %q: partition %d has no leader that knows its offsets", s.cfg.Topic, p)
		}
		split := newSplit(p, from, meta.id)
		if s.cfg.Bounded {
			split.End = to
		}
		splits = append(splits, split)
	}
	return splits, nil
}

func newSplit(partition int32, position int64, topic topicID) connector.Split {
	data, err := json.Marshal(splitData{TopicID: topic.String()})
	if err != nil {
		panic(err) // a struct of a string
	}
	return connector.Split{ID: strconv.Itoa(int(partition)), Position: position, End: connector.NoEnd, Data: data}
}

// list asks for one kind of offset of every partition; any partition's error fails it.
func (s *Source) list(ctx context.Context, ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
	listed, err := ask(ctx, s.cfg.Topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, classify(err, "list offsets of topic", s.cfg.Topic, "Describe")
	}
	offsets := make(map[int32]int64)
	for p, o := range listed[s.cfg.Topic] {
		offsets[p] = o.Offset
	}
	return offsets, nil
}

// start picks the start offsets by the start mode.
func (s *Source) start(ctx context.Context, adm *kadm.Client, first, end map[int32]int64) (map[int32]int64, error) {
	switch s.cfg.Start.Kind {
	case StartEarliest:
		return first, nil
	case StartLatest:
		return end, nil
	case StartTimestamp:
		return s.list(ctx, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return adm.ListOffsetsAfterMilli(ctx, s.cfg.Start.Timestamp.UnixMilli(), topics...)
		})
	case StartOffsets:
		start := maps.Clone(first)
		for p, offset := range s.cfg.Start.Offsets {
			if _, ok := first[p]; !ok {
				return nil, job.AsFatal(fmt.Errorf("start offsets of topic %q: there is no partition %d, it has %d", s.cfg.Topic, p, len(first)))
			}
			if offset < first[p] || offset > end[p] {
				return nil, job.AsFatal(fmt.Errorf("start offsets of topic %q: partition %d has offsets [%d, %d), not %d", s.cfg.Topic, p, first[p], end[p], offset))
			}
			start[p] = offset
		}
		return start, nil
	}
	return nil, job.AsFatal(fmt.Errorf("start of topic %q: unknown kind %q", s.cfg.Topic, s.cfg.Start.Kind))
}

// Open starts reading. Splits are read from their positions even while the cluster does not show their
// partitions.
func (s *Source) Open(_ context.Context, index, p int, splits []connector.Split) (connector.Reader, error) {
	cl, err := s.cfg.Conn.client()
	if err != nil {
		return nil, err
	}
	r := newReader(s, cl, index, p)
	for _, split := range splits {
		if err := r.add(split); err != nil {
			cl.Close()
			return nil, job.AsFatal(fmt.Errorf("open topic %q: split %q: %w", s.cfg.Topic, split.ID, err))
		}
	}
	r.start()
	return r, nil
}

// topicID is a topic's id; zero if the broker has none.
type topicID [16]byte

// String returns the hexadecimal form, "" for zero.
func (t topicID) String() string {
	if t == (topicID{}) {
		return ""
	}
	return fmt.Sprintf("%x", t[:])
}

// metadata is what a broker says of a topic.
type metadata struct {
	id         topicID
	partitions map[int32]leader
}

type leader struct{ broker, epoch int32 }

// noLeader is the broker of a partition that has none at the moment.
const noLeader = -1

// client is what of kgo.Client requests need.
type requester interface {
	Request(context.Context, kmsg.Request) (kmsg.Response, error)
}

// fetchMetadata asks any broker about topic. The client learns the brokers' addresses from the answer too.
func fetchMetadata(ctx context.Context, cl requester, topic string) (metadata, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	req.AllowAutoTopicCreation = false
	kresp, err := cl.Request(ctx, req)
	if err != nil {
		return metadata{}, classify(err, "describe topic", topic, "Describe")
	}
	resp := kresp.(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 {
		return metadata{}, fmt.Errorf("describe topic %q: the broker answered about %d topics", topic, len(resp.Topics))
	}
	rt := resp.Topics[0]
	if err := codeError(rt.ErrorCode); err != nil {
		return metadata{}, classify(err, "describe topic", topic, "Describe")
	}
	m := metadata{id: rt.TopicID, partitions: make(map[int32]leader, len(rt.Partitions))}
	for _, p := range rt.Partitions {
		l := leader{p.Leader, p.LeaderEpoch}
		if p.ErrorCode != 0 && p.Leader < 0 {
			l.broker = noLeader
		}
		m.partitions[p.Partition] = l
	}
	return m, nil
}
