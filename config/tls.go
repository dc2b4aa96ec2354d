package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// Config resolves the references and reads the certificates on this node. Errors never hold key material.
func (t *TLS) Config() (*tls.Config, error) {
	name, err := t.ServerName.Resolve()
	if err != nil {
		return nil, fmt.Errorf("tls server_name: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: t.SkipVerify}
	if t.CA != "" {
		pem, err := readPEM(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls ca: no certificate found")
		}
	}
	if t.Cert == "" {
		return c, nil
	}
	cert, err := readPEM(t.Cert)
	if err != nil {
		return nil, fmt.Errorf("tls cert: %w", err)
	}
	key, err := readPEM(t.Key)
	if err != nil {
		return nil, fmt.Errorf("tls key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls cert and key: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// readPEM returns PEM text: what the reference resolves to, or the file that this names.
func readPEM(r Ref) ([]byte, error) {
	s, err := r.Resolve()
	if err != nil {
		return nil, err
	}
	if strings.Contains(s, "-----BEGIN") {
		return []byte(s), nil
	}
	if r.IsReference() && strings.ContainsAny(s, "\n") {
		return nil, fmt.Errorf("%s is neither PEM nor a file's name", r)
	}
	b, err := os.ReadFile(s)
	if err != nil && r.IsReference() {
		return nil, fmt.Errorf("%s is neither PEM nor the name of a readable file", r)
	}
	return b, err
}
