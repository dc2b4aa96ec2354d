package cluster

import (
	"log/slog"
	"strings"
	"testing"
)

func TestMetadataRoundTrip(t *testing.T) {
	in := metadata{Exchange: "10.0.0.1:7001", HTTP: "10.0.0.1:7002", Slots: 4, Free: 1, Version: "v1.2.3", Leaving: true}
	b, err := in.encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := decodeMetadata(b)
	if err != nil || out != in {
		t.Errorf("decode = %+v, %v, want %+v", out, err, in)
	}
	if _, err := (metadata{Exchange: strings.Repeat("x", 600)}).encode(); err == nil {
		t.Error("600 bytes of metadata were accepted")
	}
}

func TestMetadataRefused(t *testing.T) {
	for name, in := range map[string]string{
		"empty":          ``,
		"not JSON":       `consul`,
		"wrong type":     `{"x":"10.0.0.1:1","s":"4"}`,
		"no address":     `{"s":4,"f":4}`,
		"no port":        `{"x":"10.0.0.1","s":4,"f":4}`,
		"port 0":         `{"x":"10.0.0.1:0","s":4,"f":4}`,
		"any host":       `{"x":"0.0.0.0:7001","s":4,"f":4}`,
		"more free":      `{"x":"10.0.0.1:7001","s":4,"f":5}`,
		"negative slots": `{"x":"10.0.0.1:7001","s":-1,"f":-1}`,
		"too long":       `{"x":"10.0.0.1:7001","v":"` + strings.Repeat("v", 512) + `"}`,
	} {
		if m, err := decodeMetadata([]byte(in)); err == nil {
			t.Errorf("%s: decoded %+v, want an error", name, m)
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	f.Add([]byte(`{"x":"10.0.0.1:7001","h":"h:1","s":4,"f":1,"v":"v","l":true}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMetadata(b)
		if err != nil {
			return
		}
		if err := checkAddr(m.Exchange); err != nil || m.Free < 0 || m.Free > m.Slots {
			t.Errorf("decoded %+v from %q", m, b)
		}
	})
}

func TestParseLine(t *testing.T) {
	for _, tc := range []struct {
		line  string
		level slog.Level
		text  string
	}{
		{"[WARN] memberlist: Refuting a suspect message (from: a)\n", slog.LevelDebug, "Refuting a suspect message (from: a)"},
		{"[ERR] memberlist: Push/Pull with a failed: x\n", slog.LevelError, "Push/Pull with a failed: x"},
		{"[INFO] memberlist: Suspect a has failed\n", slog.LevelDebug, "Suspect a has failed"},
		{"[ERR] Failed to shutdown transport: x\n", slog.LevelError, "Failed to shutdown transport: x"},
		{"no level\n", slog.LevelInfo, "no level"},
		{"[unclosed\n", slog.LevelInfo, "[unclosed"},
	} {
		level, text := parseLine([]byte(tc.line))
		if level != tc.level || string(text) != tc.text {
			t.Errorf("parseLine(%q) = %v, %q, want %v, %q", tc.line, level, text, tc.level, tc.text)
		}
	}
}
