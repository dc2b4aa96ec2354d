package kafka

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/dataplane/format"
	"github.com/weirstream/weir/dataplane/job"
)

// Ensure an at-least-once sink has written everything when a barrier's Wait returns, and lists nothing.
func TestAtLeastOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		cfg := sinkConfig(conn, topic)
		cfg.AtLeastOnce = true
		s := openSink(t, cfg, 1, "out")
		for n := range 5 {
			s.write(n*100, n*100+100)
		}
		if list := s.prepare(1, 0); len(list) != 0 {
			t.Errorf("prepared %+v, want none", list)
		}
		wantVisible(t, conn, topic, 0, 500)
	})
}

// Ensure changes become records and tombstones under the right keys, old rows are left out, and an append
// sink refuses what it cannot express.
func TestUpsert(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	cfg := sinkConfig(conn, "t")
	cfg.Upsert, cfg.AtLeastOnce = true, true
	s := openSink(t, cfg, 1, "out")
	b := numbered(0, 6)
	b.Cols[0].Ints = []int64{1, 1, 1, 2, 1, 3}
	b.Change = []batch.Change{batch.Insert, batch.UpdateBefore, batch.UpdateAfter, batch.Insert, batch.Delete, batch.Insert}
	b.Sel = []int32{0, 1, 2, 3, 4} // not the last row
	must(t, s.Write(t.Context(), b))
	only := numbered(6, 7)
	only.Cols[0].Ints[0], only.Change = 2, []batch.Change{batch.Delete}
	must(t, s.Write(t.Context(), only))
	old := numbered(7, 8)
	old.Change = []batch.Change{batch.UpdateBefore}
	must(t, s.Write(t.Context(), old))
	s.prepare(1, 0)
	var got []string
	for _, r := range readCommitted(t, conn, "t") {
		value := string(r.Value)
		if r.Value == nil {
			value = "gone"
		}
		got = append(got, fmt.Sprintf("%s=%s", r.Key, value))
	}
	if want := []string{"1=0", "1=2", "2=3", "1=gone", "2=gone"}; !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}

	cfg.Upsert = false
	s = openSink(t, cfg, 1, "append")
	if err := s.Write(t.Context(), b); job.ClassOf(err) != job.Fatal {
		t.Errorf("append sink: error %v, want a fatal one", err)
	}
}

// Ensure records go where a Java producer would put them.
func TestPartitioning(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 8)
	cfg := sinkConfig(conn, "t")
	cfg.AtLeastOnce = true
	s := openSink(t, cfg, 1, "out")
	s.write(0, 10)
	s.prepare(1, 0)
	// murmur2 of the keys "0" … "9", as org.apache.kafka.common.utils.Utils computes it.
	want := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for _, r := range readCommitted(t, conn, "t") {
		if p := want.Partition(&kgo.Record{Key: r.Key}, 8); int(r.Partition) != p {
			t.Errorf("key %s is in partition %d, want %d", r.Key, r.Partition, p)
		}
	}
}

// A record that the topic does not take is an error of its row, with size and limit; the rest of the
// batch can still be written.
func TestRecordTooLarge(t *testing.T) {
	onBoth(t, func(t *testing.T, conn ConnConfig, topic string) {
		kafkatest.CreateTopic(t, conn.Brokers, topic+"-small", 1, "max.message.bytes", "10000")
		schema := &batch.Schema{Fields: []batch.Field{{Name: "v", Type: batch.Type{Kind: batch.String}}}}
		b := &batch.Batch{Schema: schema, Rows: 3, Cols: []batch.Column{batch.NewColumn(schema.Fields[0].Type, 3)}}
		b.Cols[0].SetBytes(0, []byte("0"))
		b.Cols[0].SetBytes(1, []byte(strings.Repeat("x", 20_000)))
		b.Cols[0].SetBytes(2, []byte("1"))
		cfg := SinkConfig{Conn: conn, Topic: topic + "-small", Values: newEncoder, ValueColumns: []int{0}, AtLeastOnce: true}
		s := openSink(t, cfg, 1, "out")
		err := s.Write(t.Context(), b)
		var row *batch.RowError
		if !errors.As(err, &row) || row.Row != 1 || !errors.Is(err, errRecordTooLarge) || !containsAll(err, "20128", "10000") {
			t.Fatalf("error %v, want one about row 1 with size and limit", err)
		}
		if job.ClassOf(err) != job.Fatal {
			t.Errorf("the error is %s, want fatal", job.ClassOf(err))
		}
		b.Sel = []int32{0, 2}
		must(t, s.Write(t.Context(), b))
		s.prepare(1, 0)
		if rs := readCommitted(t, conn, topic+"-small"); len(rs) != 2 {
			t.Errorf("%d records, want 2", len(rs))
		}
	})
}

// Ensure nothing of the next transaction is sent before the flush of the one before it is done: otherwise a
// retried record would come after a newer one of its key.
func TestNextWaitsForFlush(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	s := openSink(t, sinkConfig(conn, "t"), 1, "out")
	arrived, release := make(chan string, 100), make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		arrived <- *req.(*kmsg.ProduceRequest).TransactionID
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	s.write(0, 10)
	first := <-arrived
	p := s.Prepare(checkpoint.Barrier{ID: 1})
	s.write(10, 20)
	done := make(chan error, 1)
	go func() {
		_, err := p.Wait(t.Context())
		done <- err
	}()
	select {
	case id := <-arrived:
		t.Errorf("%s was sent while %s was not flushed", id, first)
	case err := <-done:
		t.Errorf("the pre-commit ended before the flush: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	must(t, <-done)
	if id := <-arrived; id == first {
		t.Errorf("%s was used again", id)
	}
}

// Ensure Write blocks while the buffers are full, and comes back when its context or the writer ends.
func TestBackPressure(t *testing.T) {
	c := kafkatest.Fake(t)
	conn := ConnConfig{Brokers: c.ListenAddrs()}
	kafkatest.CreateTopic(t, conn.Brokers, "t", 1)
	cfg := sinkConfig(conn, "t")
	cfg.AtLeastOnce, cfg.BufferBytes = true, 1000
	s := openSink(t, cfg, 1, "out")
	release := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	// More than the client may hold: it keeps all of the room until the fake answers.
	must(t, s.Write(t.Context(), numbered(0, 1000)))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, numbered(0, 100)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Write(context.Background(), numbered(0, 100)) }()
	must(t, s.Close(t.Context()))
	close(release)
	if err := <-ended; !errors.Is(err, errClosed) {
		t.Errorf("error %v, want %v", err, errClosed)
	}
}

// Ensure a connection with TLS and SASL works for every part, and that wrong settings are fatal and clear.
func TestSecuredConnection(t *testing.T) {
	cert, ca := selfSigned(t)
	c := kafkatest.Fake(t, kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
		kfake.Superuser("PLAIN", "admin", "secret"), kfake.Superuser("SCRAM-SHA-256", "scram", "secret"), kfake.Superuser("SCRAM-SHA-512", "scram512", "secret"))
	brokers := c.ListenAddrs()
	for _, login := range []SASL{{"plain", "admin", "secret"}, {"scram-sha-256", "scram", "secret"}, {"scram-sha-512", "scram512", "secret"}} {
		conn := ConnConfig{Brokers: brokers, TLS: &TLS{CA: ca}, SASL: &login}
		adm, err := conn.client()
		must(t, err)
		topic := "t-" + login.Mechanism
		_, err = kadm.NewClient(adm).CreateTopic(t.Context(), 1, 1, nil, topic)
		must(t, err)
		adm.Close()
		s, committer := openSink(t, sinkConfig(conn, topic), 1, "out"), openCommitter(t, conn)
		s.write(0, 10)
		for _, tx := range s.prepare(1, 0) {
			commit(t, committer, tx)
		}
		src := NewSource(SourceConfig{Conn: conn, Topic: topic, Bounded: true})
		l := openTail(t, src, 0, 1, resolve(t, src))
		l.until(func() bool { return false })
		l.wantNumbers("0", 0, 10)
	}
	// kfake drops the connection at a wrong password; a real broker answers so first.
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !bytes.Contains(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, []byte("wrong")) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	for name, conn := range map[string]ConnConfig{
		"password":    {Brokers: brokers, TLS: &TLS{CA: ca}, SASL: &SASL{"plain", "admin", "wrong"}},
		"certificate": {Brokers: brokers, TLS: &TLS{}, SASL: &SASL{"plain", "admin", "secret"}},
		"mechanism":   {Brokers: brokers, TLS: &TLS{CA: ca}, SASL: &SASL{"digest", "admin", "secret"}},
		"ca file":     {Brokers: brokers, TLS: &TLS{CA: "/nowhere/ca.pem"}},
	} {
		err := NewSource(SourceConfig{Conn: conn, Topic: "t"}).Check(t.Context())
		if job.ClassOf(err) != job.Fatal {
			t.Errorf("wrong %s: error %v, want a fatal one", name, err)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("wrong %s: the error shows the password: %v", name, err)
		}
	}
}

// Ensure brokers that do not answer are a retryable error that names them, within the check's time.
func TestCheckUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	must(t, l.Close())
	start := time.Now()
	err = NewSource(SourceConfig{Conn: ConnConfig{Brokers: []string{addr}}, Topic: "t"}).Check(t.Context())
	if err == nil || job.ClassOf(err) != job.Retryable || !containsAll(err, addr) {
		t.Errorf("error %v, want a retryable one that names %s", err, addr)
	}
	if d := time.Since(start); d > checkTimeout+2*time.Second {
		t.Errorf("the check took %s", d)
	}
}

// Ensure missing rights are fatal and name the right and the resource, and are never taken for "nothing open".
func TestMissingRights(t *testing.T) {
	c := kafkatest.Fake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "secret"), kfake.User("PLAIN", "guest", "secret"))
	admin := ConnConfig{Brokers: c.ListenAddrs(), SASL: &SASL{"plain", "admin", "secret"}}
	guest := ConnConfig{Brokers: c.ListenAddrs(), SASL: &SASL{"plain", "guest", "secret"}}
	cl, err := admin.client()
	must(t, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t")
	must(t, err)
	_, err = NewSource(SourceConfig{Conn: guest, Topic: "t"}).Resolve(t.Context())
	if job.ClassOf(err) != job.Fatal || !containsAll(err, "Describe", `topic "t"`) {
		t.Errorf("source: error %v, want a fatal one that names right and topic", err)
	}
	_, err = NewSink(sinkConfig(guest, "t")).Check(t.Context())
	if job.ClassOf(err) != job.Fatal || !containsAll(err, `topic "t"`) {
		t.Errorf("sink: error %v, want a fatal one that names the topic", err)
	}
	open, err := openCommitter(t, guest).Open(t.Context(), "uid")
	if job.ClassOf(err) != job.Fatal || !containsAll(err, "Describe", "transactional ids") {
		t.Errorf("committer: %d open, error %v; want a fatal one that names the right", len(open), err)
	}
}

// selfSigned returns a certificate for 127.0.0.1 and itself as PEM.
func selfSigned(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// fixedEncoder gives every row the same 200 bytes: what is left is the sink's own cost.
type fixedEncoder struct{ value []byte }

func (f fixedEncoder) Encode(dst *format.Encoded, b *batch.Batch, _ []int) error {
	for range b.Len() {
		dst.Buf = append(dst.Buf, f.value...)
		dst.Ends = append(dst.Ends, int32(len(dst.Buf)))
	}
	return nil
}

// BenchmarkSink writes batches of 1000 rows of 200 bytes, a barrier every 100 batches, to an in-process
// broker whose cost is included.
func BenchmarkSink(b *testing.B) {
	for _, mode := range []struct {
		name  string
		plain bool
	}{{"exactly once", false}, {"at least once", true}} {
		b.Run(mode.name, func(b *testing.B) {
			c := kafkatest.Fake(b)
			conn := ConnConfig{Brokers: c.ListenAddrs()}
			kafkatest.CreateTopic(b, conn.Brokers, "t", 1)
			cfg := SinkConfig{Conn: conn, Topic: "t", AtLeastOnce: mode.plain,
				Values: func() format.Encoder { return fixedEncoder{make([]byte, 200)} }}
			s, committer := openSink(b, cfg, 1, "out"), openCommitter(b, conn)
			rows := numbered(0, 1000)
			n := 0
			for b.Loop() {
				must(b, s.Write(b.Context(), rows))
				if n++; n%100 == 0 {
					id := job.CheckpointID(n / 100)
					for _, tx := range s.prepare(id, id-1) {
						if o := commit(b, committer, tx); o != connector.Committed {
							b.Fatal(o)
						}
					}
				}
			}
			s.prepare(job.CheckpointID(n), 0)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/record")
		})
	}
}
