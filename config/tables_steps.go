package config

import (
	"math"
	"time"
)

// formatCodec is json, or {json: {…}}.
func formatCodec() codec[*Format] {
	json := objectOf(objectShape{name: "json", doc: "JSON objects, a record each."}, nil, nil,
		key("timestamps", "How timestamps are written: RFC 3339, `2026-01-31 13:00:00.000`, or a number since 1970.",
			enumOf(nil, TimestampsISO, TimestampsSQL, TimestampsEpochS, TimestampsEpochMS, TimestampsEpochUS),
			func(f *JSONFormat) *Timestamps { return &f.Timestamps }, def("iso")))
	place := func(f *Format) *Place { return &f.At }
	c := objectOf(objectShape{
		name: "format", doc: "How bytes become columns.",
		planned: []string{"avro", "csv", "protobuf", "debezium", "raw"},
		choices: []choice{{"format", "format", []string{"json", "avro", "csv", "protobuf", "debezium", "raw"}, true}},
	}, place, nil,
		key("json", "JSON.", optional(json), func(f *Format) **JSONFormat { return &f.JSON }))
	return optional(orWord(c, place))
}

// endpointFields are the two ways of naming a Kafka cluster.
func endpointFields[T any](endpoint func(*T) *KafkaEndpoint, fields ...field[T]) []field[T] {
	return append([]field[T]{
		key("connection", "A connection by name; the job's sole one unless given.", nameRef(),
			func(t *T) *Name { return &endpoint(t).Connection }),
		key("brokers", "Brokers without a connection, `host:port`.", listOf(broker()),
			func(t *T) *[]Ref { return &endpoint(t).Brokers }),
	}, fields...)
}

var endpointChoice = choice{"cluster", "connector", []string{"connection", "brokers"}, false}

func sourceCodec() codec[Source] {
	kafka := objectOf(objectShape{
		name: "kafka source", doc: "Reads a topic's partitions, read-committed.", choices: []choice{endpointChoice},
	}, nil, nil, endpointFields(func(k *KafkaSource) *KafkaEndpoint { return &k.KafkaEndpoint },
		key("topic", "The topic.", refText("text", nil), func(k *KafkaSource) *Ref { return &k.Topic }, required),
		key("start", "Where to begin when the job starts for the first time.", startCodec(),
			func(k *KafkaSource) *Start { return &k.Start }, def("earliest")),
		key("bounded", "`latest`: end at what the topic holds when the job starts.", boundedCodec(),
			func(k *KafkaSource) *bool { return &k.Bounded }),
		key("on_lost", "When the next offset is gone from the topic: `fail`, or go on at the `earliest`, counted.",
			enumOf(nil, LostFail, LostEarliest), func(k *KafkaSource) *OnLost { return &k.OnLost }, def("fail")))...)
	nexmark := objectOf(objectShape{name: "nexmark source", doc: "Generates the events of the Nexmark benchmark."}, nil, nil,
		key("events", "How many; left out, without end.", integer[int64](1, math.MaxInt64), func(n *NexmarkSource) *int64 { return &n.Events }),
		key("rate", "Events per time, in event time from 2026-01-01.", rate(), func(n *NexmarkSource) *Rate { return &n.Rate }, def("1000/s")),
		key("pace", "Keep to the clock too.", boolean(), func(n *NexmarkSource) *bool { return &n.Pace }, def("false")))
	files := objectOf(objectShape{name: "files source", doc: "Reads files, a record a line.", planned: []string{"refresh"}}, nil, nil,
		key("path", "A file or glob, on storage that all nodes share.", refText("text", nil), func(f *FilesSource) *Ref { return &f.Path }, required))

	return objectOf(objectShape{
		name: "source", doc: "Where rows come from: one connector, and how its bytes become columns.",
		planned: []string{"upsert", "unique", "custom"},
		choices: []choice{{"connector", "source", []string{"kafka", "nexmark", "files", "custom"}, true}},
	}, func(s *Source) *Place { return &s.At }, checkSource, commonFields(func(s *Source) *Common { return &s.Common },
		key("kafka", "A Kafka topic.", optional(kafka), func(s *Source) **KafkaSource { return &s.Kafka }),
		key("nexmark", "The Nexmark generator.", optional(nexmark), func(s *Source) **NexmarkSource { return &s.Nexmark }),
		key("files", "Files.", optional(files), func(s *Source) **FilesSource { return &s.Files }),
		key("format", "How values become columns.", formatCodec(), func(s *Source) **Format { return &s.Format }),
		key("key_format", "How record keys are read for the metadata column `key`; bytes unless given.", formatCodec(),
			func(s *Source) **Format { return &s.KeyFormat }),
		key("schema", "The columns.", schemaOf(), func(s *Source) *[]Field { return &s.Schema }),
		key("metadata", "Columns that show a record's `key`, `timestamp`, `partition`, `offset` or `header.NAME`.", metadataOf(),
			func(s *Source) *[]MetadataColumn { return &s.Metadata }),
		key("event_time", "When rows happened.", optional(eventTimeCodec()), func(s *Source) **EventTime { return &s.EventTime }),
	)...)
}

func eventTimeCodec() codec[EventTime] {
	return objectOf(objectShape{
		name: "event_time", doc: "When rows happened. The watermark is max(at) − max_out_of_order − 1 µs: no more rows at or before it.",
		planned: []string{"watermark", "max_drift"},
	}, nil, nil,
		key("at", "The row's time.", expression(), func(e *EventTime) *Expr { return &e.Expr }, required),
		key("max_out_of_order", "How far rows may be behind the newest.", duration(0),
			func(e *EventTime) *time.Duration { return &e.MaxOutOfOrder }, required),
		key("idle_after", "A partition with nothing left to read for this long no longer holds back the watermark.", duration(minDuration),
			func(e *EventTime) *time.Duration { return &e.IdleAfter }, def("1m")),
		key("max_ahead", "How far a row may be ahead of the clock.", duration(0),
			func(e *EventTime) *time.Duration { return &e.MaxAhead }, def("1d")),
		key("ahead", "Beyond `max_ahead`: a `bad` record (`on_error` decides), or `clamp` to the limit.",
			enumOf(nil, AheadBad, AheadClamp), func(e *EventTime) *Ahead { return &e.Ahead }, def("bad")))
}

func stepCodec() codec[Step] {
	window := objectOf(objectShape{
		name: "window", doc: "Groups rows by event time; adds window_start and window_end (exclusive).",
		planned: []string{"hop", "cumulate", "session", "count", "offset", "zone", "allow_late", "time"},
		choices: []choice{{"kind", "window", []string{"tumble", "hop", "cumulate", "session", "count"}, true}},
	}, func(w *Window) *Place { return &w.At }, nil,
		key("tumble", "Windows of this length, one after the other.", duration(minDuration), func(w *Window) *time.Duration { return &w.Tumble }))

	return objectOf(objectShape{
		name: "step", doc: "A filter, at most one operator, a projection: from, where, key_by, window, operator, select, in that order.",
		planned: []string{"over", "emit", "unique", "top", "dedup", "unnest", "join", "match", "custom", "sql"},
		choices: []choice{{"operator", "step", operators, false}},
	}, func(s *Step) *Place { return &s.At }, checkStep, commonFields(func(s *Step) *Common { return &s.Common },
		key("from", "An input, or a list: union of equal columns.", inputsOf(), func(s *Step) *[]Input { return &s.From }, required),
		key("where", "Keeps the rows for which it is true.", optional(expression()), func(s *Step) **Expr { return &s.Where }),
		key("key_by", "The key; without it one key, one subtask.", columnsOf(columnRules{named: true}), func(s *Step) *[]Column { return &s.KeyBy }),
		key("window", "Groups rows by event time.", optional(window), func(s *Step) **Window { return &s.Window }),
		key("aggregate", "Expressions over aggregate calls and keys, `{name: expr}`; `{}`: keys only.", optional(namedExprs()),
			func(s *Step) **Aggregate { return &s.Aggregate }),
		key("select", "The columns that go on: `path`, `\"*\"`, `path.*`, `{name: expr}`, `{\"p_*\": path.*}`; all unless given.",
			columnsOf(columnRules{stars: true, named: true}), func(s *Step) *[]Column { return &s.Select }),
		key("ttl", "`none`: the state may grow without bound.", ttlCodec(), func(s *Step) *bool { return &s.KeepForever }),
	)...)
}

func sinkCodec() codec[Sink] {
	kafka := objectOf(objectShape{name: "kafka sink", doc: "Writes to a topic.", choices: []choice{endpointChoice}}, nil, nil,
		endpointFields(func(k *KafkaSink) *KafkaEndpoint { return &k.KafkaEndpoint },
			key("topic", "The topic.", refText("text", nil), func(k *KafkaSink) *Ref { return &k.Topic }, required),
			key("key", "Columns of the record key; with `upsert` those.", columnsOf(columnRules{}), func(k *KafkaSink) *[]Column { return &k.Key }),
			key("transaction_timeout", "The broker's `transaction.max.timeout.ms` unless given. Interval + timeout of the checkpoints must be well below it.",
				duration(minDuration), func(k *KafkaSink) *time.Duration { return &k.TransactionTimeout }))...)
	files := objectOf(objectShape{name: "files sink", doc: "Writes part files; a checkpoint commits them."}, nil, nil,
		key("path", "A directory on storage that all nodes share.", refText("text", nil), func(f *FilesSink) *Ref { return &f.Path }, required))

	return objectOf(objectShape{
		name: "sink", doc: "Where rows go.", planned: []string{"custom"},
		choices: []choice{{"connector", "sink", []string{"kafka", "files", "print", "discard", "custom"}, true}},
	}, func(s *Sink) *Place { return &s.At }, checkSink, commonFields(func(s *Sink) *Common { return &s.Common },
		key("from", "An input, or a list of inputs.", inputsOf(), func(s *Sink) *[]Input { return &s.From }, required),
		key("kafka", "A Kafka topic.", optional(kafka), func(s *Sink) **KafkaSink { return &s.Kafka }),
		key("files", "Files.", optional(files), func(s *Sink) **FilesSink { return &s.Files }),
		key("print", "The worker's standard output.", emptyObject("print"), func(s *Sink) *bool { return &s.Print }),
		key("discard", "Reads every column and drops it.", emptyObject("discard"), func(s *Sink) *bool { return &s.Discard }),
		key("format", "How rows become values.", formatCodec(), func(s *Sink) **Format { return &s.Format }),
		key("key_format", "How record keys are written; as `format` unless given.", formatCodec(), func(s *Sink) **Format { return &s.KeyFormat }),
		key("delivery", "The guarantee; `exactly_once` unless given.", enumOf(nil, ExactlyOnce, AtLeastOnce), func(s *Sink) *Delivery { return &s.Delivery }),
		key("upsert", "Columns that identify a row: the record key; deletes are tombstones. Left out, the sink takes inserts only.",
			columnsOf(columnRules{}), func(s *Sink) *[]Column { return &s.Upsert }),
	)...)
}
