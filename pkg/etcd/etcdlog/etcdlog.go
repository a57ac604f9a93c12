// Package etcdlog says of the last lines of etcd's output why it ended.
package etcdlog

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxRawLines is how many of etcd's last lines are shown where none of them says why it ended.
const maxRawLines = 5

// maxCause bounds what [Cause] returns, in bytes.
const maxCause = 300

// Cause returns in one line why etcd ended, as far as its last lines say: what ended it
// rather than the errors before and the stack after it. It is empty where there are no lines.
func Cause(lines []string) (cause string) {
	best := 0
	for _, line := range lines {
		text, level := logged(line)
		if n := weight(text, level); n >= best && text != "" {
			best, cause = n, text
		}
	}
	if len(cause) > maxCause {
		cause = strings.ToValidUTF8(cause[:maxCause], "") + "..."
	}
	return strings.TrimSpace(cause)
}

// weight says how well a line of that level shows why etcd ended. One without a level is
// not of etcd's log.
func weight(text, level string) int {
	switch {
	case level == "fatal":
		return 4
	case level == "panic" || level == "dpanic":
		return 3
	case level == "" && strings.Contains(text, "panic:"):
		return 2
	case level == "error":
		return 1
	}
	return 0
}

// LastWords returns those of etcd's last lines that say why it ended, each once and without what
// is not for people: of its own log the errors, and what is not of that, as a panic. Where there
// are none, it is the last few lines.
func LastWords(lines []string) []string {
	var words []string
	for _, line := range lines {
		if text, level := logged(line); mayEnd(level) && !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		return lines[max(0, len(lines)-maxRawLines):]
	}
	return words
}

// mayEnd says that a line of that level may be why etcd ended.
func mayEnd(level string) bool {
	return slices.Contains([]string{"", "error", "dpanic", "panic", "fatal"}, level)
}

// logged returns what a line of etcd's output says, and its level: none where it is not of
// etcd's log.
func logged(line string) (text, level string) {
	var entry struct {
		Level string `json:"level"`
		Text  string `json:"msg"`
		Error string `json:"error"`
	}
	if !strings.HasPrefix(line, "{") {
		return line, ""
	}
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Level == "" {
		// A long line is cut off, in the middle of a stack as a rule.
		entry.Level, entry.Text, entry.Error = quoted(line, "level"), quoted(line, "msg"), quoted(line, "error")
		if entry.Text == "" {
			return line, ""
		}
	}
	if entry.Error != "" {
		entry.Text += ": " + entry.Error
	}
	return entry.Text, entry.Level
}

// quoted returns the text of a field of a JSON object that need not be whole, "" for none.
func quoted(line, field string) (text string) {
	_, rest, found := strings.Cut(line, `"`+field+`":`)
	if !found {
		return ""
	}
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&text); err != nil {
		return ""
	}
	return text
}
