package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// logTail is how many lines of each log a failed test prints.
const logTail = 60

// printLogs prints the ends of all logs: of etcd's lines only the errors.
func (c *Cluster) printLogs() {
	c.t.Helper()
	for _, n := range c.Nodes() {
		b, err := os.ReadFile(n.Log)
		if err != nil {
			continue // never started
		}
		var lines []string
		for line := range strings.Lines(string(b)) {
			if !ordinary.MatchString(line) {
				lines = append(lines, strings.TrimSuffix(line, "\n"))
			}
		}
		lines = lines[max(0, len(lines)-logTail):]
		c.t.Logf("---- log of %s (%s), its last %d lines without etcd's ordinary ones:\n%s", n.Name, n.Address, len(lines),
			strings.Join(lines, "\n"))
	}
	for _, name := range []string{"etcd-cluster-spec", "etcd-cluster-created", "status", "history"} {
		if b, err := os.ReadFile(filepath.Join(c.Store, "control", name)); err == nil {
			c.t.Logf("---- store: %s:\n%s", name, b[max(0, len(b)-3000):])
		}
	}
}

// ordinary are etcd's lines that are not about an error of its own. That
// another member does not answer is a warning, and repeated forever.
var ordinary = regexp.MustCompile(`^etcd: .*"level":"(info|warn)"`)

// Said returns the part of the node's log from offset on.
func (n *Node) Said(offset int) string {
	b, _ := os.ReadFile(n.Log) // nothing was said where there is none
	return string(b[min(offset, len(b)):])
}

// LogSize returns how long the node's log is now.
func (n *Node) LogSize() int { return len(n.Said(0)) }

// WaitSaid waits until the node's log has a line with all the parts, after
// offset.
func (n *Node) WaitSaid(within time.Duration, offset int, parts ...string) string {
	n.c.t.Helper()
	var found string
	n.c.Eventually(within, fmt.Sprintf("%s says %q", n.Name, parts), func(context.Context) error {
		var last string
		for line := range strings.Lines(n.Said(offset)) {
			if containsAll(line, parts) {
				found = line
				return nil
			}
			last = line
		}
		return fmt.Errorf("its last line is %q", last)
	})
	return found
}

func containsAll(line string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(line, p) {
			return false
		}
	}
	return true
}

// panicked returns the first line of a panic in the log, "" if there is none.
func (n *Node) panicked() string {
	b, _ := os.ReadFile(n.Log)
	for _, mark := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
		if i := bytes.Index(b, []byte("\n"+mark)); i >= 0 {
			line, _, _ := bytes.Cut(b[i+1:], []byte("\n"))
			return string(line)
		}
	}
	return ""
}
