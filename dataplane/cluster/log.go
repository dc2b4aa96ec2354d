package cluster

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// stdLogger returns a standard logger, as memberlist wants it, that writes to l.
func stdLogger(l *slog.Logger) *log.Logger { return log.New(logBridge{l}, "", 0) }

// logBridge turns memberlist's lines ("[WARN] memberlist: text") into records of slog.
type logBridge struct{ to *slog.Logger }

// Write implements io.Writer; the log package calls it once per line.
func (b logBridge) Write(line []byte) (int, error) {
	level, text := parseLine(line)
	b.to.Log(context.Background(), level, string(text))
	return len(line), nil
}

// parseLine splits level and text. Memberlist's lines report each probe and each step of a suspicion, several a
// second while a restarted process listens at a dead one's address; what comes of them is logged by this package.
// So all but the errors are for debugging here.
func parseLine(line []byte) (slog.Level, []byte) {
	text := bytes.TrimSpace(line)
	level := slog.LevelInfo
	if bytes.HasPrefix(text, []byte("[")) {
		if end := bytes.IndexByte(text, ']'); end > 0 {
			switch string(text[1:end]) {
			case "DEBUG", "INFO", "WARN":
				level = slog.LevelDebug
			case "ERR", "ERROR":
				level = slog.LevelError
			}
			text = text[end+1:]
		}
	}
	text = bytes.TrimPrefix(bytes.TrimSpace(text), []byte("memberlist: "))
	return level, text
}
