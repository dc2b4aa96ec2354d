package kafka

import (
	"testing"
	"time"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

// A partition with nothing left says so again and again, the one that never had a record too, and says nothing while its
// broker does not answer: an outage is no idleness.
func TestEmptyIsSaidAgain(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 2)
	produce(t, conn.Brokers, "t", 0, 0, 10)
	s := NewSource(SourceConfig{Conn: conn, Topic: "t"})
	l := openTail(t, s, 0, 1, resolve(t, s))
	said := map[string]int{}
	for said["0"] < 4 || said["1"] < 4 {
		select {
		case f := <-l.r.Fetches():
			if l.take(f); f.Lag == 0 {
				said[f.Split.ID]++
			}
		case <-time.After(testTimeout):
			t.Fatalf("said that nothing is left: %v times, want four of each", said)
		}
	}
	l.wantNumbers("0", 0, 10)
	c.Close()
	quiet := time.NewTimer(5 * emptyAgain)
	for {
		select {
		case f := <-l.r.Fetches():
			if quiet.Reset(5 * emptyAgain); f.Err != nil {
				t.Fatal(f.Err)
			}
		case <-quiet.C: // what was on its way has come
			return
		}
	}
}
