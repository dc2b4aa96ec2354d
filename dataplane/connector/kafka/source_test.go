package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/job"
)

// Ensure every start mode becomes a concrete offset for every partition, empty ones too.
func TestResolve(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 3)
	produce(t, conn.Brokers, "t", 0, 0, 10)
	produce(t, conn.Brokers, "t", 1, 0, 20)
	for name, tc := range map[string]struct {
		start   Start
		bounded bool
		want    string
	}{
		"default":   {Start{}, false, "0:0--1 1:0--1 2:0--1"},
		"latest":    {Start{Kind: StartLatest}, false, "0:10--1 1:20--1 2:0--1"},
		"bounded":   {Start{Kind: StartEarliest}, true, "0:0-10 1:0-20 2:0-0"},
		"future":    {Start{Kind: StartTimestamp, Timestamp: time.Now().Add(time.Hour)}, false, "0:10--1 1:20--1 2:0--1"},
		"past":      {Start{Kind: StartTimestamp, Timestamp: time.Now().Add(-time.Hour)}, false, "0:0--1 1:0--1 2:0--1"},
		"by number": {Start{Kind: StartOffsets, Offsets: map[int32]int64{1: 7}}, true, "0:0-10 1:7-20 2:0-0"},
	} {
		splits := resolve(t, NewSource(SourceConfig{Conn: conn, Topic: "t", Start: tc.start, Bounded: tc.bounded}))
		var got []string
		for _, s := range splits {
			got = append(got, fmt.Sprintf("%s:%d-%d", s.ID, s.Position, s.End))
			if !bytes.Contains(s.Data, []byte("topic_id")) {
				t.Errorf("%s: split %s remembers no topic id: %s", name, s.ID, s.Data)
			}
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
	for _, bad := range []map[int32]int64{{0: 11}, {9: 0}} {
		_, err := NewSource(SourceConfig{Conn: conn, Topic: "t", Start: Start{Kind: StartOffsets, Offsets: bad}}).Resolve(t.Context())
		if job.ClassOf(err) != job.Fatal {
			t.Errorf("offsets %v: error %v, want a fatal one", bad, err)
		}
	}
	_, err := NewSource(SourceConfig{Conn: conn, Topic: "nowhere"}).Resolve(t.Context())
	if job.ClassOf(err) != job.Fatal || !strings.Contains(fmt.Sprint(err), "nowhere") {
		t.Errorf("missing topic: error %v, want a fatal one that names it", err)
	}
}

// Ensure a bounded source ends at what was there at Resolve, by position: the last offsets are control
// records and an aborted transaction's.
func TestReadBounded(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 3)
	produce(t, conn.Brokers, "t", 0, 0, 3000)
	produceMixed(t, conn.Brokers, "t")
	tx := kafkatest.Client(t, conn.Brokers, kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, tx.BeginTransaction())
	must(t, tx.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: 1, Value: []byte("never")}).FirstErr())
	must(t, tx.EndTransaction(t.Context(), kgo.TryAbort))

	s := NewSource(SourceConfig{Conn: conn, Topic: "t", Bounded: true, PartitionBytes: 4096, Discover: 10 * time.Millisecond})
	splits := resolve(t, s)
	produce(t, conn.Brokers, "t", 0, 0, 10) // too late
	l := openTail(t, s, 0, 1, splits)
	l.until(func() bool { return false })
	must(t, l.lastErr)
	for _, split := range splits {
		if split.End == 0 {
			continue // nothing to read: no news of it
		}
		if got := l.splits[split.ID]; !got.Done() || got.Position != split.End || l.lag[split.ID] != 0 {
			t.Errorf("split %s ended at %d with lag %d, want %d", split.ID, got.Position, l.lag[split.ID], split.End)
		}
	}
	if n := len(l.values["1"]); n != 0 {
		t.Errorf("%d records of an aborted transaction", n)
	}
	// 3000 plain ones, 50 in each of 6 rounds, and transactions of 25 and 26 records in 2 rounds each.
	if n := len(l.values["0"]); n != 3000+6*50+2*25+2*26 {
		t.Errorf("%d records, want %d", n, 3000+6*50+2*25+2*26)
	}
}

// Ensure subtasks share the partitions, resume exactly at a saved position, and follow what is written.
func TestReadResumesAndFollows(t *testing.T) {
	c := kafkatest.Fake(t, kfake.NumBrokers(3))
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 4)
	for p := range int32(4) {
		produce(t, conn.Brokers, "t", p, 0, 100)
	}
	s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
	splits := resolve(t, s)
	for index := range 2 {
		var mine []connector.Split
		for _, split := range splits {
			if s.Owner(split.ID, 2) == index {
				split.Position = 40
				mine = append(mine, split)
			}
		}
		l := openTail(t, s, index, 2, mine)
		ids := []string{fmt.Sprint(index), fmt.Sprint(index + 2)}
		l.until(func() bool { return len(l.values[ids[0]]) >= 60 && len(l.values[ids[1]]) >= 60 })
		produce(t, conn.Brokers, "t", int32(index), 100, 5)
		l.until(func() bool { return len(l.values[ids[0]]) >= 65 })
		l.wantNumbers(ids[0], 40, 105)
		l.wantNumbers(ids[1], 40, 100)
		if len(l.values) != 2 {
			t.Errorf("subtask %d read %d splits, want 2", index, len(l.values))
		}
	}
}

// Ensure reading goes on while leaders move, without loss or repetition.
func TestReadSurvivesMovingLeaders(t *testing.T) {
	c := kafkatest.Fake(t, kfake.NumBrokers(3))
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 2)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
	l := openTail(t, s, 0, 1, resolve(t, s))
	for round := range 6 {
		produce(t, conn.Brokers, "t", 0, round*50, 50)
		produce(t, conn.Brokers, "t", 1, round*50, 50)
		must(t, c.MoveTopicPartition("t", int32(round%2), int32(round%3)))
		l.until(func() bool { return len(l.values["0"]) >= (round+1)*50 && len(l.values["1"]) >= (round+1)*50 })
	}
	must(t, l.lastErr)
	l.wantNumbers("0", 0, 300)
	l.wantNumbers("1", 0, 300)
}

// A partition that is added is read from its first record although the source started at latest,
// and is announced first.
func TestPartitionAdded(t *testing.T) {
	t.Run("while the job runs", func(t *testing.T) { testPartitionAdded(t, false) })
	t.Run("while it is down", func(t *testing.T) { testPartitionAdded(t, true) })
	if NewSource(SourceConfig{}).cfg.Discover <= 0 {
		t.Error("new partitions are not looked for unless that is asked for")
	}
}

func testPartitionAdded(t *testing.T, down bool) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 2)
	produce(t, conn.Brokers, "t", 0, 0, 10)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t", Start: Start{Kind: StartLatest}, Discover: 20 * time.Millisecond})
	splits := resolve(t, s)
	var l *tail
	if !down {
		l = openTail(t, s, 0, 1, splits)
	}
	_, err := kadm.NewClient(kafkatest.Client(t, conn.Brokers)).UpdatePartitions(t.Context(), 3, "t")
	must(t, err)
	produce(t, conn.Brokers, "t", 2, 0, 100)
	if down {
		l = openTail(t, s, 0, 1, splits)
	}
	announced := false
	l.until(func() bool {
		if split, ok := l.splits["2"]; ok && !announced {
			announced = true
			if split.Position != 0 || len(l.values["2"]) != 0 {
				t.Errorf("first news of split 2 is at %d with %d records, want an empty fetch at 0", split.Position, len(l.values["2"]))
			}
		}
		return len(l.values["2"]) >= 100
	})
	l.wantNumbers("2", 0, 100)
	if n := len(l.values["0"]); n != 0 {
		t.Errorf("%d records from before the start", n)
	}
}

// A restored offset is kept, and used, when the metadata lacks its partition for a while.
func TestPartitionMissingFromMetadata(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	produce(t, conn.Brokers, "t", 0, 0, 100)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
	splits := resolve(t, s)
	splits = append(splits, newSplit(1, 60, mustTopicID(t, splits[0])))
	l := openTail(t, s, 0, 1, splits)
	l.until(func() bool { return len(l.values["0"]) >= 100 })
	_, err := kadm.NewClient(kafkatest.Client(t, conn.Brokers)).UpdatePartitions(t.Context(), 2, "t")
	must(t, err)
	produce(t, conn.Brokers, "t", 1, 0, 100)
	l.until(func() bool { return l.lastErr != nil || len(l.values["1"]) >= 40 })
	must(t, l.lastErr)
	l.wantNumbers("1", 60, 100)
}

func mustTopicID(t testing.TB, s connector.Split) topicID {
	t.Helper()
	cl, err := (ConnConfig{Brokers: []string{"127.0.0.1:1"}}).client()
	must(t, err)
	r := newReader(NewSource(SourceConfig{Topic: "t"}), cl, 0, 1)
	t.Cleanup(func() { _ = r.Close() })
	must(t, r.add(s))
	for _, p := range r.parts {
		return p.topic
	}
	return topicID{}
}

// A position behind the end of a partition, as after a topic's recreation that shows no id or a log cut short, stops
// the source with all the numbers; it is neither waited for nor reset.
func TestOffsetBehindTheEnd(t *testing.T) {
	for _, written := range []int{0, 10} {
		c := kafkatest.Fake(t)
		conn := ConnConfig{Brokers: c.ListenAddrs()}
		kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
		if written > 0 {
			produce(t, conn.Brokers, "t", 0, 0, written)
		}
		s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
		splits := resolve(t, s)
		splits[0].Position = 99_999
		l := openTail(t, s, 0, 1, splits)
		l.until(func() bool { return l.lastErr != nil })
		if job.ClassOf(l.lastErr) != job.Fatal || !containsAll(l.lastErr, `topic "t"`, "partition 0", "offset 99999", fmt.Sprintf("[0, %d)", written)) {
			t.Errorf("error %v, want a fatal one with topic, partition, offset and range", l.lastErr)
		}
		if n := len(l.values["0"]); n > 0 {
			t.Errorf("%d records were read", n)
		}
	}
}

// Records that retention deleted before they were read stop the source with all the numbers in the
// message, or, if the user allows it, are skipped and counted.
func TestOffsetOutOfRange(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	produce(t, conn.Brokers, "t", 0, 0, 600)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
	splits := resolve(t, s)
	splits[0].Position = 100
	deleteBefore(t, conn.Brokers, "t", 500)

	l := openTail(t, s, 0, 1, splits)
	l.until(func() bool { return l.lastErr != nil })
	if job.ClassOf(l.lastErr) != job.Fatal || !containsAll(l.lastErr, `topic "t"`, "partition 0", "offset 100", "[500, 600)") {
		t.Errorf("error %v, want a fatal one with topic, partition, offset and range", l.lastErr)
	}

	s = NewSource(SourceConfig{Conn: conn, Topic: "t", ResetLost: true})
	l = openTail(t, s, 0, 1, splits)
	l.until(func() bool { return l.lastErr != nil || len(l.values["0"]) >= 100 })
	must(t, l.lastErr)
	l.wantNumbers("0", 500, 600)
	if l.gap != 400 {
		t.Errorf("gap %d, want 400", l.gap)
	}
}

func deleteBefore(t testing.TB, brokers []string, topic string, offset int64) {
	t.Helper()
	offsets := make(kadm.Offsets)
	offsets.AddOffset(topic, 0, offset, -1)
	resp, err := kadm.NewClient(kafkatest.Client(t, brokers)).DeleteRecords(t.Context(), offsets)
	must(t, err)
	must(t, resp.Error())
}

func containsAll(err error, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(fmt.Sprint(err), p) {
			return false
		}
	}
	return true
}

// A topic that was deleted and created anew is not the same topic, even where the offset exists.
func TestTopicRecreated(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	produce(t, conn.Brokers, "t", 0, 0, 10)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t", ResetLost: true})
	splits := resolve(t, s)
	_, err := kadm.NewClient(kafkatest.Client(t, conn.Brokers)).DeleteTopic(t.Context(), "t")
	must(t, err)
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	produce(t, conn.Brokers, "t", 0, 0, 20)
	splits[0].Position = 10
	l := openTail(t, s, 0, 1, splits)
	l.until(func() bool { return l.lastErr != nil })
	if !errors.Is(l.lastErr, errRecreated) || job.ClassOf(l.lastErr) != job.Fatal {
		t.Errorf("error %v, want a fatal %v", l.lastErr, errRecreated)
	}
	if len(l.values["0"]) != 0 {
		t.Errorf("%d records of the new topic were read at an offset of the old one", len(l.values["0"]))
	}
}

// A record far larger than the fetch limits is read, also behind others.
func TestHugeRecord(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 2, "max.message.bytes", fmt.Sprint(64<<20))
	produce(t, conn.Brokers, "t", 0, 0, 10)
	cl := kafkatest.Client(t, conn.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(64<<20), kgo.BrokerMaxWriteBytes(100<<20))
	huge := bytes.Repeat([]byte("h"), 40<<20)
	must(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: huge}).FirstErr())
	produce(t, conn.Brokers, "t", 0, 11, 10)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
	l := openTail(t, s, 0, 1, resolve(t, s))
	l.until(func() bool { return l.lastErr != nil || len(l.values["0"]) >= 21 })
	must(t, l.lastErr)
	if got := len(l.values["0"][10]); got != len(huge) {
		t.Errorf("record of %d bytes, want %d", got, len(huge))
	}
	if l.lag["0"] != 0 {
		t.Errorf("lag %d, want 0", l.lag["0"])
	}
}

// Ensure the group's offsets follow what was committed, for monitoring.
func TestGroupOffsets(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	produce(t, conn.Brokers, "t", 0, 0, 10)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t", Group: "weir-job"})
	committed := make(chan int64, 1)
	c.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		committed <- req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Offset
		return nil, nil, false
	})
	l := openTail(t, s, 0, 1, resolve(t, s))
	l.until(func() bool { return len(l.values["0"]) >= 10 })
	l.r.Committed([]connector.Split{l.splits["0"]})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	select {
	case got := <-committed:
		if got != 10 {
			t.Errorf("committed offset %d, want 10", got)
		}
	case <-ctx.Done():
		t.Error("no offset was committed")
	}
}

// Ensure a bounded subtask without splits ends, and an unbounded one waits and can be closed.
func TestNoSplits(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	l := openTail(t, NewSource(SourceConfig{Conn: conn, Topic: "t", Bounded: true}), 1, 2, nil)
	l.until(func() bool { return false })
	l = openTail(t, NewSource(SourceConfig{Conn: conn, Topic: "t"}), 1, 2, nil)
	must(t, l.r.Close())
	l.until(func() bool { return false })
}

// Ensure Close does not wait for a subtask that takes nothing.
func TestCloseWhileBlocked(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	for i := range 20 {
		produce(t, conn.Brokers, "t", 0, i, 1) // a batch, and so a fetch, each
	}
	s := NewSource(SourceConfig{Conn: conn, Topic: "t", PartitionBytes: 1})
	l := openTail(t, s, 0, 1, resolve(t, s))
	l.until(func() bool { return len(l.values["0"]) > 0 })
	must(t, l.r.Close())
}
