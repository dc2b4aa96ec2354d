package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// wallet uses every key that is built.
const wallet = `name: wallet
version: 1
params: {big: 500, topic: transfers, who: "O'Brien"}
connections:
  main:
    kafka:
      brokers: ["${env:KAFKA}", "b:9092"]
      tls: {ca: /etc/ca.pem, cert: "${file:/c.pem}", key: "${file:/k.pem}", server_name: kafka.example, skip_verify: false}
      sasl: {mechanism: scram-sha-256, user: "${env:KAFKA_USER}", password: "${file:/run/secrets/kafka}"}
  other: {kafka: {brokers: ["c:9092"]}}
sources:
  transfers:
    kafka: {connection: main, topic: "${param:topic}", start: earliest, bounded: latest, on_lost: earliest}
    format: {json: {timestamps: epoch_ms}}
    key_format: json
    schema:
      id: bigint
      "user-id": optional<string>
      amount: "decimal(12,2)"
      bid: {optional: {struct: {price: bigint, at: timestamp(3)}}}
      ok: boolean
      day: date
      raw: {optional: bytes}
      at: timestamp
    metadata: {k: key, p: partition, o: offset, t: timestamp, trace: header.trace-id}
    event_time: {at: at, max_out_of_order: 5s, idle_after: 30s, max_ahead: 1h, ahead: clamp}
    on_error: divert
    parallelism: 2
    uid: transfers_v1
  logins:
    kafka: {brokers: ["d:9092"], topic: logins, start: {offsets: {0: 5, 11: 7}}}
    format: json
    schema: {id: bigint, at: timestamp(3)}
  old:
    kafka: {connection: other, topic: old, start: {timestamp: 2026-01-31T13:00:00+01:00}}
    format: json
    schema: {id: bigint}
  events:
    nexmark: {events: 1000, rate: 500/s, pace: true}
  lines:
    files: {path: /data/*.json}
    format: json
    schema: {id: bigint}
steps:
  big: {from: transfers, where: "amount >= ${param:big} and name <> ${param:who}", on_error: skip}
  both: {from: [logins, old], select: ["*", bid.*, a.b, {"x_*": bid.*}, {twice: id * 2}]}
  totals:
    from: big
    key_by: [id, {d: day}]
    aggregate: {total: sum(amount), n: count(*)}
    ttl: none
    select: {n: n, all: total}
  minutes: {from: transfers, key_by: [id], window: {tumble: 1m}, aggregate: {}, uid: minutes_v1, parallelism: 3}
sinks:
  out: {from: totals, kafka: {connection: main, topic: out, transaction_timeout: 14m}, format: json, key_format: json, upsert: [id, d]}
  keyed: {from: minutes, kafka: {brokers: ["e:9092"], topic: k, key: [id]}, format: json, delivery: at_least_once, uid: keyed_v1, on_error: skip}
  files: {from: both, files: {path: /out}, format: json}
  dead: {from: transfers.errors, print: {}}
  rest: {from: [events, lines, logins], discard: {}, parallelism: 3}
parallelism: 4
max_parallelism: 64
checkpoint: {interval: 5s, storage: "s3://weir/wallet", keep: 2, timeout: 1m, min_pause: 500ms, mode: exactly_once}
state: {pebble: {cache: 64MiB}}
restart: {backoff: {initial: 2s, max: 30s, reset_after: 5m}}
`

func mustParse(t *testing.T, text string) *Job {
	t.Helper()
	j, err := ParseJob("job.yaml", []byte(text))
	if err != nil {
		t.Fatalf("ParseJob: %v", err)
	}
	return j
}

func TestParseJobFillsTypes(t *testing.T) {
	j := mustParse(t, wallet)
	tr := j.Source("transfers")
	checks := []struct {
		what      string
		got, want any
	}{
		{"topic with param", tr.Kafka.Topic, Ref("transfers")},
		{"bounded", tr.Kafka.Bounded, true},
		{"uid", tr.UID, "transfers_v1"},
		{"default uid", j.Step("big").UID, "big"},
		{"own parallelism", tr.Parallelism, 2},
		{"job's parallelism", j.Step("big").Parallelism, 4},
		{"number param in expr", j.Step("big").Where.Text, "amount >= 500 and name <> 'O''Brien'"},
		{"offsets", j.Source("logins").Kafka.Start.Offsets, map[int32]int64{0: 5, 11: 7}},
		{"timestamp", j.Source("old").Kafka.Start.Timestamp.Format("15:04 MST"), "12:00 UTC"},
		{"type", tr.Schema[3].Type.String(), "optional<struct<price bigint, at timestamp(3)>>"},
		{"optional text type", tr.Schema[1].Type.String(), "optional<string>"},
		{"header", tr.Metadata[4].Header, "trace-id"},
		{"select of a path", j.Step("both").Select[2].Name, "b"},
		{"select with prefix", j.Step("both").Select[3].Prefix, "x_"},
		{"select map order", j.Step("totals").Select[1].Name, "all"},
		{"empty aggregate", j.Step("minutes").Aggregate != nil, true},
		{"print format", j.Sink("dead").Format.JSON.Timestamps, TimestampsISO},
		{"default delivery", j.Sink("files").Delivery, ExactlyOnce},
		{"cache", j.State.Pebble.Cache, Size(64 << 20)},
		{"brokers of a connection", j.Cluster(tr.Kafka.KafkaEndpoint).Brokers[1], Ref("b:9092")},
		{"own brokers", j.Cluster(j.Source("logins").Kafka.KafkaEndpoint).Brokers[0], Ref("d:9092")},
		{"place", j.PlaceOf("steps.minutes.window.tumble").String(), "job.yaml:53:61: steps.minutes.window.tumble"},
		{"place of what is missing", j.PlaceOf("steps.minutes.where").Line, 53},
		{"place in an expr", j.Step("totals").Aggregate.Columns[0].Expr.Place(4).Column, 28},
	}
	for _, c := range checks {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestDefaultsNeverWeakenAGuarantee(t *testing.T) {
	j := mustParse(t, minimal)
	s, k := j.Source("s"), j.Sink("k")
	checks := []struct {
		what      string
		got, want any
	}{
		{"start", s.Kafka.Start.Kind, StartEarliest},
		{"on_lost", s.Kafka.OnLost, LostFail},
		{"on_error", s.OnError, Fail},
		{"delivery", k.Delivery, ExactlyOnce},
		{"mode", j.Checkpoint.Mode, ExactlyOnce},
		{"interval", formatDuration(j.Checkpoint.Interval), "10s"},
		{"timeout", formatDuration(j.Checkpoint.Timeout), "10m"},
		{"keep", j.Checkpoint.Keep, 3},
		{"state", j.State.Pebble.Cache, Size(256 << 20)},
		{"restart", formatDuration(j.Restart.Backoff.ResetAfter), "10m"},
		{"parallelism", j.Parallelism, 1},
		{"max_parallelism", j.MaxParallelism, 128},
		{"sole connection", s.Kafka.Connection.Text, "main"},
	}
	for _, c := range checks {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	texts := []string{wallet, minimal, strings.Replace(minimal, "name: m", "name: m\nrestart: none\nstate: {memory: {}}", 1),
		strings.Replace(minimal, "name: m", "name: m\nrestart: {fixed: {delay: 0s, attempts: 3}}", 1),
		strings.Replace(minimal, "name: m", "name: m\nrestart: {rate: {failures: 2, per: 1h30m, delay: 1s}}", 1)}
	for i, text := range texts {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			first := mustParse(t, text)
			again, err := ParseJob("job.json", first.JSON())
			if err != nil {
				t.Fatalf("ParseJob of JSON: %v\n%s", err, first.JSON())
			}
			if got, want := string(again.JSON()), string(first.JSON()); got != want {
				t.Fatalf("second rendering differs: got %s, want %s", got, want)
			}
			forget(reflect.ValueOf(first).Elem())
			forget(reflect.ValueOf(again).Elem())
			if !reflect.DeepEqual(first, again) {
				t.Errorf("jobs differ: got %+v, want %+v", again, first)
			}
		})
	}
}

// forget clears everything that says where a value stood.
func forget(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[Place]():
		v.SetZero()
	case v.Type() == reflect.TypeFor[Expr]():
		v.Set(reflect.ValueOf(Expr{Text: v.Field(0).String()}))
	case v.Type() == reflect.TypeFor[Job]():
		j := v.Addr().Interface().(*Job)
		j.File, j.places = "", nil
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forget(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			forget(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			forget(v.Elem())
		}
	}
}

func TestParams(t *testing.T) {
	const spec = `{"name": "p", "params": {"n": null, "txt": "a", "neg": -5},
 "sources": {"s": {"nexmark": {"events": "${param:n}"}}},
 "steps": {"f": {"from": "s", "where": "x = ${param:n} and y = ${param:txt} and z - ${param:neg} > 0"}},
 "sinks": {"o": {"from": "f", "print": {}}}}`
	j, err := ParseJobWith("p.json", []byte(spec), map[string]string{"n": "7", "txt": "8"})
	if err != nil {
		t.Fatalf("ParseJobWith: %v", err)
	}
	if got := j.Source("s").Nexmark.Events; got != 7 {
		t.Errorf("events: got %d, want 7", got)
	}
	if got, want := j.Step("f").Where.Text, "x = 7 and y = '8' and z - (-5) > 0"; got != want {
		t.Errorf("where: got %s, want %s", got, want)
	}
	_, err = ParseJobWith("p.json", []byte(spec), map[string]string{"m": "7"})
	wantProblems(t, err,
		"p.json: params.m: a value is given, but the spec declares no such param; did you mean n?",
		"p.json:1:26: params.n: has no value; give it a default, or a value at render")
}

func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	var ps Problems
	if err != nil && !errors.As(err, &ps) {
		t.Fatalf("error is %T, want Problems", err)
	}
	if got := ps.Strings(); !reflect.DeepEqual(got, want) {
		t.Errorf("problems:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}
