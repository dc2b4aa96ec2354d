package kafka

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
)

// No error of a connection, however wrong its settings are, repeats a password or key.
func TestErrorsKeepSecrets(t *testing.T) {
	const canary = "canary-4711"
	key := base64.StdEncoding.EncodeToString([]byte("MII" + canary))
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	secured := kafkatest.Fake(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "weir", "right"), kfake.SeedTopics(1, "t")).ListenAddrs()
	plain := kafkatest.Fake(t, kfake.SeedTopics(1, "t")).ListenAddrs()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, silent.Close())
	sasl := func(mechanism string) *SASL { return &SASL{Mechanism: mechanism, User: "weir", Password: canary} }
	hinted := []string{"a wrong password", "a wrong mechanism", "sasl where there is none"}
	for name, conn := range map[string]ConnConfig{
		"a key without its first line":  {Brokers: plain, TLS: &TLS{Cert: key, Key: key}},
		"an authority that is no PEM":   {Brokers: plain, TLS: &TLS{CA: key}},
		"PEM that is broken":            {Brokers: plain, TLS: &TLS{Cert: "-----BEGIN CERTIFICATE-----\n" + key, Key: "-----BEGIN PRIVATE KEY-----\n" + key}},
		"an authority that is broken":   {Brokers: plain, TLS: &TLS{CA: "-----BEGIN CERTIFICATE-----\n" + key}},
		"a file without PEM":            {Brokers: plain, TLS: &TLS{Cert: file, Key: file}},
		"a wrong password":              {Brokers: secured, SASL: sasl("scram-sha-256")},
		"a wrong mechanism":             {Brokers: secured, SASL: sasl("plain")},
		"an unknown mechanism":          {Brokers: secured, SASL: sasl(canary[:3])},
		"sasl where there is none":      {Brokers: plain, SASL: sasl("scram-sha-512")},
		"a broker that is not there":    {Brokers: []string{silent.Addr().String()}, SASL: sasl("plain")},
		"tls where there is none":       {Brokers: plain, TLS: &TLS{ServerName: "x"}, SASL: sasl("plain")},
		"a broker that is nothing such": {Brokers: []string{"no such host:1"}, SASL: sasl("plain")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the client itself goes on trying for longer
			defer cancel()
			_, source := NewSource(SourceConfig{Conn: conn, Topic: "t"}).Resolve(ctx)
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, sink := NewSink(sinkConfig(conn, "t")).Check(ctx)
			for what, err := range map[string]error{"source": source, "sink": sink} {
				if err == nil {
					t.Errorf("%s: no error: the test tests nothing", what)
					continue
				}
				if slices.Contains(hinted, name) && !strings.Contains(err.Error(), "sasl") {
					t.Errorf("%s: %v does not say where to look", what, err)
				}
				for _, secret := range []string{canary, key} {
					for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
						if strings.Contains(text, secret) {
							t.Errorf("%s: the error repeats a secret: %s", what, text)
						}
					}
				}
			}
		})
	}
}
