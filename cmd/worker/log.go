package worker

import "log/slog"

// sdkLogger takes the Temporal SDK's log a level down: what it calls an error, an activity that fails with a
// typed cause, is the control plane's ordinary business and stands in the workflow's history.
type sdkLogger struct{ log *slog.Logger }

// Debug implements log.Logger: the SDK's own details are of no use here.
func (sdkLogger) Debug(string, ...any) {}

// Info implements log.Logger.
func (l sdkLogger) Info(msg string, kv ...any) { l.log.Debug(msg, kv...) }

// Warn implements log.Logger.
func (l sdkLogger) Warn(msg string, kv ...any) { l.log.Debug(msg, kv...) }

// Error implements log.Logger.
func (l sdkLogger) Error(msg string, kv ...any) {
	if msg == "Activity error." {
		l.log.Debug(msg, kv...)
		return
	}
	l.log.Warn(msg, kv...)
}
