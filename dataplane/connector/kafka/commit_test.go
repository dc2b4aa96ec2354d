package kafka

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/job"
)

// cutter is a listener whose connections lose one answer: armed, the next write closes the connection.
type cutter struct {
	net.Listener
	armed *atomic.Bool
}

func (c cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return cutConn{conn, c.armed}, err
}

type cutConn struct {
	net.Conn
	armed *atomic.Bool
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.armed.CompareAndSwap(true, false) {
		return 0, errors.Join(errors.New("cut"), c.Close())
	}
	return c.Conn.Write(b)
}

// EndTxn was carried out and its answer lost: asked again, the broker says so, and nothing is doubled.
func TestEndTxnAnswerLost(t *testing.T) {
	var armed atomic.Bool
	c := kafkatest.Fake(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return cutter{l, &armed}, err
	}))
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 2)
	s, committer := openSink(t, sinkConfig(conn, "t"), 1, "out"), openCommitter(t, conn)
	s.write(0, 100)
	list := s.prepare(1, 0)
	s.crash()
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		armed.Store(asked.Add(1) == 1)
		return nil, nil, false
	})
	if o := commit(t, committer, list[0]); o != connector.Committed {
		t.Errorf("outcome %s, want committed", o)
	}
	if n := asked.Load(); n < 2 {
		t.Errorf("EndTxn was sent %d times: its answer was not lost", n)
	}
	wantVisible(t, conn, "t", 0, 100)
}

// testProtocol1 runs a sink on a cluster whose transaction.version is 1.
func testProtocol1(t *testing.T, brokers []string) {
	conn := ConnConfig{Brokers: brokers}
	kafkatest.CreateTopic(t, brokers, "old", 2)
	s, c := openSink(t, sinkConfig(conn, "old"), 1, "out"), openCommitter(t, conn)
	for n := range 3 {
		s.write(n*100, n*100+100)
		id := job.CheckpointID(n + 1)
		for _, tx := range s.prepare(id, id-1) {
			if tx.Protocol != 1 {
				t.Errorf("protocol %d, want 1", tx.Protocol)
			}
			for range 2 {
				if o := commit(t, c, tx); o != connector.Committed {
					t.Errorf("outcome %s, want committed", o)
				}
			}
		}
	}
	s.write(300, 310)
	flushCurrent(t, s)
	s.crash()
	open, err := c.Open(t.Context(), uidOf(t))
	must(t, err)
	if len(open) != 1 {
		t.Errorf("%d open transactions, want 1", len(open))
	}
	for _, o := range open {
		must(t, c.AbortOpen(t.Context(), o))
	}
	wantVisible(t, conn, "old", 0, 300)
	wantStable(t, conn, "old")
}

// Ensure clusters with the older protocol work: EndTxn does not raise the epoch there.
func TestProtocol1(t *testing.T) {
	t.Run("kfake", func(t *testing.T) {
		testProtocol1(t, kafkatest.Fake(t, kfake.MaxVersions(kversion.V3_6_0())).ListenAddrs())
	})
	t.Run("kafka", func(t *testing.T) {
		testProtocol1(t, []string{kafkatest.StartT(t, kafkatest.Options{Features: []string{"transaction.version=1"}}).Addr()})
	})
}
