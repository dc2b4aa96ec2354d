package engine

import (
	"fmt"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/files"
	"github.com/weirstream/weir/dataplane/connector/kafka"
	"github.com/weirstream/weir/dataplane/connector/nexmark"
	"github.com/weirstream/weir/dataplane/expr"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/format/json"
	"github.com/weirstream/weir/dataplane/plan"
	"github.com/weirstream/weir/dataplane/task"
)

// source makes the head of a source vertex.
func (e *Engine) source(p *plan.Plan, s *plan.Source, jobName string) (*task.Source, error) {
	c, err := e.sourceConnector(p.Job, s.Spec, jobName)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Spec.Name, err)
	}
	t := &task.Source{
		UID: s.Spec.UID, Connector: c, TimeBranch: s.TimeBranch, Errors: s.Errors,
		OnError:    onError(s.Spec.OnError),
		NewDecoder: func() (format.Decoder, error) { return newDecoder(s) },
	}
	for _, b := range s.Branches {
		t.Branches = append(t.Branches, b.Targets)
		t.Schemas = append(t.Schemas, b.Full)
		t.Metadata = append(t.Metadata, b.Metadata...)
	}
	if et := s.Spec.EventTime; et != nil {
		t.MaxOutOfOrder, t.IdleAfter = et.MaxOutOfOrder, et.IdleAfter
		t.MaxAhead, t.ClampAhead = et.MaxAhead, et.Ahead == config.AheadClamp
	}
	if s.TimeBranch >= 0 {
		t.NewTime = func() (task.TimeFunc, error) { return newTime(s) }
	}
	return t, nil
}

// newDecoder compiles the predicates of one subtask's decoder.
func newDecoder(s *plan.Source) (format.Decoder, error) {
	branches := make([]format.Branch, len(s.Branches))
	for i, b := range s.Branches {
		branches[i] = b.Branch
		var all conjunction
		for _, f := range b.Filters {
			pred, err := predicate(f.Expr, b.Schema, f.Place)
			if err != nil {
				return nil, err
			}
			all.preds = append(all.preds, pred)
		}
		switch len(all.preds) {
		case 0:
		case 1:
			branches[i].Where = all.preds[0]
		default:
			branches[i].Where = &all
		}
	}
	return json.NewDecoder(jsonOptions(s.Spec.Format), branches)
}

// conjunction takes the rows that all of its predicates take, each of which sees only what those before it took.
type conjunction struct {
	preds []batch.Predicate
	rows  [2][]int32 // scratch
}

// Select implements batch.Predicate.
func (c *conjunction) Select(b *batch.Batch, sel, dst []int32) (_ []int32, err error) {
	last := len(c.preds) - 1
	for i, p := range c.preds[:last] {
		to := &c.rows[i&1]
		if *to, err = p.Select(b, sel, (*to)[:0]); err != nil {
			return dst, err
		}
		if sel = *to; len(sel) == 0 {
			return dst, nil
		}
	}
	return c.preds[last].Select(b, sel, dst)
}

// newTime compiles the event-time expression of one subtask.
func newTime(s *plan.Source) (task.TimeFunc, error) {
	prog, err := program(s.Time, s.Branches[s.TimeBranch].Full, s.Spec.Name+".event_time.at")
	if err != nil {
		return nil, err
	}
	return func(b *batch.Batch) (*batch.Column, error) {
		col, err := prog.Eval(b, b.Sel)
		return &col, err
	}, nil
}

// program binds and compiles an expression that the planner has checked.
func program(n expr.Node, s *batch.Schema, place string) (*expr.Program, error) {
	t, err := expr.Bind(n, expr.SchemaScope(s))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return expr.Compile(t, placeOf(place))
}

func placeOf(place string) func(int) string {
	return func(offset int) string { return fmt.Sprintf("%s, character %d", place, offset+1) }
}

func predicate(n expr.Node, s *batch.Schema, place string) (*expr.Predicate, error) {
	prog, err := program(n, s, place)
	if err != nil {
		return nil, err
	}
	return expr.NewPredicate(prog)
}

func jsonOptions(f *config.Format) json.Options {
	if f == nil || f.JSON == nil {
		return json.Options{Timestamps: json.SQL} // the generators' own notation
	}
	switch f.JSON.Timestamps {
	case config.TimestampsSQL:
		return json.Options{Timestamps: json.SQL}
	case config.TimestampsEpochS:
		return json.Options{Timestamps: json.EpochSeconds}
	case config.TimestampsEpochMS:
		return json.Options{Timestamps: json.EpochMillis}
	case config.TimestampsEpochUS:
		return json.Options{Timestamps: json.EpochMicros}
	}
	return json.Options{Timestamps: json.ISO}
}

func (e *Engine) sourceConnector(j *config.Job, s *config.Source, jobName string) (connector.Source, error) {
	switch {
	case s.Kafka != nil:
		return e.kafkaSource(j, s.Kafka, jobName)
	case s.Nexmark != nil:
		return nexmark.New(nexmark.Config{
			Events: s.Nexmark.Events, Rate: s.Nexmark.Rate.PerSecond(), Pace: s.Nexmark.Pace, Splits: s.Parallelism,
		})
	}
	path, err := s.Files.Path.Resolve()
	if err != nil {
		return nil, err
	}
	return files.NewSource(path), nil
}

func (e *Engine) kafkaSource(j *config.Job, s *config.KafkaSource, jobName string) (connector.Source, error) {
	conn, err := kafkaConn(j, s.KafkaEndpoint)
	if err != nil {
		return nil, err
	}
	topic, err := s.Topic.Resolve()
	if err != nil {
		return nil, err
	}
	cfg := kafka.SourceConfig{
		Conn: conn, Topic: topic, Bounded: s.Bounded, ResetLost: s.OnLost == config.LostEarliest, Log: e.Log,
		Start: kafka.Start{Kind: kafka.StartKind(s.Start.Kind), Timestamp: s.Start.Timestamp, Offsets: s.Start.Offsets},
	}
	if jobName != "" {
		cfg.Group = "weir-" + jobName
	}
	return kafka.NewSource(cfg), nil
}

// kafkaConn resolves a connection on this process.
func kafkaConn(j *config.Job, end config.KafkaEndpoint) (c kafka.ConnConfig, err error) {
	k := j.Cluster(end)
	if c.Brokers, err = config.ResolveAll(k.Brokers); err != nil {
		return c, err
	}
	if k.TLS != nil {
		c.TLS = &kafka.TLS{SkipVerify: k.TLS.SkipVerify}
		for _, f := range []struct {
			to   *string
			from config.Ref
		}{{&c.TLS.CA, k.TLS.CA}, {&c.TLS.Cert, k.TLS.Cert}, {&c.TLS.Key, k.TLS.Key}, {&c.TLS.ServerName, k.TLS.ServerName}} {
			if *f.to, err = f.from.Resolve(); err != nil {
				return c, err
			}
		}
	}
	if k.SASL != nil {
		c.SASL = &kafka.SASL{Mechanism: string(k.SASL.Mechanism)}
		if c.SASL.User, err = k.SASL.User.Resolve(); err != nil {
			return c, err
		}
		if c.SASL.Password, err = k.SASL.Password.Resolve(); err != nil {
			return c, err
		}
	}
	return c, nil
}
