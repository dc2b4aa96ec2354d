package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned returns a certificate and its key as PEM.
func selfSigned(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func TestTLSConfig(t *testing.T) {
	cert, key := selfSigned(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("WEIRTEST_KEY", string(key))
	t.Setenv("WEIRTEST_KEYFILE", keyFile)
	t.Setenv("WEIRTEST_BAD", canary)
	for _, keyRef := range []Ref{Ref(keyFile), "${env:WEIRTEST_KEY}", "${env:WEIRTEST_KEYFILE}", Ref("${file:" + keyFile + "}")} {
		c, err := (&TLS{CA: Ref(certFile), Cert: Ref(certFile), Key: keyRef, ServerName: "kafka"}).Config()
		if err != nil {
			t.Errorf("%s: %v", string(keyRef), err)
		} else if len(c.Certificates) != 1 || c.RootCAs == nil || c.ServerName != "kafka" || c.InsecureSkipVerify {
			t.Errorf("%s: got %+v", string(keyRef), c)
		}
	}
	for _, bad := range []TLS{
		{CA: "/nowhere"}, {CA: Ref(keyFile)}, {Cert: Ref(certFile), Key: "${env:WEIRTEST_BAD}"}, {Cert: Ref(certFile), Key: Ref(certFile)}, {ServerName: "${env:WEIRTEST_NONE}"},
	} {
		_, err := bad.Config()
		if err == nil || !strings.HasPrefix(err.Error(), "tls ") || strings.Contains(err.Error(), canary) {
			t.Errorf("%+v: got error %v, want one that names the key and no value", bad, err)
		}
	}
}
