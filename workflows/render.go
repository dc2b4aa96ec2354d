package workflows

import (
	"fmt"
	"strings"
	"time"
)

// maxRows is how many checkpoints the details show.
const maxRows = 10

// render is the job's current details: Markdown for the UI.
func render(v Status, checkpoints []CheckpointRecord) string {
	var b strings.Builder
	b.WriteString(fmt.Sprintf("**%s**", v.State))
	if v.Attempt > 0 {
		b.WriteString(fmt.Sprintf(" · attempt %d", v.Attempt))
	}
	if n := len(v.Nodes); n > 0 {
		b.WriteString(fmt.Sprintf(" on %s", plural(n, "node")))
	}
	b.WriteString(fmt.Sprintf(" · %s", plural(v.Restarts, "restart")))
	if v.Summary != "" {
		b.WriteString(fmt.Sprintf("\n\n%s", line(v.Summary)))
	}
	if v.WaitingFor != "" {
		b.WriteString(fmt.Sprintf("\n\nWaiting: %s", line(v.WaitingFor)))
	}
	if v.LastFailure != "" {
		b.WriteString(fmt.Sprintf("\n\nLast failure: %s", line(v.LastFailure)))
	}
	for _, w := range v.Warnings {
		b.WriteString(fmt.Sprintf("\n\nWarning: %s", line(w)))
	}
	if len(checkpoints) > 0 {
		b.WriteString("\n\n| checkpoint | result | at (UTC) | took | state | uploaded | records | lag |\n|--:|---|---|--:|--:|--:|--:|--:|\n")
		for _, c := range checkpoints[:min(len(checkpoints), maxRows)] {
			b.WriteString(row(c))
		}
	}
	return b.String()
}

func row(c CheckpointRecord) string {
	result := c.Result
	if c.Final {
		result += ", final"
	}
	if c.Reason != "" {
		result += ": " + cell(c.Reason)
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %s | %s | %s | %s |\n", c.ID, result, c.At.UTC().Format("15:04:05"),
		millis(c.TookMs), size(c.Stats.Bytes), size(c.Stats.Uploaded), grouped(c.Stats.Records), lag(c.Stats.LagRecords))
}

// brief is a checkpoint in a few words, for the timer that follows it.
func brief(c CheckpointRecord) string {
	if c.Result == Committed || c.Result == Durable {
		return fmt.Sprintf("after checkpoint %d · %s · %s", c.ID, size(c.Stats.Bytes), millis(c.TookMs))
	}
	return fmt.Sprintf("after checkpoint %d · %s", c.ID, c.Result)
}

// size formats bytes in binary units: 1.3 MiB.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", f, [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}

func millis(ms int64) string {
	if ms < 10_000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func lag(records int64) string {
	if records < 0 {
		return "?"
	}
	return grouped(records)
}

// grouped formats a count in groups of three digits: 24,273,392.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// line keeps text to one paragraph of bounded length.
func line(text string) string { return clip(strings.Join(strings.Fields(text), " "), 600) }

// cell is line for a table cell.
func cell(text string) string {
	return clip(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|"), 160)
}

func clip(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return string(r[:most-1]) + "…"
}
