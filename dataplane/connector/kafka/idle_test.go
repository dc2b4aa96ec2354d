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
	l.until(func() bool { return l.empty["0"] >= 4 && l.empty["1"] >= 4 })
	l.wantNumbers("0", 0, 10)
	c.Close()
	for range fetchesWaiting + 2 { // what was on its way
		select {
		case f, ok := <-l.r.Fetches():
			if !ok || f.Err != nil {
				t.Fatalf("the reader ended: %v", f.Err)
			}
		case <-time.After(5 * emptyAgain):
			return
		}
	}
	t.Error("a partition is said to be empty while no broker answers")
}
