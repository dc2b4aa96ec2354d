package config

import (
	"math"
	"time"
)

// maxParallelism bounds the key groups of a job, which are numbered with 15 bits.
const maxParallelism = 1 << 15

// operators are all that a step may hold one of; those that are not built are planned keys of step.
var operators = []string{"aggregate", "top", "dedup", "unnest", "join", "match", "custom", "sql"}

// jobCodec is the table of the top level.
func jobCodec() codec[Job] {
	return objectOf(objectShape{
		name: "job",
		doc:  "A job spec. Map order means nothing; where order matters there is a list.",
	}, nil, nil,
		key("name", "The job's name.", nameText(), func(j *Job) *string { return &j.Name }, required),
		key("version", "Version of the language.", integer(1, 1), func(j *Job) *int { return &j.Version }, def("1")),
		paramsField(),
		key("connections", "Ways to systems, by name. A sole one is the default.",
			namedMap(connectionCodec(), func(c *Connection) *string { return &c.Name }),
			func(j *Job) *[]Connection { return &j.Connections }),
		key("sources", "Where rows come from, by name.",
			namedMap(sourceCodec(), func(s *Source) *string { return &s.Name }),
			func(j *Job) *[]Source { return &j.Sources }, required),
		key("steps", "What happens to them, by name.",
			namedMap(stepCodec(), func(s *Step) *string { return &s.Name }),
			func(j *Job) *[]Step { return &j.Steps }),
		key("sinks", "Where rows go, by name.",
			namedMap(sinkCodec(), func(s *Sink) *string { return &s.Name }),
			func(j *Job) *[]Sink { return &j.Sinks }, required),
		key("parallelism", "Subtasks of each source, step and sink that does not say otherwise.",
			integer(1, maxParallelism), func(j *Job) *int { return &j.Parallelism }, def("1")),
		key("max_parallelism", "Key groups: the bound of parallelism, fixed for the life of the state.",
			integer(1, maxParallelism), func(j *Job) *int { return &j.MaxParallelism }, def("128")),
		key("checkpoint", "How often and how the job is saved.", checkpointCodec(),
			func(j *Job) *Checkpoint { return &j.Checkpoint }, def("{}")),
		key("state", "Where keyed state lives.", stateCodec(), func(j *Job) *State { return &j.State }, def("{pebble: {}}")),
		key("restart", "What happens after a failure.", restartCodec(),
			func(j *Job) *Restart { return &j.Restart }, def("{backoff: {}}")),
	)
}

// paramsField is read ahead of everything else (readParams) and applied while parsing; a Job has none.
func paramsField() field[Job] {
	return field[Job]{
		fieldShape: fieldShape{
			key: "params", doc: "Values given at render, `{name: default}`; null: must be given. Used as `${param:name}`.",
			shape: &shape{form: mapForm, kind: "{name: default}", elem: &shape{form: scalarForm, kind: "value",
				json: map[string]any{"type": []string{"string", "number", "boolean", "null"}}}},
		},
		read:  readNothing,
		write: func(*Job) any { return nil },
	}
}

func checkpointCodec() codec[Checkpoint] {
	return objectOf(objectShape{
		name: "checkpoint", doc: "How often and how the job is saved.", planned: []string{"alignment_timeout"},
	}, nil, nil,
		key("interval", "From the start of one checkpoint to the next.", duration(minDuration),
			func(c *Checkpoint) *time.Duration { return &c.Interval }, def("10s")),
		key("storage", "`s3://bucket/prefix` or `file:///path`; left out, the cluster's.", storageURL(),
			func(c *Checkpoint) *string { return &c.Storage }),
		key("keep", "Checkpoints to keep.", integer(1, 1000), func(c *Checkpoint) *int { return &c.Keep }, def("3")),
		key("timeout", "After this a checkpoint is given up; the job goes on.", duration(minDuration),
			func(c *Checkpoint) *time.Duration { return &c.Timeout }, def("10m")),
		key("min_pause", "From the end of one checkpoint to the start of the next.", duration(0),
			func(c *Checkpoint) *time.Duration { return &c.MinPause }, def("0s")),
		key("mode", "`at_least_once` skips barrier alignment: after a restart rows may count twice.",
			enumOf(nil, ExactlyOnce, AtLeastOnce), func(c *Checkpoint) *Delivery { return &c.Mode }, def("exactly_once")),
	)
}

func stateCodec() codec[State] {
	pebble := objectOf(objectShape{name: "pebble", doc: "State on the node's disk, below a cache."}, nil, nil,
		key("cache", "Memory of the cache, a slot.", size(), func(p *PebbleState) *Size { return &p.Cache }, def("256MiB")))
	memory := objectOf[MemoryState](objectShape{name: "memory", doc: "State in the process's memory."}, nil, nil)
	return objectOf(objectShape{
		name: "state", doc: "Where keyed state lives.",
		choices: []choice{{"backend", "state", []string{"pebble", "memory"}, true}},
	}, nil, nil,
		key("pebble", "On disk, below a cache.", optional(pebble), func(s *State) **PebbleState { return &s.Pebble }),
		key("memory", "In memory.", optional(memory), func(s *State) **MemoryState { return &s.Memory }),
	)
}

func restartCodec() codec[Restart] {
	backoff := objectOf(objectShape{name: "backoff", doc: "Waits twice as long after each failure."}, nil, checkBackoff,
		key("initial", "First wait.", duration(minDuration), func(b *Backoff) *time.Duration { return &b.Initial }, def("1s")),
		key("max", "Longest wait.", duration(minDuration), func(b *Backoff) *time.Duration { return &b.Max }, def("1m")),
		key("reset_after", "A run of this length forgets earlier failures.", duration(minDuration),
			func(b *Backoff) *time.Duration { return &b.ResetAfter }, def("10m")))
	fixed := objectOf(objectShape{name: "fixed", doc: "Waits equally long, and gives up after some failures."}, nil, nil,
		key("delay", "The wait.", duration(0), func(f *FixedDelay) *time.Duration { return &f.Delay }, required),
		key("attempts", "Restarts allowed.", integer(1, math.MaxInt32), func(f *FixedDelay) *int { return &f.Attempts }, required))
	rated := objectOf(objectShape{name: "failure rate", doc: "Gives up when failures come too often."}, nil, nil,
		key("failures", "Failures allowed within `per`.", integer(1, math.MaxInt32), func(r *FailureRate) *int { return &r.Failures }, required),
		key("per", "The time in which they are counted.", duration(minDuration), func(r *FailureRate) *time.Duration { return &r.Per }, required),
		key("delay", "The wait.", duration(0), func(r *FailureRate) *time.Duration { return &r.Delay }, required))
	c := objectOf(objectShape{
		name: "restart", doc: "What happens after a failure.",
		choices: []choice{{"strategy", "restart", []string{"backoff", "fixed", "rate"}, true}},
	}, nil, nil,
		key("backoff", "Exponential back-off.", optional(backoff), func(r *Restart) **Backoff { return &r.Backoff }),
		key("fixed", "Fixed delay.", optional(fixed), func(r *Restart) **FixedDelay { return &r.Fixed }),
		key("rate", "Failure rate.", optional(rated), func(r *Restart) **FailureRate { return &r.Rate }),
	)
	return orWord(c, nil, word[Restart]{"none", func(r *Restart) { r.None = true }, func(r *Restart) bool { return r.None }})
}

func checkBackoff(d *decoder, b *Backoff, _ map[string]pair, at Place) {
	if b.Initial > b.Max && b.Max > 0 {
		d.failf(at, "raise max or lower initial", "initial %s is above max %s", formatDuration(b.Initial), formatDuration(b.Max))
	}
}

func connectionCodec() codec[Connection] {
	tls := objectOf(objectShape{name: "tls", doc: "Certificates; `{}` checks the server by the system's authorities."}, nil, checkTLS,
		key("ca", "Authorities that may sign the server's certificate: a PEM file on the node, or a reference to PEM text.",
			refText("file", nil), func(t *TLS) *Ref { return &t.CA }),
		key("cert", "The client's certificate, likewise.", refText("file", nil), func(t *TLS) *Ref { return &t.Cert }),
		key("key", "The client's key, likewise.", refText("file", checkKeyFile), func(t *TLS) *Ref { return &t.Key }),
		key("server_name", "Name that the server's certificate must carry, if not the broker's.", refText("text", nil),
			func(t *TLS) *Ref { return &t.ServerName }),
		key("skip_verify", "Accepts any certificate: no protection against an impostor.", boolean(),
			func(t *TLS) *bool { return &t.SkipVerify }, def("false")))
	sasl := objectOf(objectShape{name: "sasl", doc: "How the connection authenticates."}, nil, nil,
		key("mechanism", "The mechanism.", enumOf(nil, Plain, ScramSHA256, ScramSHA512),
			func(s *SASL) *Mechanism { return &s.Mechanism }, required),
		key("user", "The user.", refText("text", nil), func(s *SASL) *Ref { return &s.User }, required),
		key("password", "The password: a reference, never plain text.", secretText(),
			func(s *SASL) *Secret { return &s.Password }, required))
	kafka := objectOf(objectShape{name: "kafka connection", doc: "A Kafka cluster."}, nil, nil,
		key("brokers", "Bootstrap brokers, `host:port`.", listOf(broker()), func(k *KafkaConnection) *[]Ref { return &k.Brokers }, required),
		key("tls", "Encryption.", optional(tls), func(k *KafkaConnection) **TLS { return &k.TLS }),
		key("sasl", "Authentication.", optional(sasl), func(k *KafkaConnection) **SASL { return &k.SASL }))
	return objectOf(objectShape{
		name: "connection", doc: "A way to a system.",
		choices: []choice{{"system", "connection", []string{"kafka"}, true}},
	}, func(c *Connection) *Place { return &c.At }, nil,
		key("kafka", "A Kafka cluster.", optional(kafka), func(c *Connection) **KafkaConnection { return &c.Kafka }),
	)
}

func checkTLS(d *decoder, t *TLS, written map[string]pair, at Place) {
	_, cert := written["cert"]
	if _, key := written["key"]; cert != key {
		d.failf(at, "give both or none", "cert and key belong together")
	}
}

// commonFields are the keys that sources, steps and sinks share.
func commonFields[T any](common func(*T) *Common, fields ...field[T]) []field[T] {
	return append(fields,
		key("uid", "Names the state across changes of the spec; the name unless given.", nameText(),
			func(t *T) *string { return &common(t).UID }),
		key("parallelism", "Subtasks; the job's unless given.", integer(1, maxParallelism),
			func(t *T) *int { return &common(t).Parallelism }),
		key("on_error", "What happens to a bad record, event time, expression or encoding: `fail` ends the attempt, `skip` drops and counts, "+
			"`divert` sends it to the output `errors`, which must be read.",
			enumOf(nil, Fail, Skip, Divert), func(t *T) *OnError { return &common(t).OnError }, def("fail")),
	)
}
