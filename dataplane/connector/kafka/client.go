package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirstream/weir/dataplane/job"
)

// ConnConfig says how to reach a cluster. References to secrets are already resolved.
type ConnConfig struct {
	// Brokers are host:port of at least one broker.
	Brokers []string
	// TLS is nil for plain text.
	TLS *TLS
	// SASL is nil for no authentication.
	SASL *SASL
}

// TLS are the certificates of a connection. CA, Cert and Key are each PEM text or the name of a file.
type TLS struct {
	CA   string // empty: the system's roots
	Cert string // the client's certificate, with Key; empty: none
	Key  string
	// ServerName overrides the name that the server's certificate must carry.
	ServerName string
	// SkipVerify turns off the check of the server's certificate.
	SkipVerify bool
}

// SASL is how a connection authenticates. Mechanism is "plain", "scram-sha-256" or "scram-sha-512".
type SASL struct {
	Mechanism string
	User      string
	Password  string
}

// maxReadBytes bounds one response: well above any sensible max.message.bytes, far below memory.
const maxReadBytes = 256 << 20

// client opens a client with the connection's settings and extra. Mistakes in the settings are fatal;
// nothing is dialled yet.
func (c ConnConfig) client(extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, job.AsFatal(fmt.Errorf("kafka client: %w", err))
	}
	return cl, nil
}

func (c ConnConfig) options() ([]kgo.Opt, error) {
	if len(c.Brokers) == 0 {
		return nil, job.AsFatal(errors.New("kafka connection: no brokers"))
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("weir"),
		kgo.SoftwareNameAndVersion("weir", "v1"),
		kgo.DisableClientMetrics(),
		kgo.DialTimeout(5 * time.Second),
		kgo.BrokerMaxReadBytes(maxReadBytes),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}
	if c.TLS != nil {
		conf, err := c.TLS.config()
		if err != nil {
			return nil, job.AsFatal(fmt.Errorf("kafka connection: tls: %w", err))
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if c.SASL != nil {
		m, err := c.SASL.mechanism()
		if err != nil {
			return nil, job.AsFatal(fmt.Errorf("kafka connection: %w", err))
		}
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

func (t *TLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if t.CA != "" {
		ca, err := pemText(t.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("ca: no certificate in it")
		}
	}
	if t.Cert == "" && t.Key == "" {
		return conf, nil
	}
	cert, err := pemText(t.Cert)
	if err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	key, err := pemText(t.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	conf.Certificates = []tls.Certificate{pair}
	return conf, nil
}

// pemText returns s itself if it is PEM, else the content of the file of that name. Errors do not repeat s, which
// may be a key that lacks its first line.
func pemText(s string) ([]byte, error) {
	if strings.Contains(s, "-----BEGIN ") {
		return []byte(s), nil
	}
	text, err := os.ReadFile(s)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if err != nil {
		return nil, fmt.Errorf("neither PEM text nor a file that can be read: %w", err)
	}
	return text, nil
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch strings.ToLower(s.Mechanism) {
	case "plain":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl: unknown mechanism %q; plain, scram-sha-256 and scram-sha-512 are known", s.Mechanism)
}
