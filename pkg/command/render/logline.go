package render

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxRawLines is how many of etcd's last lines are shown where none of them says why it ended.
const maxRawLines = 5

// LastWords returns those of etcd's last lines that say why it ended, each once and without what
// is not for people: of its own log the errors, and what is not of that, as a panic. Where there
// are none, it is the last few lines.
func LastWords(lines []string) []string {
	var words []string
	for _, line := range lines {
		if text, why := logged(line); why && !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		return lines[max(0, len(lines)-maxRawLines):]
	}
	return words
}

// logged returns what a line of etcd's output says, and whether it may be why etcd ended.
func logged(line string) (text string, why bool) {
	var entry struct {
		Level string `json:"level"`
		Text  string `json:"msg"`
		Error string `json:"error"`
	}
	if !strings.HasPrefix(line, "{") {
		return line, true
	}
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Level == "" {
		// A long line is cut off, in the middle of a stack as a rule.
		entry.Level, entry.Text, entry.Error = quoted(line, "level"), quoted(line, "msg"), quoted(line, "error")
		if entry.Text == "" {
			return line, true
		}
	}
	if entry.Error != "" {
		entry.Text += ": " + entry.Error
	}
	return entry.Text, slices.Contains([]string{"error", "dpanic", "panic", "fatal"}, entry.Level)
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
