package gossip

import "strings"

// A logWriter passes on memberlist's log, a line at a time.
type logWriter struct {
	log func(format string, args ...any)
}

// Write drops what nobody reads: debug lines, and the advice to encrypt, which
// does not know that the connection does.
func (w logWriter) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if strings.HasPrefix(line, "[DEBUG]") || strings.Contains(line, "without encryption") {
		return len(b), nil
	}
	if _, text, ok := strings.Cut(line, "] memberlist: "); ok {
		line = text
	}
	w.log("gossip: %s", line)
	return len(b), nil
}
