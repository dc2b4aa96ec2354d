package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const canary = "canary-8e1f"

// TestSecretsNeverShow: a job prints, logs and renders references, never what they stand for.
func TestSecretsNeverShow(t *testing.T) {
	for _, name := range []string{"KAFKA", "KAFKA_USER", "PASSWORD"} {
		t.Setenv(name, canary)
	}
	j := mustParse(t, strings.Replace(wallet, "${file:/run/secrets/kafka}", "${env:PASSWORD}", 1))
	if got, err := j.Connections[0].Kafka.SASL.Password.Resolve(); got != canary || err != nil {
		t.Fatalf("Resolve: got %q, %v", got, err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("job", "job", j, "sasl", j.Connections[0].Kafka.SASL)
	asJSON, err := json.Marshal(j.Connections)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"%v": fmt.Sprintf("%v", j), "%+v": fmt.Sprintf("%+v", j.Connections[0].Kafka.SASL), "%#v": fmt.Sprintf("%#v", j.Connections[0].Kafka.SASL),
		"JSON": string(j.JSON()), "json.Marshal": string(asJSON), "log": log.String(),
	} {
		if strings.Contains(text, canary) {
			t.Errorf("%s shows a secret: %s", what, text)
		}
	}
	if !strings.Contains(string(j.JSON()), `"password": "${env:PASSWORD}"`) {
		t.Errorf("JSON lost the reference: %s", j.JSON())
	}
}

// TestSecretOfPlainTextRedacts: even a Secret that was made by hand does not print its text.
func TestSecretOfPlainTextRedacts(t *testing.T) {
	s := struct{ Password Secret }{canary}
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "password", s.Password)
	for what, text := range map[string]string{
		"%v": fmt.Sprintf("%v", s), "%s": s.Password.String(), "%q": fmt.Sprintf("%q", s.Password), "%#v": fmt.Sprintf("%#v", s), "json": string(asJSON), "log": log.String(),
	} {
		if strings.Contains(text, canary) || !strings.Contains(text, "redacted") {
			t.Errorf("%s: got %s, want it redacted", what, text)
		}
	}
	if _, err := s.Password.Resolve(); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("Resolve of plain text: got %v, want an error without the text", err)
	}
}

// TestProblemsNeverRepeatSecrets: a mistake at a place for secrets does not show what stands there.
func TestProblemsNeverRepeatSecrets(t *testing.T) {
	for _, c := range []struct{ old, new string }{
		{`["b:9092"]`, `["b:9092"], sasl: {mechanism: plain, user: u, password: ` + canary + `}`},
		{`["b:9092"]`, `["b:9092"], sasl: {mechanism: plain, user: u, password: ["` + canary + `"]}`},
		{`["b:9092"]`, `["b:9092"], sasl: {mechanism: plain, user: u, password: "${env:X}` + canary + `"}`},
		{`["b:9092"]`, `["b:9092"], tls: {cert: /c, key: "-----BEGIN ` + canary + `"}`},
		{`"b:9092"`, `"kafka://u:` + canary + `@b:9092"`},
		{"name: m", "name: m\ncheckpoint: {storage: \"s3://u:" + canary + "@b\"}"},
		{"name: m", "name: m\ncheckpoint: {storage: \"s3://u:" + canary + "%zz@b\"}"},
	} {
		_, err := ParseJob("j", []byte(strings.Replace(minimal, c.old, c.new, 1)))
		if err == nil {
			t.Errorf("%s: accepted", c.new)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: message shows the secret: %v", c.new, err)
		}
	}
}
