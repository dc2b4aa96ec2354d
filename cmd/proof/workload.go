// Package proof is the double charge: a payments job over two topics whose every output can be computed from
// its input, a reader that watches the output read-committed all the time, and the verdict. The demo shows it
// to people, the end-to-end tests assert it.
package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics of the job.
const (
	Transfers = "transfers"
	Logins    = "logins"
	Passed    = "passed" // every record by id
	Totals    = "totals" // running totals per account, upsert
	Alerts    = "alerts" // sums per account and minute
)

// Window is the length of the windows of Alerts in event time.
const Window = time.Minute

// Workload is a reproducible stream of transfers and logins: record i is the same whenever it is made.
type Workload struct {
	Seed     uint64
	Records  int
	Accounts int
	// Step is the event time between two records, from Start on.
	Step  time.Duration
	Start time.Time
}

// NewWorkload returns the workload of n records: a thousand accounts, event time over ten minutes.
func NewWorkload(seed uint64, n int) Workload {
	return Workload{
		Seed: seed, Records: n, Accounts: min(1000, max(n/50, 1)), Step: 10 * time.Minute / time.Duration(max(n, 1)),
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Event is one record of the input.
type Event struct {
	Topic   string
	ID      int
	Account string
	Cents   int64 // transfers
	At      time.Time
}

// Event returns record i of the workload.
func (w Workload) Event(i int) Event {
	r := rand.New(rand.NewPCG(w.Seed, uint64(i)))
	e := Event{Topic: Transfers, ID: i, Account: "acct-" + strconv.Itoa(w.account(r)), At: w.Start.Add(time.Duration(i) * w.Step)}
	if r.IntN(4) == 0 {
		e.Topic = Logins
		return e
	}
	e.Cents = 1 + r.Int64N(100_000)
	return e
}

// account makes a tenth of the accounts take half of the records.
func (w Workload) account(r *rand.Rand) int {
	if r.IntN(2) == 0 {
		return r.IntN(max(w.Accounts/10, 1))
	}
	return r.IntN(w.Accounts)
}

// Value is the record's JSON.
func (e Event) Value() []byte {
	b := fmt.Appendf(nil, `{"id":%d,"account":%q,`, e.ID, e.Account)
	if e.Topic == Transfers {
		b = fmt.Appendf(b, `"amount":%d.%02d,`, e.Cents/100, e.Cents%100)
	}
	return fmt.Appendf(b, `"at":%d}`, e.At.UnixMilli())
}

// CreateTopics makes the topics of the job.
func CreateTopics(ctx context.Context, brokers []string, partitions int32) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer cl.Close()
	r, err := kadm.NewClient(cl).CreateTopics(ctx, partitions, 1, nil, Transfers, Logins, Passed, Totals, Alerts)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	return r.Error()
}

// Produce writes the workload at about perSecond records a second (0: flat out), telling sent how far it is,
// and then what closes every window: a record an hour later in each partition of Transfers.
func (w Workload) Produce(ctx context.Context, brokers []string, perSecond int, sent func(int)) error {
	_, err := w.ProduceUntil(ctx, brokers, perSecond, sent, nil)
	return err
}

// ProduceUntil is Produce until stop is closed. It returns the workload that was sent.
func (w Workload) ProduceUntil(ctx context.Context, brokers []string, perSecond int, sent func(int), stop <-chan struct{}) (Workload, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return w, err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	pace := newPace(perSecond)
	defer pace.stop()
	for i := 0; i < w.Records; {
		due, err := pace.due(ctx, w.Records)
		if err != nil {
			return w, err
		}
		for ; i < due; i++ {
			e := w.Event(i)
			cl.Produce(ctx, &kgo.Record{Topic: e.Topic, Key: []byte(e.Account), Value: e.Value()}, done)
		}
		if sent != nil {
			sent(i)
		}
		select {
		case <-stop:
			w.Records = i
		default:
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return w, err
	}
	if err := failed.Load(); err != nil {
		return w, fmt.Errorf("produce: %w", *err)
	}
	return w, w.closeWindows(ctx, brokers)
}

// pace says how many records are due by now.
type pace struct {
	perSecond int
	start     time.Time
	tick      *time.Ticker
}

func newPace(perSecond int) *pace {
	return &pace{perSecond: perSecond, start: time.Now(), tick: time.NewTicker(20 * time.Millisecond)}
}

func (p *pace) stop() { p.tick.Stop() }

// due waits a moment and returns how many of all records should be out by then; without a rate, all.
func (p *pace) due(ctx context.Context, all int) (int, error) {
	if p.perSecond <= 0 {
		return all, ctx.Err()
	}
	select {
	case <-p.tick.C:
		return min(all, int(time.Since(p.start).Seconds()*float64(p.perSecond))), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// flushAccount is the account of the records that close the windows; they take no part in the verdict.
const flushAccount = "flush"

func (w Workload) closeWindows(ctx context.Context, brokers []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, Transfers)
	if err != nil {
		return err
	}
	at := w.Start.Add(time.Duration(w.Records)*w.Step + time.Hour)
	for _, p := range topics[Transfers].Partitions.Numbers() {
		e := Event{Topic: Transfers, ID: -1 - int(p), Account: flushAccount, At: at}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: Transfers, Partition: p, Key: []byte(e.Account), Value: e.Value()}).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// SpecOptions are the settings of the job.
type SpecOptions struct {
	Parallelism int
	Interval    time.Duration
	AtLeastOnce bool
	// State is "pebble" or "memory".
	State string
}

// Spec is the job as JSON. Brokers are read from the environment variable KAFKA on the workers.
func Spec(o SpecOptions) json.RawMessage {
	mode, state := "exactly_once", "{pebble: {cache: 64MiB}}"
	if o.AtLeastOnce {
		mode = "at_least_once"
	}
	if o.State == "memory" {
		state = "{memory: {}}"
	}
	return json.RawMessage(fmt.Sprintf(specText, o.Parallelism, o.Interval, mode, state))
}

// specText is YAML, as people write it: it is rendered before it is sent.
const specText = `
name: payments
parallelism: %[1]d
connections: {main: {kafka: {brokers: ["${env:KAFKA}"]}}}
sources:
  transfers:
    kafka: {topic: transfers}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, account: string, amount: "decimal(12,2)", at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 2s, idle_after: 5s}
  logins:
    kafka: {topic: logins}
    format: {json: {timestamps: epoch_ms}}
    schema: {id: bigint, account: string, at: timestamp(3)}
    event_time: {at: at, max_out_of_order: 2s, idle_after: 5s}
steps:
  moves:
    from: transfers
    select: [id, account, {kind: "'transfer'"}, amount, at]
  visits:
    from: logins
    select: [id, account, {kind: "'login'"}, {amount: "cast(0 as decimal(12,2))"}, at]
  activity:
    from: [moves, visits]
    key_by: [account]
    aggregate:
      transfers: count(*) filter (where kind = 'transfer')
      logins: count(*) filter (where kind = 'login')
      total: sum(amount)
    ttl: none
  minutes:
    from: moves
    key_by: [account]
    window: {tumble: 1m}
    aggregate: {total: sum(amount), n: count(*)}
sinks:
  passed: {from: [moves, visits], kafka: {topic: passed, key: [account]}, format: json, delivery: %[3]s}
  totals: {from: activity, upsert: [account], kafka: {topic: totals}, format: json, delivery: %[3]s}
  alerts: {from: minutes, kafka: {topic: alerts, key: [account]}, format: json, delivery: %[3]s}
checkpoint: {interval: %[2]s, timeout: 1m, mode: %[3]s}
state: %[4]s
restart: {backoff: {initial: 250ms, max: 5s, reset_after: 1m}}
`
