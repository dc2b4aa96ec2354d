package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/job"
)

// checkTimeout bounds how long a check waits for an answer, so that a submit fails within seconds.
const checkTimeout = 8 * time.Second

// Check asks whether the cluster answers and has the topic. It is for submit; Resolve tells more.
func (s *Source) Check(ctx context.Context) error {
	return s.cfg.Conn.with(ctx, func(ctx context.Context, cl *kgo.Client) error {
		_, err := fetchMetadata(ctx, cl, s.cfg.Topic)
		return err
	})
}

// Check asks whether the cluster answers and has the topic and, exactly once, whether it allows the
// transactions' timeout. It returns that timeout: the broker's maximum if none was asked for, 0 at least once.
func (s *Sink) Check(ctx context.Context) (time.Duration, error) {
	var facts topicFacts
	err := s.cfg.Conn.with(ctx, func(ctx context.Context, cl *kgo.Client) (err error) {
		facts, err = s.facts(ctx, cl)
		return err
	})
	return facts.txTimeout, err
}

// with runs do with a client and a deadline. An unreachable cluster is retryable and says who was asked.
func (c ConnConfig) with(ctx context.Context, do func(context.Context, *kgo.Client) error) error {
	var seen lastError
	cl, err := c.client(kgo.WithHooks(&seen))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = do(ctx, cl)
	if job.ClassOf(err) == job.Fatal || !unreachable(err) {
		return err
	}
	if last := seen.err.Load(); last != nil && errors.Is(err, context.DeadlineExceeded) {
		err = classify(*last, "connect to", "a broker (if this persists, check tls and sasl)", "")
	}
	err = fmt.Errorf("no answer from kafka brokers %v within %s: %w", c.Brokers, checkTimeout, err)
	return err
}

// lastError is a client's hook that keeps the newest error of a connection: the client itself tries again
// until the deadline and then only says that it has passed.
type lastError struct{ err atomic.Pointer[error] }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (l *lastError) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	l.keep(err)
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (l *lastError) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	l.keep(err)
}

func (l *lastError) keep(err error) {
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		l.err.Store(&err)
	}
}

// topicFacts is what a sink must know of its cluster before it writes.
type topicFacts struct {
	txTimeout time.Duration
	// protocol is the cluster's transaction.version, at least 1.
	protocol int
	// maxRecord is the topic's max.message.bytes.
	maxRecord int
}

// defaultMaxRecord is max.message.bytes where the topic's may not be described.
const defaultMaxRecord = 1048588

func (s *Sink) facts(ctx context.Context, cl *kgo.Client) (topicFacts, error) {
	f := topicFacts{maxRecord: defaultMaxRecord}
	if _, err := fetchMetadata(ctx, cl, s.cfg.Topic); err != nil {
		return f, err
	}
	adm := kadm.NewClient(cl)
	if n, err := maxMessageBytes(ctx, adm, s.cfg.Topic); err == nil {
		f.maxRecord = n
	} else if unreachable(err) {
		return f, err
	}
	if s.cfg.AtLeastOnce {
		return f, nil
	}
	var err error
	if f.protocol, err = transactionVersion(ctx, cl); err != nil {
		return f, err
	}
	f.txTimeout, err = s.timeout(ctx, adm)
	return f, err
}

// timeout is the transactions' timeout: what was asked for, checked against the broker's maximum, or that.
func (s *Sink) timeout(ctx context.Context, adm *kadm.Client) (time.Duration, error) {
	limit, err := maxTxTimeout(ctx, adm)
	wanted := s.cfg.TxTimeout
	var auth *kadm.AuthError
	switch {
	case errors.As(err, &auth) && wanted > 0:
		return wanted, nil // InitProducerID tells if it is too long
	case errors.As(err, &auth):
		return 0, fmt.Errorf("%w; or set transaction_timeout", classify(err, "read transaction.max.timeout.ms", "the broker's configuration", "DescribeConfigs"))
	case err != nil:
		return 0, classify(err, "read transaction.max.timeout.ms", "of the broker", "DescribeConfigs")
	case wanted > limit:
		return 0, job.AsFatal(fmt.Errorf("topic %q: transaction_timeout %s is more than the broker's transaction.max.timeout.ms %d (%s); lower the one or raise the other",
			s.cfg.Topic, wanted, limit.Milliseconds(), limit))
	case wanted == 0:
		return limit, nil
	}
	return wanted, nil
}

// maxTxTimeout is the smallest transaction.max.timeout.ms of the brokers.
func maxTxTimeout(ctx context.Context, adm *kadm.Client) (time.Duration, error) {
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return 0, err
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, meta.Brokers.NodeIDs()...)
	if err != nil {
		return 0, err
	}
	var limit time.Duration
	for _, c := range configs {
		ms, err := configInt(c, "transaction.max.timeout.ms")
		if err != nil {
			return 0, err
		}
		if d := time.Duration(ms) * time.Millisecond; limit == 0 || d < limit {
			limit = d
		}
	}
	if limit == 0 {
		return 0, errors.New("no broker tells its configuration")
	}
	return limit, nil
}

func maxMessageBytes(ctx context.Context, adm *kadm.Client, topic string) (int, error) {
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return 0, err
	}
	c, err := configs.On(topic, nil)
	if err != nil {
		return 0, err
	}
	return configInt(c, "max.message.bytes")
}

func configInt(c kadm.ResourceConfig, key string) (int, error) {
	if c.Err != nil {
		return 0, c.Err
	}
	for _, kv := range c.Configs {
		if kv.Key == key && kv.Value != nil {
			return strconv.Atoi(*kv.Value)
		}
	}
	return 0, fmt.Errorf("configuration of %s has no %s", c.Name, key)
}

// transactionVersion is the cluster's finalized transaction.version: 2 where EndTxn raises the producer's
// epoch (KIP-890), else 1.
func transactionVersion(ctx context.Context, cl *kgo.Client) (int, error) {
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err == nil {
		err = codeError(resp.ErrorCode)
	}
	if err != nil {
		return 0, classify(err, "ask for", "transaction.version", "")
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" && f.MaxVersionLevel >= 2 {
			return 2, nil
		}
	}
	return 1, nil
}
