package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
)

// Ref is connector text that may hold ${env:NAME} and ${file:/path}. It stays unresolved wherever it is
// kept, shown, logged or sent; only the node that connects calls Resolve.
type Ref string

// Secret is a Ref that must consist of references alone. It prints as its references, never as a value.
type Secret string

// maxRefFile bounds the file that a ${file:…} names, in bytes.
const maxRefFile = 1 << 20

var refPattern = regexp.MustCompile(`\$\{([a-z]*):?([^}]*)\}`)

// Resolve replaces the references by the environment and files of this process. Errors name the reference,
// never a value. The result must not be logged.
func (r Ref) Resolve() (string, error) {
	var firstErr error
	s := refPattern.ReplaceAllStringFunc(string(r), func(m string) string {
		parts := refPattern.FindStringSubmatch(m)
		v, err := resolveRef(parts[1], parts[2])
		if err != nil && firstErr == nil {
			firstErr = fmt.Errorf("resolve %s: %w", m, err)
		}
		return v
	})
	if firstErr != nil {
		return "", firstErr
	}
	return s, nil
}

func resolveRef(scheme, arg string) (string, error) {
	switch scheme {
	case "env":
		v, ok := os.LookupEnv(arg)
		if !ok || v == "" {
			return "", fmt.Errorf("the environment variable %s is not set on this node", arg)
		}
		return v, nil
	case "file":
		return readRefFile(arg)
	}
	return "", fmt.Errorf("unknown kind of reference %q", scheme)
}

func readRefFile(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if st.Size() > maxRefFile {
		return "", fmt.Errorf("%s has %d bytes, more than %d", path, st.Size(), maxRefFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// ResolveAll resolves a list in which one reference may stand for several values divided by commas, as in
// brokers: ["${env:KAFKA}"].
func ResolveAll(refs []Ref) ([]string, error) {
	var out []string
	for _, r := range refs {
		s, err := r.Resolve()
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out, nil
}

// IsReference says that the text is made of references alone.
func (r Ref) IsReference() bool { return r != "" && refPattern.ReplaceAllString(string(r), "") == "" }

// Resolve is Ref.Resolve. It refuses text that is not a reference.
func (s Secret) Resolve() (string, error) {
	if s == "" {
		return "", nil
	}
	if !Ref(s).IsReference() {
		return "", fmt.Errorf("resolve secret: plain text; use ${env:X} or ${file:X}")
	}
	return Ref(s).Resolve()
}

const redacted = "[redacted]"

// String is the reference, or "[redacted]" if the secret is plain text after all.
func (s Secret) String() string {
	if s == "" || Ref(s).IsReference() {
		return string(s)
	}
	return redacted
}

// GoString is String, so that %#v redacts too.
func (s Secret) GoString() string { return fmt.Sprintf("config.Secret(%q)", s.String()) }

// LogValue is String, for log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes String.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
