package kafka

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/transaction"
)

// initRequests sees every InitProducerID that reaches a cluster.
type initRequests struct {
	mu   sync.Mutex
	byID map[string]int
	ids  []string // in order
}

// watchInit puts answer, unless nil, in the place of the nth answer to an InitProducerID, from 0.
func watchInit(c *kfake.Cluster, nth int, answer func(*kmsg.InitProducerIDRequest) kmsg.Response) *initRequests {
	seen := &initRequests{byID: map[string]int{}}
	c.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.InitProducerIDRequest)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		n := len(seen.ids)
		seen.ids = append(seen.ids, *req.TransactionalID)
		seen.byID[*req.TransactionalID]++
		if n != nth || answer == nil {
			return nil, nil, false
		}
		return answer(req), nil, true
	})
	return seen
}

// request returns the id of the nth request and how many there were for it.
func (s *initRequests) request(t *testing.T, nth int) (id string, requests int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) <= nth {
		t.Fatalf("%d requests for a producer id, want more than %d", len(s.ids), nth)
	}
	return s.ids[nth], s.byID[s.ids[nth]]
}

// initCutter is a listener of which one connection loses an answer: that to the nth InitProducerID.
type initCutter struct {
	net.Listener
	nth   int64
	reset bool // the connection is reset, else closed
	seen  *atomic.Int64
}

func (l initCutter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &initCutConn{Conn: conn, l: l}, err
}

type initCutConn struct {
	net.Conn
	l  initCutter
	in []byte // of the request that is being read
	// cut is set when the disturbed request was read: its answer is written next, since its client waits for it.
	cut atomic.Bool
}

// Read looks into the requests that pass: each is its length, then what it asks for.
func (c *initCutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in = append(c.in, b[:n]...)
	for len(c.in) >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(c.in))
		if len(c.in) < size {
			break
		}
		if binary.BigEndian.Uint16(c.in[4:]) == uint16(kmsg.InitProducerID) && c.l.seen.Add(1)-1 == c.l.nth {
			c.cut.Store(true)
		}
		c.in = c.in[size:]
	}
	return n, err
}

func (c *initCutConn) Write(b []byte) (int, error) {
	if !c.cut.Load() {
		return c.Conn.Write(b)
	}
	if c.l.reset {
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
	}
	return 0, errors.Join(errors.New("cut"), c.Close())
}

// A request for a producer id whose connection breaks before the answer may be carried out at any time, and would
// then abort whatever is open under its transactional id, prepared transactions included. So it is sent once, and
// its slot is not used again.
func TestUnansweredInitAbandonsItsSlot(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nth   int
		reset bool
	}{
		{"the first transaction's, connection closed", 0, false},
		{"the first transaction's, connection reset", 0, true},
		{"one made ready, connection closed", 1, false},
		{"one made ready, connection reset", 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var count atomic.Int64
			c := kafkatest.Fake(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
				l, err := net.Listen(network, address)
				return initCutter{l, int64(tc.nth), tc.reset, &count}, err
			}))
			conn := ConnConfig{Brokers: c.ListenAddrs()}
			kafkatest.CreateTopic(t, conn.Brokers, "t", 2)
			seen := watchInit(c, -1, nil)
			s, committer := openSink(t, sinkConfig(conn, "t"), 1, "out"), openCommitter(t, conn)
			sent := 1 // the disturbed one, and those of this test
			for n := range 5 {
				s.write(n*10, n*10+10)
				id := job.CheckpointID(n + 1)
				list := s.prepare(id, id-1)
				if n >= tc.nth {
					late, requests := seen.request(t, tc.nth)
					if requests != sent {
						t.Fatalf("%d requests for a producer id of %s, want %d", requests, late, sent)
					}
					initProducerID(t, conn, late)
					sent++
				}
				if len(list) != 1 {
					t.Fatalf("checkpoint %d lists %d transactions, want 1", id, len(list))
				}
				if o := commit(t, committer, list[0]); o != connector.Committed {
					t.Errorf("checkpoint %d: outcome %s of %s, want committed", id, o, list[0].ID)
				}
			}
			wantVisible(t, conn, "t", 0, 50)
			wantStable(t, conn, "t")
		})
	}
}

// initProducerID carries out a request as the broker does that comes to it late. The watch on requests sees it too.
func initProducerID(t *testing.T, conn ConnConfig, id string) {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(id), 60_000
	resp, err := req.RequestWith(t.Context(), kafkatest.Client(t, conn.Brokers, kgo.RequestRetries(0)))
	must(t, err)
	must(t, kerr.ErrorForCode(resp.ErrorCode))
}

// An answer that asks for patience leaves nothing behind: the same slot is asked for again.
func TestAnsweredInitKeepsItsSlot(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions} {
		t.Run(code.Message, func(t *testing.T) {
			c := kafkatest.Fake(t)
			conn := ConnConfig{Brokers: c.ListenAddrs()}
			kafkatest.CreateTopic(t, conn.Brokers, "t", 2)
			seen := watchInit(c, 0, func(req *kmsg.InitProducerIDRequest) kmsg.Response {
				resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
				resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code.Code, -1, -1
				return resp
			})
			s := openSink(t, sinkConfig(conn, "t"), 1, "out")
			s.write(0, 10)
			list := s.prepare(1, 0)
			if id, requests := seen.request(t, 0); requests != 2 || list[0].ID != id {
				t.Errorf("%d requests for %s, transaction %s; want two and that", requests, id, list[0].ID)
			}
			if id, err := transaction.Parse(list[0].ID); err != nil || id.Slot != 0 {
				t.Errorf("transaction %s is in slot %d (%v), want 0", list[0].ID, id.Slot, err)
			}
		})
	}
}
